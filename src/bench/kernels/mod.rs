//! Kernels one by one, at the sizes of the 27B.

mod attention;
mod delta_net;
mod products;
mod rows;

use super::{Bench, BenchError, CopyRate, Machine, copy_rate};
use crate::engine::gpu::{Buffer, GpuError};
use crate::synth::{BONSAI_27B, Preset};

/// One kernel at one size.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelRow {
    /// What belongs together in a table.
    pub group: &'static str,
    /// The launcher.
    pub kernel: String,
    /// The sizes.
    pub shape: String,
    /// The median time of a launch, in microseconds.
    pub us: f64,
    /// The shortest of the samples.
    pub least_us: f64,
    /// Launches that were timed.
    pub launches: usize,
    /// Copies that launches went over.
    pub copies: usize,
    /// Bytes that a launch must read and write, each once.
    pub bytes: usize,
    /// Products and sums, two for each weight and token; none where the kernel is not a product.
    pub flops: Option<u64>,
}

impl KernelRow {
    /// Bytes per second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / (self.us * 1e-6)
    }

    /// Products and sums per second.
    pub fn flop_rate(&self) -> Option<f64> {
        Some(self.flops? as f64 / (self.us * 1e-6))
    }
}

/// All kernels.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernels {
    /// The device.
    pub machine: Machine,
    /// What rates are compared with.
    pub copy: CopyRate,
    /// In the order in which they were measured.
    pub rows: Vec<KernelRow>,
}

/// The sizes that the emulator gets through: rows of 1024, few of them.
const SMALL: Preset = Preset {
    name: "small",
    about: "one block of the fold in each row",
    n_vocab: 96,
    n_embd: 1024,
    n_ff: 2048,
    n_head: 12,
    n_head_kv: 2,
    n_embd_head: 32,
    ssm_d_state: 32,
    ssm_dt_rank: 6,
    ssm_n_group: 2,
    ..BONSAI_27B
};

/// Measures all kernels.
///
/// # Errors
/// If memory is short or a launch fails.
pub fn bench_kernels(bench: &mut Bench<'_>) -> Result<Kernels, BenchError> {
    let machine = Machine::of(bench.device)?;
    let copy = copy_rate(bench)?;
    let sizes = if bench.is_small { SMALL } else { BONSAI_27B };
    let mut table = Table { bench, sizes, rows: Vec::new() };
    products::few_tokens(&mut table)?;
    products::layouts(&mut table)?;
    products::many_tokens(&mut table)?;
    rows::all(&mut table)?;
    delta_net::all(&mut table)?;
    attention::all(&mut table)?;
    Ok(Kernels { machine, copy, rows: table.rows })
}

/// Rows as they are measured.
struct Table<'a, 'b> {
    bench: &'a mut Bench<'b>,
    sizes: Preset,
    rows: Vec<KernelRow>,
}

/// What a row is besides its time.
struct Label {
    group: &'static str,
    kernel: String,
    shape: String,
    bytes: usize,
    flops: Option<u64>,
}

impl Table<'_, '_> {
    fn add(
        &mut self,
        label: Label,
        copies: usize,
        launch: impl FnMut(usize) -> Result<(), GpuError>,
    ) -> Result<(), BenchError> {
        let Label { group, kernel, shape, bytes, flops } = label;
        let what = format!("{kernel} {shape}");
        (self.bench.progress)(&what);
        let timing = self.bench.time(&what, copies, launch)?;
        let (us, least_us, launches) = (timing.us, timing.least_us, timing.launches);
        self.rows.push(KernelRow { group, kernel, shape, us, least_us, launches, copies, bytes, flops });
        Ok(())
    }

    /// Tokens of a prompt.
    fn many(&self) -> usize {
        if self.bench.is_small { 16 } else { 512 }
    }

    /// Values that are neither all alike nor without end.
    fn values(&self, n: usize) -> Result<Buffer<f32>, GpuError> {
        let of = |i: usize| ((i.wrapping_mul(2_654_435_761) >> 8) % 2048) as f32 / 1024.0 - 1.0;
        self.bench.device.upload(&(0..n).map(of).collect::<Vec<f32>>())
    }

    /// Several buffers of such values.
    fn copies_of_values(&self, n: usize, copies: usize) -> Result<Vec<Buffer<f32>>, GpuError> {
        let one = self.values(n)?;
        let copy = |_| {
            let mut to = self.bench.device.alloc(n)?;
            self.bench.device.copy(&mut to.all_mut(), one.all())?;
            Ok(to)
        };
        (0..copies).map(copy).collect()
    }

    fn room(&self, n: usize, copies: usize) -> Result<Vec<Buffer<f32>>, GpuError> {
        (0..copies).map(|_| self.bench.device.alloc(n)).collect()
    }
}
