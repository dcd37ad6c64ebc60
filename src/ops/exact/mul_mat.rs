//! MUL_MAT: `y[n][t] = sum_k a[k][n] x[k][t]`, per matrix of dimensions 2 and 3.
//!
//! ```text
//! a  {k, n, b2, b3}   x  {k, t, c2, c3}   y  {n, t, c2, c3};  matrix (i2, i3) of x meets (i2 / (c2 / b2), i3 / (c3 / b3)) of a
//! terms = sum_k |a x|, or sum_k |(a - min) x| + |min x| for formats with a minimum, whose two sums ggml forms apart
//! k additions
//! ```
//! Backends round x first, each by a rule of its own; `rounding/` has the rules. Where a rule stores the sum of a block of x, the
//! minima meet that: `sum_k (a - min) x + sum_blocks min s`. A rule of which not every step is known to the last bit says which
//! values are in doubt; an element is then uncertain by the sum of what each doubt moves it.

use std::borrow::Cow;

use rayon::prelude::*;

use super::attention::of_cache;
use super::rounding::{likeliest_on_cpu, possible, sums_are_used};
use super::{
    Data, Exact, Executed, Invocation, Operand, Oracle, OracleError, Rounded, Rounding, Setting,
    round_activation, vec_dot_type,
};
use crate::arithmetic::{Activation, Kernel, Shape};
use crate::tensor::GgmlType;

pub(super) struct MulMat;

impl Oracle for MulMat {
    fn ops(&self) -> &'static [&'static str] {
        &["MUL_MAT"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        self.exact_with(node, likeliest_on_cpu(node.source(0)?.ty().unwrap_or(GgmlType::F32)))
    }

    fn roundings(&self, node: &Invocation<'_>, setting: &Setting) -> Vec<Rounding> {
        let weight = node.source(0).ok().and_then(Operand::ty);
        weight.map_or(vec![Rounding::None], |weight| possible(weight, node.ne[1], setting))
    }

    fn exact_with(&self, node: &Invocation<'_>, rounding: Rounding) -> Result<Exact, OracleError> {
        let matrices = Matrices::of(node)?;
        let Matrices { a, k, ty, .. } = matrices;
        let uses_sums = matches!(rounding, Rounding::Activation(to) if sums_are_used(to, ty));
        let round = |row: &[f32]| match rounding {
            Rounding::None | Rounding::OneChunk { .. } => {
                Rounded { values: row.to_vec(), ..Rounded::default() }
            }
            Rounding::Activation(to) => {
                let rounded = round_activation(to, row);
                Rounded { sums: rounded.sums.filter(|_| uses_sums), ..rounded }
            }
        };
        let activations: Vec<Rounded> = matrices.activations.chunks_exact(k.max(1)).map(round).collect();
        let is_doubtful = activations.iter().any(Rounded::is_doubtful);
        let decoded = |row: usize| {
            let mut minima = vec![0.0; k];
            let has_minima = match &a.data {
                Data::Weight(rows) => {
                    rows.minima_of_row(row, &mut minima)
                        || uses_sums && rows.code_zero_of_row(row, &mut minima)
                }
                _ => false,
            };
            (matrices.row(row), has_minima.then_some(minima))
        };
        let products = matrices.multiplied(decoded, |(weights, minima), token| {
            product(weights, minima.as_deref(), &activations[token])
        });
        let of = |part: fn(&Product) -> f64| products.iter().map(part).collect();
        Ok(Exact {
            values: of(|product| product.sum),
            terms: of(|product| product.terms),
            additions: k as f64,
            flips: if is_doubtful { of(|product| product.doubt) } else { Vec::new() },
        })
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let matrices = Matrices::of(node)?;
        let Matrices { a, k, n, t, ty, .. } = matrices;
        let (ggml, primitives) = (executed.ggml, executed.primitives);
        if node.int(1) == HINT_HADAMARD && !ggml.reference_kernels {
            let mut values = matrices.activations.into_owned();
            values.chunks_exact_mut(k.max(1)).for_each(primitives.fwht);
            return Ok(values);
        }
        if node.source(1)?.ty() != Some(GgmlType::F32) {
            return Err(node.arithmetic("an activation that is not f32"));
        }
        let contiguous = executed.contiguous.get(1).copied().unwrap_or(true);
        let shape = Shape { ty, rows: n, columns: t, contiguous };
        let kernel = match a.data {
            Data::Weight(_) => Kernel::of_weight(ggml, shape),
            _ => Kernel::of(ggml, shape),
        };
        let repacked = if kernel == Kernel::RepackedGemm { "repacked " } else { "" };
        let unknown = || node.arithmetic(format!("products with {repacked}{ty}"));
        let kernel = |token: usize| kernel.at(t, token % t.max(1));
        let taken = matrices.activations.chunks_exact(k.max(1)).enumerate();
        let taken = taken.map(|(token, row)| (primitives.activation)(kernel(token), ggml.isa, ty, row));
        let taken: Vec<Activation> = taken.collect::<Option<_>>().ok_or_else(unknown)?;
        let factor = |row: usize| match &a.data {
            Data::Weight(rows) => rows.factor(row),
            _ => of_cache(ty, &matrices.row(row)),
        };
        let products = matrices.multiplied(factor, |row, token| {
            (primitives.dot)(kernel(token), ggml.isa, row.as_ref()?, &taken[token])
        });
        products.into_iter().collect::<Option<_>>().ok_or_else(unknown)
    }
}

/// The value of params 1 that says that the first source is a Hadamard matrix (`GGML_HINT_SRC0_IS_HADAMARD`).
const HINT_HADAMARD: i32 = 1;

/// Two sources that multiply to the result.
struct Matrices<'a> {
    a: &'a Operand<'a>,
    /// `[c3, c2, t, k]`
    activations: Cow<'a, [f32]>,
    k: usize,
    n: usize,
    b: [usize; 2],
    t: usize,
    c: [usize; 2],
    ty: GgmlType,
}

impl<'a> Matrices<'a> {
    fn of(node: &Invocation<'a>) -> Result<Matrices<'a>, OracleError> {
        let (a, x) = (node.source(0)?, node.source(1)?);
        let activations = x.floats().ok_or_else(|| node.shape("source 1 holds integers"))?;
        let [k, n, b2, b3] = a.ne.map(|n| n as usize);
        let [_, t, c2, c3] = x.ne.map(|n| n as usize);
        let fits = x.width() == k
            && node.ne == [n, t, c2, c3].map(|n| n as u64)
            && b2 > 0
            && b3 > 0
            && c2.is_multiple_of(b2)
            && c3.is_multiple_of(b3);
        node.require(fits, "the matrices do not multiply to the result")?;
        let ty = a.ty().ok_or_else(|| node.shape("source 0 holds integers"))?;
        let elements = match &a.data {
            Data::Weight(rows) => rows.n_in * rows.n_out,
            Data::Float(values) | Data::Narrow(_, values) => values.len(),
            Data::Int(_) => 0,
        };
        node.require(elements == k * n * b2 * b3, "source 0 has other rows")?;
        vec_dot_type(ty).ok_or_else(|| node.parameter(format!("weights of type {ty}")))?;
        Ok(Matrices { a, activations, k, n, b: [b2, b3], t, c: [c2, c3], ty })
    }

    /// A row of the first source, decoded.
    fn row(&self, row: usize) -> Vec<f32> {
        let mut weights = vec![0.0; self.k];
        match &self.a.data {
            Data::Weight(rows) => rows.decode_row(row, &mut weights),
            Data::Float(values) | Data::Narrow(_, values) => {
                weights.copy_from_slice(&values[row * self.k..][..self.k])
            }
            Data::Int(_) => {}
        }
        weights
    }

    /// Every element of the result: `product` of a row, which `take` gives once, with each token and matrix that meets it.
    fn multiplied<R, P: Clone + Default + Send>(
        &self,
        take: impl Fn(usize) -> R + Sync,
        product: impl Fn(&R, usize) -> P + Sync,
    ) -> Vec<P> {
        let &Matrices { n, b: [b2, b3], t, c: [c2, c3], .. } = self;
        let (r2, r3) = (c2 / b2, c3 / b3);
        let tokens = |row: usize| {
            let (i2, i3) = (row / n % b2, row / n / b2);
            let matrices = (i3 * r3..(i3 + 1) * r3)
                .flat_map(move |j3| (i2 * r2..(i2 + 1) * r2).map(move |j2| j3 * c2 + j2));
            matrices.flat_map(move |matrix| (0..t).map(move |token| matrix * t + token))
        };
        // One task per row.
        let of_row = |row: usize| -> Vec<P> {
            let taken = take(row);
            tokens(row).map(|token| product(&taken, token)).collect()
        };
        let products: Vec<Vec<P>> = (0..n * b2 * b3).into_par_iter().map(of_row).collect();
        let mut all = vec![P::default(); n * t * c2 * c3];
        for (row, products) in products.into_iter().enumerate() {
            for (token, product) in tokens(row).zip(products) {
                all[token * n + row % n] = product;
            }
        }
        all
    }
}

/// An element of the result.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Product {
    sum: f64,
    terms: f64,
    /// How far it moves if every doubtful rounding went to the other side.
    doubt: f64,
}

/// The exact product of a row with an activation.
fn product(row: &[f32], minima: Option<&[f32]>, x: &Rounded) -> Product {
    let Some(minima) = minima else {
        let mut product = Product { doubt: doubt(x, |k| row[k].into()), ..Product::default() };
        for (&a, &x) in row.iter().zip(&x.values) {
            let term = f64::from(a) * f64::from(x);
            product.sum += term;
            product.terms += term.abs();
        }
        return product;
    };
    let mut product = Product::default();
    for ((&a, &min), &x) in row.iter().zip(minima).zip(&x.values) {
        let (a, min, x) = (f64::from(a), f64::from(min), f64::from(x));
        product.sum += a * x;
        product.terms += ((a - min) * x).abs() + (min * x).abs();
    }
    let Some(sums) = &x.sums else {
        return Product { doubt: doubt(x, |k| row[k].into()), ..product };
    };
    // What is stored stands in place of the sum of the rounded values.
    let runs = minima.chunks(sums.width).zip(x.values.chunks(sums.width)).zip(&sums.values);
    for ((min, values), &stored) in runs {
        let replaced: f64 = min.iter().zip(values).map(|(&min, &x)| f64::from(min) * f64::from(x)).sum();
        product.sum += f64::from(min[0]) * stored - replaced;
    }
    product.doubt = doubt(x, |k| f64::from(row[k]) - f64::from(minima[k]));
    product.doubt += minima
        .iter()
        .step_by(sums.width)
        .zip(&sums.steps)
        .map(|(&min, step)| (f64::from(min) * step).abs())
        .sum::<f64>();
    product
}

/// The sum of what each doubt of x moves a product with these factors.
fn doubt(x: &Rounded, factor: impl Fn(usize) -> f64) -> f64 {
    let moved = |doubt: &super::Doubt| -> f64 {
        doubt.moves.iter().enumerate().map(|(i, step)| factor(doubt.at + i) * f64::from(*step)).sum::<f64>()
    };
    x.doubts.iter().map(|doubt| moved(doubt).abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Rows;
    use crate::ops::exact::{ActivationRounding, CpuKernel};

    #[test]
    fn a_smaller_first_source_is_used_for_several_matrices() {
        let operand = |ne, values: &[f32]| Some(Operand { ne, data: Data::Float(values.to_vec()) });
        // a: one matrix of 1 row of 2; x: two matrices of 1 token
        let sources = [operand([2, 1, 1, 1], &[1.0, -2.0]), operand([2, 1, 2, 1], &[3.0, 1.0, 5.0, 5.0])];
        let node =
            Invocation { op: "MUL_MAT", variant: None, params: &[], ne: [1, 1, 2, 1], sources: &sources };
        let exact = MulMat.exact(&node).unwrap();
        assert_eq!((exact.values, exact.terms), (vec![1.0, -5.0], vec![5.0, 15.0]));
        assert!(MulMat.exact(&Invocation { ne: [2, 1, 1, 1], ..node }).is_err());
    }

    /// The product of one row of 32 weights with `x`, zeros behind it.
    fn of_row(ty: GgmlType, row: &[u8], x: &[f32], to: ActivationRounding) -> Exact {
        let mut values = x.to_vec();
        values.resize(32, 0.0);
        let weights = Operand { ne: [32, 1, 1, 1], data: Data::Weight(Rows::new(ty, row, 32, 1).unwrap()) };
        let sources = [Some(weights), Some(Operand { ne: [32, 1, 1, 1], data: Data::Float(values) })];
        let node = Invocation { op: "MUL_MAT", variant: None, params: &[], ne: [1; 4], sources: &sources };
        MulMat.exact_with(&node, Rounding::Activation(to)).unwrap()
    }

    const ONE: [u8; 2] = [0x00, 0x3c]; // of f16
    const TWO: [u8; 2] = [0x00, 0x40];

    #[test]
    fn the_kernels_give_different_products() {
        let row = [&ONE[..], &[1; 32]].concat(); // Q8_0: ones
        // codes 127, 0, 2 by ties to even; 127, 1, 2 away from zero
        let of = |kernel| of_row(GgmlType::Q8_0, &row, &[127.0, 0.5, 1.5], ActivationRounding::Q8_0(kernel));
        assert_eq!((of(CpuKernel::X86).values, of(CpuKernel::X86).flips), (vec![129.0], vec![]));
        assert_eq!(of(CpuKernel::Portable).values, [130.0]);
    }

    #[test]
    fn a_minimum_meets_the_stored_sum() {
        // Q4_1: codes 0 of 1, the minimum 2. Rounded to 127, 0, 0; 0.25 + 0.25 are left out by Q8_1 and in by MMVQ.
        let row = [&ONE[..], &TWO, &[0; 16]].concat();
        let of = |to| of_row(GgmlType::Q4_1, &row, &[127.0, 0.25, 0.25], to);
        let cpu = of(ActivationRounding::Q8_1(CpuKernel::X86));
        assert_eq!((cpu.values, cpu.terms), (vec![254.0], vec![254.0]));
        assert_eq!(of(ActivationRounding::Mmvq).values, [255.0]);
    }

    #[test]
    fn mmvq_takes_the_middle_of_q4_0_off_the_stored_sum() {
        // Q4_0: d = 1, codes 0, so -8 throughout: (0 - 8) * 127.5
        let row = [&ONE[..], &[0; 16]].concat();
        let of = |to| of_row(GgmlType::Q4_0, &row, &[127.0, 0.25, 0.25], to);
        assert_eq!(of(ActivationRounding::Mmvq).values, [-1020.0]);
        assert_eq!(of(ActivationRounding::Q8_0(CpuKernel::X86)).values, [-1016.0]);
    }

    #[test]
    fn doubtful_codes_are_counted_by_what_they_move() {
        // Q8_0: weights 2, -3, 0, ..; 0.5 and 1.5 are ties that CUDA's quotient may miss
        let mut row = [0; 34];
        (row[1], row[2], row[3], row[4]) = (0x3c, 1, 2, -3i8 as u8);
        let exact = of_row(GgmlType::Q8_0, &row, &[127.0, 0.5, 1.5], ActivationRounding::Mmvq);
        assert_eq!((exact.values, exact.flips), (vec![127.0 + 2.0 - 6.0], vec![2.0 + 3.0]));
    }
}
