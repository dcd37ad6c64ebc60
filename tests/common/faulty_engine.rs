//! An engine that computes one tensor wrong and goes on with that.

use std::collections::HashMap;

use lockstep::engine::{Engine, EngineError, Snapshot, StateChange, Tap, TapError, Ubatch};
use lockstep::tensor::{TensorId, Values};
use ndarray::Array2;

/// Values of a tensor that came before, the first of its name: `seen(step, name)`.
pub type Seen<'s> = &'s dyn Fn(u32, &str) -> Vec<f32>;

/// Makes the values of a tensor wrong, from what came before it. It serves both sides: an engine's tensor and a dump's.
pub type Fault = fn(seen: Seen<'_>, step: u32, values: &mut [f32]);

/// An engine with a fault at the first tensor of one name in each step.
pub struct FaultyEngine<E> {
    engine: E,
    name: &'static str,
    fault: Fault,
    seen: HashMap<TensorId, Vec<f32>>,
}

impl<E> FaultyEngine<E> {
    pub fn new(engine: E, name: &'static str, fault: Fault) -> FaultyEngine<E> {
        FaultyEngine { engine, name, fault, seen: HashMap::new() }
    }
}

impl<E: Engine> Engine for FaultyEngine<E> {
    fn name(&self) -> String {
        format!("{} with a fault at {}", self.engine.name(), self.name)
    }

    fn step(&mut self, ubatch: &Ubatch, tap: &mut dyn Tap) -> Result<Array2<f32>, EngineError> {
        let mut tap = FaultyTap { tap, name: self.name, fault: self.fault, seen: &mut self.seen };
        self.engine.step(ubatch, &mut tap)
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
        self.seen.clear();
        self.engine.reset();
    }
}

struct FaultyTap<'a> {
    tap: &'a mut dyn Tap,
    name: &'static str,
    fault: Fault,
    /// What the engine went on with, tensor by tensor.
    seen: &'a mut HashMap<TensorId, Vec<f32>>,
}

impl Tap for FaultyTap<'_> {
    fn tensor(
        &mut self,
        id: &TensorId,
        ne: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        let Values::F32(own) = values else { panic!("the engine computes in f32") };
        let mut own = own.to_vec();
        let is_faulty = id.name == self.name && id.occurrence == 0;
        if is_faulty {
            let seen = |step, name: &str| {
                let id = TensorId { step, name: name.to_owned(), occurrence: 0 };
                self.seen.get(&id).unwrap_or_else(|| panic!("{id} did not come before")).clone()
            };
            (self.fault)(&seen, id.step, &mut own);
        }
        let answer = self.tap.tensor(id, ne, Values::F32(&own))?;
        let goes_on_with = answer.or_else(|| is_faulty.then(|| own.clone()));
        self.seen.insert(id.clone(), goes_on_with.clone().unwrap_or(own));
        Ok(goes_on_with)
    }

    fn rounds_like(&mut self, id: &TensorId) -> Result<Option<Vec<f32>>, TapError> {
        self.tap.rounds_like(id)
    }

    fn is_active(&self) -> bool {
        self.tap.is_active()
    }
}
