//! Launches of kernels/kv_append.cu, and caches of any of its types.

use super::super::{Arg, Device, GpuError, Grid, Part, PartMut};

const THREADS: usize = 256;

/// Keys or values of a cache, `[n_cells, n_embd_kv]`, to be read.
#[derive(Clone, Copy)]
pub enum Cells<'a> {
    /// As they were computed.
    F32(Part<'a, f32>),
    /// Half precision, by its bits.
    F16(Part<'a, u16>),
    /// bfloat16, by its bits.
    Bf16(Part<'a, u16>),
}

/// Keys or values of a cache, `[n_cells, n_embd_kv]`, to be written.
pub enum CellsMut<'a> {
    /// As they are computed.
    F32(PartMut<'a, f32>),
    /// Half precision, by its bits.
    F16(PartMut<'a, u16>),
    /// bfloat16, by its bits.
    Bf16(PartMut<'a, u16>),
}

impl Cells<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Cells::F32(part) => part.len(),
            Cells::F16(part) | Cells::Bf16(part) => part.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn is_aligned(&self, bytes: u64) -> bool {
        match self {
            Cells::F32(part) => part.is_aligned(bytes),
            Cells::F16(part) | Cells::Bf16(part) => part.is_aligned(bytes),
        }
    }

    pub(super) fn arg(&self) -> Arg {
        match self {
            Cells::F32(part) => part.into(),
            Cells::F16(part) | Cells::Bf16(part) => part.into(),
        }
    }

    /// Which of three kernels reads it: f32, f16, bf16.
    pub(super) fn kernel(&self, names: [&'static str; 3]) -> &'static str {
        match self {
            Cells::F32(_) => names[0],
            Cells::F16(_) => names[1],
            Cells::Bf16(_) => names[2],
        }
    }
}

impl CellsMut<'_> {
    /// Two caches of one type, and which of three kernels writes them: f32, f16, bf16.
    ///
    /// # Panics
    /// If they are of two types or sizes, or their cells do not hold `n_embd_kv` values.
    pub(super) fn pair(
        k: CellsMut<'_>,
        v: CellsMut<'_>,
        n_embd_kv: usize,
        names: [&'static str; 3],
    ) -> (&'static str, [Arg; 2]) {
        let check = |a: usize, b: usize| {
            assert!(a == b && a > 0 && a.is_multiple_of(n_embd_kv), "caches of {a} and {b} values");
        };
        match (k, v) {
            (CellsMut::F32(a), CellsMut::F32(b)) => {
                check(a.len(), b.len());
                (names[0], [a.into(), b.into()])
            }
            (CellsMut::F16(a), CellsMut::F16(b)) => {
                check(a.len(), b.len());
                (names[1], [a.into(), b.into()])
            }
            (CellsMut::Bf16(a), CellsMut::Bf16(b)) => {
                check(a.len(), b.len());
                (names[2], [a.into(), b.into()])
            }
            _ => panic!("caches of two types"),
        }
    }
}

/// Puts rows `k` and `v` `[n_tokens, n_embd_kv]` into the cells of the tokens, rounded to the type of the caches.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or the caches are of two types.
pub fn kv_append(
    device: &Device,
    k_cache: CellsMut<'_>,
    v_cache: CellsMut<'_>,
    k: Part<'_, f32>,
    v: Part<'_, f32>,
    cells: Part<'_, i32>,
) -> Result<(), GpuError> {
    assert!(
        !cells.is_empty() && k.len().is_multiple_of(cells.len()),
        "kv_append: rows of {} tokens",
        cells.len()
    );
    assert_eq!(k.len(), v.len(), "kv_append: k and v");
    let n_embd_kv = k.len() / cells.len();
    let (kernel, caches) =
        CellsMut::pair(k_cache, v_cache, n_embd_kv, ["kv_append_f32", "kv_append_f16", "kv_append_bf16"]);
    let grid = Grid::new_2d([n_embd_kv.div_ceil(THREADS), cells.len()], THREADS);
    device.launch(kernel, grid, &[caches[0], caches[1], k.into(), v.into(), cells.into(), n_embd_kv.into()])
}
