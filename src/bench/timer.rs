//! The time of a launch.

use super::{Bench, BenchError};
use crate::engine::gpu::GpuError;

/// The time of one launch, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// The median of the samples.
    pub(super) us: f64,
    /// The shortest of them.
    pub(super) least_us: f64,
    /// Launches that were timed, all samples together.
    pub(super) launches: usize,
}

/// Bytes that launches go over before they come to the same ones again: several times what a level-2 cache holds (50 MB on an H200).
const ROTATION: usize = 256 << 20;
/// More copies than this are not made of what is small.
const MAX_COPIES: usize = 4096;
/// Launches in one recording, at least.
const RECORDED: usize = 32;
/// Milliseconds of one sample, about.
const SAMPLE_MS: f64 = 20.0;
const SAMPLES: usize = 5;
/// Replays of a recording in one sample, at most.
const MAX_REPLAYS: f64 = 500.0;

impl Bench<'_> {
    /// How many copies there must be of so many bytes.
    pub(super) fn copies(&self, bytes: usize) -> usize {
        if self.is_small { 2 } else { ROTATION.div_ceil(bytes.max(1)).clamp(1, MAX_COPIES) }
    }

    /// Times `launch`, which is given the copy to work on.
    pub(super) fn time(
        &self,
        what: &str,
        copies: usize,
        mut launch: impl FnMut(usize) -> Result<(), GpuError>,
    ) -> Result<Timing, BenchError> {
        let (least, samples, sample_ms) =
            if self.is_small { (1, 1, 0.0) } else { (RECORDED, SAMPLES, SAMPLE_MS) };
        launch(0)?; // compiles it, which cannot be recorded
        self.device.synchronize()?;
        let recorded = copies * least.div_ceil(copies);
        let recording = self.device.record(|| (0..recorded).try_for_each(|i| launch(i % copies)))?;
        let replay = |n: usize| -> Result<f64, BenchError> {
            let ms = self.device.time(|| (0..n).try_for_each(|_| recording.replay()))?;
            Ok(f64::from(ms))
        };
        replay(1)?;
        let once = replay(1)?;
        if once.is_nan() || once <= 0.0 {
            return Err(BenchError::Clock { what: what.to_owned(), got: once });
        }
        let replays = (sample_ms / once).clamp(1.0, MAX_REPLAYS) as usize;
        let mut times = vec![];
        for _ in 0..samples {
            times.push(replay(replays)? * 1e3 / (replays * recorded) as f64);
        }
        times.sort_by(f64::total_cmp);
        Ok(Timing { us: times[times.len() / 2], least_us: times[0], launches: samples * replays * recorded })
    }
}
