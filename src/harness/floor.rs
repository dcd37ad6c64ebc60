//! The noise floor: what rounding alone does to every tensor, measured by the same engine in two arithmetics.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use thiserror::Error;

use super::HarnessError;
use super::Step;
use super::reference::reference_of;
use crate::compare::Metrics;
use crate::dump::Dump;
use crate::engine::{Engine, Tap, TapError};
use crate::tensor::{GgmlType, TensorId, Values};

/// Per tensor, the relative L2 of an f32 run from an f64 run of the same tokens.
pub type Floor = HashMap<TensorId, f64>;

/// Tensors that may wait between the two engines.
const WAITING: usize = 4;

/// Takes both engines through `steps` side by side. Where they round on purpose, both round as the reference of `dump` did.
///
/// # Errors
/// If an engine cannot run, or they do not give the same tensors.
pub(super) fn measure(
    narrow: &mut dyn Engine,
    wide: &mut (dyn Engine + Send),
    steps: &[Step],
    dump: Option<&Dump>,
) -> Result<Floor, HarnessError> {
    let (sender, receiver) = sync_channel(WAITING);
    let mut taker = Taker { receiver, floor: Floor::new(), dump };
    std::thread::scope(|scope| {
        let giver = scope.spawn(move || {
            let mut giver = Giver { sender, dump };
            steps.iter().try_for_each(|step| step.run(wide, &mut giver).map(drop))
        });
        let taken = steps.iter().try_for_each(|step| step.run(narrow, &mut taker).map(drop));
        let Taker { receiver, floor, .. } = taker;
        drop(receiver); // so that the other side cannot wait for ever
        let given = giver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // If the f64 side failed, the f32 side only says that nothing came.
        match (given, taken) {
            (Err(error), _) if !is_closed(&error) => Err(error.into()),
            (_, Err(error)) => Err(error.into()),
            (Err(error), Ok(())) => Err(error.into()),
            (Ok(()), Ok(())) => Ok(floor),
        }
    })
}

/// Widens a floor by a further dump of the same run under other settings of llama.cpp (threads, flash attention, type of the
/// caches, repacking): what the two references differ by in a tensor of the same name, step and shape. Gives how many tensors
/// both hold.
///
/// # Errors
/// If the other dump is damaged, or of another model or other tokens, or shares no tensor with the first.
pub fn widen(floor: &mut Floor, dump: &Dump, other: &Dump) -> Result<u64, HarnessError> {
    other.verify()?;
    let unlike =
        |what| HarnessError::OtherRun { dump: dump.path().to_owned(), other: other.path().to_owned(), what };
    let (manifest, theirs) = (dump.manifest(), other.manifest());
    if manifest.model.sha256 != theirs.model.sha256 {
        return Err(unlike("is of another model than"));
    }
    manifest.run.same_schedule(&theirs.run).map_err(|difference| HarnessError::OtherSchedule {
        dump: dump.path().to_owned(),
        other: other.path().to_owned(),
        difference: Box::new(difference),
    })?;
    let mut shared = 0;
    for node in dump.nodes().iter().filter(|node| node.is_named() && node.ty == GgmlType::F32) {
        let id = node.id();
        let Some(twin) = other.find(&id).filter(|twin| twin.ty == node.ty && twin.ne == node.ne) else {
            continue;
        };
        let (Some(reference), Some(values)) = (dump.f32(node)?, other.f32(twin)?) else { continue };
        let distance = Metrics::measure(&reference, Values::F32(&values), None)?.relative_l2;
        shared += 1;
        let widest = floor.entry(id).or_insert(0.0);
        *widest = if distance > *widest { distance } else { *widest };
    }
    if shared == 0 { Err(unlike("shares no tensor with")) } else { Ok(shared) }
}

fn is_closed(error: &crate::engine::EngineError) -> bool {
    matches!(error, crate::engine::EngineError::Tap { cause, .. } if cause.is::<Closed>())
}

/// Why the two sides do not go together.
#[derive(Error, Debug)]
#[error("the other arithmetic's run has ended")]
struct Closed;

#[derive(Error, Debug)]
#[error("the f64 run gave {wide}, the f32 run {narrow}")]
struct OtherTensor {
    narrow: TensorId,
    wide: TensorId,
}

struct Giver<'a> {
    sender: SyncSender<(TensorId, Vec<f64>)>,
    dump: Option<&'a Dump>,
}

struct Taker<'a> {
    receiver: Receiver<(TensorId, Vec<f64>)>,
    floor: Floor,
    dump: Option<&'a Dump>,
}

impl Tap for Giver<'_> {
    fn tensor(
        &mut self,
        id: &TensorId,
        _: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        let values = match values {
            Values::F32(values) => values.iter().map(|&x| x.into()).collect(),
            Values::F64(values) => values.to_vec(),
        };
        self.sender.send((id.clone(), values)).map_err(|_| Closed)?;
        Ok(None)
    }

    fn rounds_like(&mut self, id: &TensorId) -> Result<Option<Vec<f32>>, TapError> {
        Ok(self.dump.map_or(Ok(None), |dump| reference_of(dump, id))?)
    }
}

impl Tap for Taker<'_> {
    fn tensor(
        &mut self,
        id: &TensorId,
        _: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        let (wide_id, wide) = self.receiver.recv().map_err(|_| Closed)?;
        if wide_id != *id {
            return Err(OtherTensor { narrow: id.clone(), wide: wide_id }.into());
        }
        let narrow: Vec<f32> = match values {
            Values::F32(values) => values.to_vec(),
            Values::F64(values) => values.iter().map(|&x| x as f32).collect(),
        };
        let metrics = Metrics::measure(&narrow, Values::F64(&wide), None)?;
        self.floor.insert(id.clone(), metrics.relative_l2);
        Ok(None)
    }

    fn rounds_like(&mut self, id: &TensorId) -> Result<Option<Vec<f32>>, TapError> {
        Ok(self.dump.map_or(Ok(None), |dump| reference_of(dump, id))?)
    }
}

/// The largest floor on the way to a tensor: in its own step so far, and in its layer and those before in earlier steps, whose
/// states it reads.
pub(super) struct RunningFloor<'a> {
    floor: &'a Floor,
    step: u32,
    so_far: f64,
    earlier: BTreeMap<u32, f64>,
}

impl<'a> RunningFloor<'a> {
    pub(super) fn new(floor: &'a Floor) -> RunningFloor<'a> {
        RunningFloor { floor, step: 0, so_far: 0.0, earlier: BTreeMap::new() }
    }

    /// The floor of a tensor, in the order in which the engine emits them; none if it was not measured.
    pub(super) fn at(&mut self, id: &TensorId) -> Option<f64> {
        let own = *self.floor.get(id)?;
        if id.step != self.step {
            (self.step, self.so_far) = (id.step, 0.0);
        }
        let earlier =
            id.layer().and_then(|layer| self.earlier.range(..=layer).map(|(_, &floor)| floor).reduce(larger));
        // A tensor that is zero in one run has no relative distance: that says nothing of those behind it.
        let carried = if own.is_finite() { own } else { 0.0 };
        self.so_far = larger(larger(self.so_far, carried), earlier.unwrap_or(0.0));
        if let Some(layer) = id.layer() {
            self.earlier.insert(layer, self.so_far);
        }
        Some(if own.is_finite() { self.so_far } else { own })
    }
}

/// The larger of two numbers.
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_runs_along_the_way_to_a_tensor() {
        let id = |step, name: &str| TensorId { step, name: name.to_owned(), occurrence: 0 };
        let measured = [
            (0, "a-0", 1.0),
            (0, "b-0", 0.5),
            (0, "a-1", 4.0),
            (1, "embed", 0.25),
            (1, "a-0", 0.5),
            (1, "a-1", 2.0),
        ];
        let floor: Floor = measured.iter().map(|&(step, name, floor)| (id(step, name), floor)).collect();
        let mut running = RunningFloor::new(&floor);
        let seen: Vec<f64> =
            measured.iter().map(|&(step, name, _)| running.at(&id(step, name)).unwrap()).collect();
        assert_eq!(seen, [1.0, 1.0, 4.0, 0.25, 1.0, 4.0]);
        assert_eq!(running.at(&id(1, "other")), None);
        let floor: Floor = [(id(0, "a-0"), f64::INFINITY), (id(0, "b-0"), 0.5)].into();
        let mut running = RunningFloor::new(&floor);
        assert_eq!(["a-0", "b-0"].map(|name| running.at(&id(0, name))), [Some(f64::INFINITY), Some(0.5)]);
    }
}
