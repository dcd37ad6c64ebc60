//! An engine whose tensors are changed, dropped or multiplied on their way out.

use lockstep::engine::{Engine, EngineError, Snapshot, StateChange, Tap, TapError, Ubatch};
use lockstep::tensor::{TensorId, Values};
use ndarray::Array2;

/// A tensor on its way out of an engine.
#[derive(Clone)]
pub struct Emitted {
    pub id: TensorId,
    pub ne: [u64; 4],
    pub values: Vec<f32>,
}

/// An engine that goes on as if nothing had been changed. `change` says what is emitted in place of a tensor.
pub struct ChangedEngine<E, F> {
    engine: E,
    change: F,
}

impl<E, F: FnMut(Emitted) -> Vec<Emitted>> ChangedEngine<E, F> {
    pub fn new(engine: E, change: F) -> ChangedEngine<E, F> {
        ChangedEngine { engine, change }
    }
}

impl<E: Engine, F: FnMut(Emitted) -> Vec<Emitted>> Engine for ChangedEngine<E, F> {
    fn name(&self) -> String {
        "changed".to_owned()
    }

    fn step(&mut self, ubatch: &Ubatch, tap: &mut dyn Tap) -> Result<Array2<f32>, EngineError> {
        self.engine.step(ubatch, &mut ChangedTap { tap, change: &mut self.change })
    }

    fn change(&mut self, change: StateChange) -> Result<(), EngineError> {
        self.engine.change(change)
    }

    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        self.engine.snapshot()
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        self.engine.restore(snapshot)
    }

    fn reset(&mut self) {
        self.engine.reset();
    }
}

struct ChangedTap<'a> {
    tap: &'a mut dyn Tap,
    change: &'a mut dyn FnMut(Emitted) -> Vec<Emitted>,
}

impl Tap for ChangedTap<'_> {
    fn tensor(
        &mut self,
        id: &TensorId,
        ne: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        let Values::F32(values) = values else { panic!("the engine computes in f32") };
        let mut answer = None;
        for emitted in (self.change)(Emitted { id: id.clone(), ne, values: values.to_vec() }) {
            let given = self.tap.tensor(&emitted.id, emitted.ne, Values::F32(&emitted.values))?;
            answer = answer.or(given.filter(|given| given.len() == values.len()));
        }
        Ok(answer)
    }

    fn rounds_like(&mut self, id: &TensorId) -> Result<Option<Vec<f32>>, TapError> {
        self.tap.rounds_like(id)
    }

    fn is_active(&self) -> bool {
        self.tap.is_active()
    }
}
