//! Which code of ggml-cpu multiplies a matrix (`ggml_compute_forward_mul_mat`, ggml-cpu.c), and one element of it.

use super::dot::dot_in_one_register;
use super::dot_pairs::dot_in_one_register_of_pairs;
use super::quantised::{dot_blocks, dot_of_llamafile, dot_of_tile};
use super::repacked::{dot_repacked, in_group, is_in_group, is_known, is_repacked};
use super::{Activation, Factor, Ggml, Isa, dot_bf16, dot_f16, dot_f32};
use crate::tensor::GgmlType;

/// Columns from which on tiles are taken (`ggml_tiled_min_batch`, tiled.cpp).
const TILED_MIN_BATCH: usize = 8;
/// Columns from which on llamafile's kernels are (`llamafile_sgemm`, sgemm.cpp).
const LLAMAFILE_MIN_BATCH: usize = 2;

/// A product of matrices, as far as it decides how it is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The type of the first source.
    pub ty: GgmlType,
    /// Its rows: elements of a column of the result.
    pub rows: usize,
    /// Columns of one matrix of the second source: tokens.
    pub columns: usize,
    /// Whether the second source lies in memory without gaps, in its own order.
    pub contiguous: bool,
}

/// The code that multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// `ggml_vec_dot_*`, one element at a time.
    VecDot,
    /// llamafile's `tinyBLAS`, for several columns.
    Llamafile,
    /// The tiles of tiled.cpp: K-quants, for many columns.
    Tiled,
    /// The kernels for repacked weights that take four columns at once.
    RepackedGemm,
    /// The kernels for repacked weights that take one column.
    RepackedGemv,
}

impl Kernel {
    /// The one that ggml-cpu takes where the first source is a weight, which may be repacked; but see [`Kernel::at`].
    pub fn of_weight(ggml: Ggml, shape: Shape) -> Kernel {
        if is_repacked(ggml, shape.ty, shape.rows) { Kernel::RepackedGemm } else { Kernel::of(ggml, shape) }
    }

    /// The one that it takes where nothing was repacked.
    pub fn of(ggml: Ggml, shape: Shape) -> Kernel {
        use GgmlType::{BF16, F16, F32, Q2_K, Q3_K, Q4_0, Q4_K, Q5_0, Q5_K, Q6_K, Q8_0};
        let Shape { ty, rows, columns, contiguous } = shape;
        if ggml.isa == Isa::Sse2 || ggml.reference_kernels {
            return Kernel::VecDot;
        }
        if matches!(ty, Q2_K | Q3_K | Q4_K | Q5_K | Q6_K) && columns >= TILED_MIN_BATCH {
            return Kernel::Tiled;
        }
        if !ggml.llamafile || columns < LLAMAFILE_MIN_BATCH {
            return Kernel::VecDot;
        }
        // f32 is multiplied where it lies; what is rounded is contiguous afterwards.
        match ty {
            F32 if contiguous && rows.is_multiple_of(4) => Kernel::Llamafile,
            F16 | BF16 if rows.is_multiple_of(4) => Kernel::Llamafile,
            Q4_0 | Q5_0 | Q8_0 => Kernel::Llamafile,
            _ => Kernel::VecDot,
        }
    }

    /// The one that it takes for one of the columns: what is left behind the last four has another with repacked weights.
    pub fn at(self, columns: usize, column: usize) -> Kernel {
        match self {
            Kernel::RepackedGemm if !is_in_group(columns, column) => Kernel::RepackedGemv,
            own => own,
        }
    }

    /// Whether an order of operations is known for such weights.
    pub fn is_known(self, isa: Isa, ty: GgmlType) -> bool {
        !matches!(self, Kernel::RepackedGemm | Kernel::RepackedGemv) || is_known(isa, ty)
    }

    /// A row of f32 as this code takes it in front of weights of type `ty`; none if that is not known.
    pub fn take(self, isa: Isa, ty: GgmlType, row: &[f32]) -> Option<Activation> {
        match self {
            Kernel::RepackedGemm => in_group(isa, ty, row),
            _ => Activation::of(isa, ty, row),
        }
    }

    /// An element of the result; none for types that do not go together.
    pub fn dot(self, isa: Isa, row: &Factor, x: &Activation) -> Option<f32> {
        match (self, row, x) {
            (kernel, &Factor::Floats(ty, ref row), Activation::Floats(x)) => {
                Some(Product { kernel, ty }.dot(isa, row, x))
            }
            (Kernel::VecDot, Factor::Blocks(ty, row), x) => dot_blocks(isa, *ty, row, x),
            (Kernel::Llamafile, Factor::Blocks(ty, row), x) => dot_of_llamafile(*ty, row, x),
            (Kernel::Tiled, Factor::Blocks(ty, row), x) => dot_of_tile(*ty, row, x),
            (Kernel::RepackedGemm, Factor::Blocks(ty, row), x) => dot_repacked(isa, *ty, row, x, true),
            (Kernel::RepackedGemv, Factor::Blocks(ty, row), x) => dot_repacked(isa, *ty, row, x, false),
            _ => None,
        }
    }
}

/// How an element of a product of floats is formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Product {
    /// The code that multiplies.
    pub kernel: Kernel,
    /// The type of the first factor, which the second is rounded to.
    pub ty: GgmlType,
}

impl Default for Product {
    /// One element of f32 at a time.
    fn default() -> Product {
        Product { kernel: Kernel::VecDot, ty: GgmlType::F32 }
    }
}

impl Product {
    /// Of a product of this shape, in the order of operations of the build that is followed; the default if none is.
    pub fn of(ggml: Option<Ggml>, shape: Shape) -> Product {
        ggml.map_or_else(Product::default, |ggml| Product { kernel: Kernel::of(ggml, shape), ty: shape.ty })
    }

    /// The element, of values that the type holds.
    pub fn dot(self, isa: Isa, x: &[f32], y: &[f32]) -> f32 {
        match (self.kernel, self.ty) {
            (Kernel::Llamafile, GgmlType::BF16) if isa == Isa::Avx512 => dot_in_one_register_of_pairs(x, y),
            (Kernel::Llamafile, _) => dot_in_one_register(isa, x, y),
            (_, GgmlType::F16) => dot_f16(isa, x, y),
            (_, GgmlType::BF16) => dot_bf16(isa, x, y),
            _ => dot_f32(isa, x, y),
        }
    }
}

/// `ggml_compute_forward_fwht` (ops.cpp): a product with a Hadamard matrix. The scale comes first; low strides lie within a
/// register, the others subtract by a fused product with -1, which rounds as a difference does.
pub fn fwht(row: &mut [f32]) {
    let scale = 1.0 / (row.len() as f32).sqrt();
    row.iter_mut().for_each(|x| *x *= scale);
    let mut stride = 1;
    while stride < row.len() {
        for pair in row.chunks_exact_mut(2 * stride) {
            let (low, high) = pair.split_at_mut(stride);
            low.iter_mut().zip(high).for_each(|(a, b)| (*a, *b) = (*a + *b, *a - *b));
        }
        stride *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_depends_on_types_columns_and_build() {
        let avx2 = Ggml { isa: Isa::Avx2, llamafile: true, ..Ggml::of("CPU : ").unwrap() };
        let of =
            |ggml, ty, rows, columns, contiguous| Kernel::of(ggml, Shape { ty, rows, columns, contiguous });
        use GgmlType::{F32, Q4_1, Q4_K, Q8_0};
        assert_eq!(of(avx2, F32, 64, 1, true), Kernel::VecDot);
        assert_eq!(of(avx2, F32, 64, 2, true), Kernel::Llamafile);
        assert_eq!(of(avx2, F32, 64, 2, false), Kernel::VecDot);
        assert_eq!(of(avx2, F32, 6, 2, true), Kernel::VecDot);
        assert_eq!(of(avx2, Q8_0, 6, 2, false), Kernel::Llamafile);
        assert_eq!(of(avx2, Q4_1, 64, 20, true), Kernel::VecDot);
        assert_eq!([7, 8].map(|n| of(avx2, Q4_K, 64, n, true)), [Kernel::VecDot, Kernel::Tiled]);
        let scalar = Ggml { isa: Isa::Sse2, ..avx2 };
        assert_eq!(of(scalar, Q4_K, 64, 20, true), Kernel::VecDot);
        let reference = Ggml { reference_kernels: true, ..avx2 };
        assert_eq!(of(reference, F32, 64, 20, true), Kernel::VecDot);
    }

    #[test]
    fn the_transform_of_a_unit_is_flat() {
        let mut row = [0.0; 16];
        row[0] = 1.0;
        fwht(&mut row);
        assert_eq!(row, [0.25; 16]);
    }

    #[test]
    fn pairs_of_bf16_are_multiplied_with_avx_512_alone() {
        // Sixteen lanes of pairs: x[0] and x[1] share one with x[33]. Else x[1] and x[33] do, and x[0] comes to them at the end.
        let big = 16_777_216.0; // 2^24: with 1 more it is no f32
        let mut x = [0.0; 34];
        (x[0], x[1], x[33]) = (big, 1.0, -big);
        let of = |ty, isa| Product { kernel: Kernel::Llamafile, ty }.dot(isa, &x, &[1.0; 34]);
        assert_eq!((of(GgmlType::BF16, Isa::Avx512), of(GgmlType::F16, Isa::Avx512)), (0.0, 1.0));
        assert_eq!((of(GgmlType::BF16, Isa::Avx2), of(GgmlType::F16, Isa::Avx2)), (1.0, 1.0));
    }
}
