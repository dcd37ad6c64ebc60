//! Matrices that multiply column by column, whatever the rule by which a matrix of the first source meets columns of the second:
//! what MUL_MAT and MUL_MAT_ID have in common.
//!
//! ```text
//! a  {k, n} for each matrix   x  {k} for each column   y  {n} for each pair of a matrix and a column that meet
//! terms = sum_k |a x|, or sum_k |(a - min) x| + |min x| for formats with a minimum, whose two sums ggml forms apart
//! k additions
//! ```
//! Backends round x first, each by a rule of its own; `rounding/` has the rules. Where a rule stores the sum of a block of x, the
//! minima meet that: `sum_k (a - min) x + sum_blocks min s`. A rule of which not every step is known to the last bit says which
//! values are in doubt; an element is then uncertain by the sum of what each doubt moves it.

use std::borrow::Cow;

use rayon::prelude::*;

use super::attention::of_cache;
use super::rounding::sums_are_used;
use super::{
    Data, Exact, Executed, Invocation, Operand, OracleError, Rounded, Rounding, round_activation,
    vec_dot_type,
};
use crate::arithmetic::{Activation, Kernel};
use crate::tensor::GgmlType;

/// A column of the second source that meets a matrix, and the column of the result that comes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meeting {
    pub(super) x: usize,
    pub(super) y: usize,
}

/// Two sources that multiply to the result.
pub(super) struct Matrices<'a> {
    a: &'a Operand<'a>,
    /// `[columns, k]`
    pub(super) activations: Cow<'a, [f32]>,
    pub(super) k: usize,
    /// Rows of a matrix.
    pub(super) n: usize,
    /// The type of the first source.
    pub(super) ty: GgmlType,
    /// What each matrix of the first source meets; each column of the result comes of one meeting.
    pub(super) meetings: Vec<Vec<Meeting>>,
}

impl<'a> Matrices<'a> {
    /// The first two sources of a node, and what their matrices meet.
    pub(super) fn of(
        node: &Invocation<'a>,
        meetings: Vec<Vec<Meeting>>,
    ) -> Result<Matrices<'a>, OracleError> {
        let (a, x) = (node.source(0)?, node.source(1)?);
        let activations = x.floats().ok_or_else(|| node.shape("source 1 holds integers"))?;
        let [k, n, ..] = a.ne.map(|n| n as usize);
        node.require(x.width() == k, "rows of the sources have different lengths")?;
        let ty = a.ty().ok_or_else(|| node.shape("source 0 holds integers"))?;
        let elements = match &a.data {
            Data::Weight(rows) => rows.n_in * rows.n_out,
            Data::Float(values) | Data::Narrow(_, values) => values.len(),
            Data::Int(_) => 0,
        };
        node.require(elements == k * n * meetings.len(), "source 0 has other rows")?;
        vec_dot_type(ty).ok_or_else(|| node.parameter(format!("weights of type {ty}")))?;
        Ok(Matrices { a, activations, k, n, ty, meetings })
    }

    /// The exact result, of activations that are rounded so.
    pub(super) fn exact(&self, rounding: Rounding) -> Exact {
        let &Matrices { a, k, ty, .. } = self;
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
        let activations: Vec<Rounded> = self.activations.chunks_exact(k.max(1)).map(round).collect();
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
            (self.row(row), has_minima.then_some(minima))
        };
        let products = self.multiplied(decoded, |(weights, minima), _, column| {
            product(weights, minima.as_deref(), &activations[column])
        });
        let of = |part: fn(&Product) -> f64| products.iter().map(part).collect();
        Exact {
            values: of(|product| product.sum),
            terms: of(|product| product.terms),
            additions: k as f64,
            flips: if is_doubtful { of(|product| product.doubt) } else { Vec::new() },
            ..Exact::default()
        }
    }

    /// ggml-cpu's own result: `kernel` says which code multiplies a matrix with a column of the second source. All that a column
    /// meets take it as the first of them does.
    pub(super) fn in_ggml(
        &self,
        node: &Invocation<'_>,
        executed: &Executed<'_>,
        kernel: impl Fn(usize, usize) -> Kernel + Sync,
    ) -> Result<Vec<f32>, OracleError> {
        let &Matrices { a, k, n, ty, .. } = self;
        let (isa, primitives) = (executed.ggml.isa, executed.primitives);
        if node.source(1)?.ty() != Some(GgmlType::F32) {
            return Err(node.arithmetic("an activation that is not f32"));
        }
        let columns = self.activations.len() / k.max(1);
        let mut taken: Vec<Option<Activation>> = vec![None; columns];
        let mut is_repacked = false;
        let unknown = |is_repacked: bool| {
            let repacked = if is_repacked { "repacked " } else { "" };
            node.arithmetic(format!("products with {repacked}{ty}"))
        };
        for (matrix, meetings) in self.meetings.iter().enumerate() {
            for meeting in meetings.iter() {
                let kernel = kernel(matrix, meeting.x);
                is_repacked |= matches!(kernel, Kernel::RepackedGemm | Kernel::RepackedGemv);
                if taken[meeting.x].is_none() {
                    let row = &self.activations[meeting.x * k..][..k];
                    let activation = (primitives.activation)(kernel, isa, ty, row);
                    taken[meeting.x] = Some(activation.ok_or_else(|| unknown(is_repacked))?);
                }
            }
        }
        let factor = |row: usize| match &a.data {
            Data::Weight(rows) => rows.factor(row),
            _ => of_cache(ty, &self.row(row)),
        };
        let products = self.multiplied(factor, |factor, row, column| {
            (primitives.dot)(kernel(row / n, column), isa, factor.as_ref()?, taken[column].as_ref()?)
        });
        products.into_iter().collect::<Option<_>>().ok_or_else(|| unknown(is_repacked))
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

    /// Every element of the result: `product` of a row, which `take` gives once, its number, and each column that meets it.
    fn multiplied<R, P: Clone + Default + Send>(
        &self,
        take: impl Fn(usize) -> R + Sync,
        product: impl Fn(&R, usize, usize) -> P + Sync,
    ) -> Vec<P> {
        let &Matrices { n, ref meetings, .. } = self;
        // One task per row.
        let of_row = |row: usize| -> Vec<P> {
            let met = &meetings[row / n];
            if met.is_empty() {
                return Vec::new();
            }
            let taken = take(row);
            met.iter().map(|meeting| product(&taken, row, meeting.x)).collect()
        };
        let products: Vec<Vec<P>> = (0..n * meetings.len()).into_par_iter().map(of_row).collect();
        let mut all = vec![P::default(); n * meetings.iter().map(Vec::len).sum::<usize>()];
        for (row, products) in products.into_iter().enumerate() {
            for (meeting, product) in meetings[row / n].iter().zip(products) {
                all[meeting.y * n + row % n] = product;
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
