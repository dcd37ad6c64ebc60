//! Products of weights with activations that the dump holds.

use ndarray::Array2;
use rayon::prelude::*;

use super::{Held, Looked, Site, Stop, Trial, those_held};
use crate::model::{LayerKind, Transform};
use crate::ops::exact::{ActivationRounding, Data, Exact, Invocation, Operand, Oracle, Rounding, oracle};
use crate::ops::{Rows, Tracked};
use crate::question::Question;

/// A product of the graph: which weight meets which tensor, and what comes out.
#[derive(Clone, Copy, Debug)]
pub(in crate::question) struct Product {
    /// The weight's bare name, which stands for its kind.
    pub(in crate::question) weight: &'static str,
    /// The kind of the tensor that it multiplies.
    pub(in crate::question) input: &'static str,
    /// The kind of the result (the first of its name).
    pub(in crate::question) output: &'static str,
    /// The layers that have it; none for what lies outside of them.
    layers: Layers,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layers {
    Of(LayerKind),
    All,
    Outside,
}

const DELTA: Layers = Layers::Of(LayerKind::DeltaNet);
const ATTENTION: Layers = Layers::Of(LayerKind::Attention);

const fn product(weight: &'static str, input: &'static str, output: &'static str, layers: Layers) -> Product {
    Product { weight, input, output, layers }
}

/// Every product with a weight, in the order of the graph.
pub(in crate::question) const PRODUCTS: &[Product] = &[
    product("attn_qkv", "attn_norm", "linear_attn_qkv_mixed", DELTA),
    product("attn_gate", "attn_norm", "z", DELTA),
    product("ssm_alpha", "attn_norm", "alpha", DELTA),
    product("ssm_beta", "attn_norm", "beta", DELTA),
    product("ssm_out", "final_output", "linear_attn_out", DELTA),
    product("attn_q", "attn_norm", "Qcur_full", ATTENTION),
    product("attn_k", "attn_norm", "Kcur", ATTENTION),
    product("attn_v", "attn_norm", "Vcur", ATTENTION),
    product("attn_output", "attn_gated", "attn_output", ATTENTION),
    product("ffn_gate", "attn_post_norm", "ffn_gate", Layers::All),
    product("ffn_up", "attn_post_norm", "ffn_up", Layers::All),
    product("ffn_down", "ffn_swiglu", "ffn_out", Layers::All),
    product("output", "result_norm", "result_output", Layers::Outside),
];

impl Product {
    /// Whether a site has it.
    pub(in crate::question) fn is_at(&self, site: &Site<'_>) -> bool {
        match (self.layers, site.layer) {
            (Layers::Outside, None) | (Layers::All, Some(_)) => true,
            (Layers::Of(kind), Some(il)) => site.hparams().layers[il] == kind,
            _ => false,
        }
    }
}

impl<'a> Site<'a> {
    /// A weight of this layer, by its bare name, with its factor.
    ///
    /// # Errors
    /// If its type has no decoder.
    pub(in crate::question) fn matrix(&self, weight: &str) -> Result<(Rows<'a>, f32), Stop> {
        let name = self.weight_name(weight);
        Ok((self.subject.model.matrix(&name)?, self.subject.model.scale(&name)?))
    }

    /// `W x` as the run computed it, and what `then` makes of it: of a folded weight with its transform, else with x rounded in
    /// that one of the possible ways that explains the reference best.
    ///
    /// # Errors
    /// If the weight does not fit the tensor.
    pub(in crate::question) fn product_as_run(
        &self,
        weight: &str,
        x: &Held,
        reference: &Held,
        then: impl Fn(Vec<Tracked>) -> Vec<Tracked>,
    ) -> Result<Vec<Tracked>, Stop> {
        self.rows_as_run(weight, self.matrix(weight)?, x, reference, then)
    }

    /// [`Site::product_as_run`] with other rows in place of the weight's own.
    ///
    /// # Errors
    /// If they do not fit the tensor.
    pub(super) fn rows_as_run(
        &self,
        weight: &str,
        (rows, scale): (Rows<'_>, f32),
        x: &Held,
        reference: &Held,
        then: impl Fn(Vec<Tracked>) -> Vec<Tracked>,
    ) -> Result<Vec<Tracked>, Stop> {
        if let Ok(transform) = self.transform(weight) {
            let product = self.folded_as_run((rows, scale), x, reference, &transform, then)?;
            let odd = || Stop::NotKnown(format!("how {weight} is folded, whose width no block divides"));
            return product.ok_or_else(odd);
        }
        self.nearest(reference, self.ways_of_the_run((rows, scale), x)?.into_iter().map(then))
    }

    /// `W_file H (s . P(x))` as the run computed it, and what `then` makes of it; none if the transform's block does not divide the width.
    /// What ran the file itself, and not its twin, may have rounded the transformed activation. The transform is one tree of additions,
    /// so that every implementation that keeps to it in f32 rounds the same values.
    ///
    /// # Errors
    /// If the weight does not fit the tensor.
    pub(super) fn folded_as_run(
        &self,
        matrix: (Rows<'_>, f32),
        x: &Held,
        reference: &Held,
        transform: &Transform<'_>,
        then: impl Fn(Vec<Tracked>) -> Vec<Tracked>,
    ) -> Result<Option<Vec<Tracked>>, Stop> {
        let Some(whole) = multiply_folded(matrix, x, transform)?.map(&then) else { return Ok(None) };
        if self.subject.is_of_the_twin() || self.score(reference, &whole)?.fits() {
            return Ok(Some(whole));
        }
        let rounded = self.ways_of_the_run(matrix, &transformed(x, matrix.0.n_in, transform))?;
        let ways = std::iter::once(whole).chain(rounded.into_iter().map(then));
        self.nearest(reference, ways).map(Some)
    }

    /// `W x`, once for each way in which the run may have rounded x.
    fn ways_of_the_run(&self, matrix: (Rows<'_>, f32), x: &Held) -> Result<Vec<Vec<Tracked>>, Stop> {
        let setting = self.subject.setting();
        ways(matrix, x, |oracle, node| oracle.roundings(node, &setting))
    }

    /// That of several results which explains the reference best.
    fn nearest(
        &self,
        reference: &Held,
        ways: impl Iterator<Item = Vec<Tracked>>,
    ) -> Result<Vec<Tracked>, Stop> {
        let mut best: Option<(f64, Vec<Tracked>)> = None;
        for way in ways {
            let share = self.score(reference, &way)?.share;
            if best.as_ref().is_none_or(|(least, _)| share < *least) {
                best = Some((share, way));
            }
        }
        Ok(best.map(|(_, product)| product).unwrap_or_default())
    }

    /// [`Site::folded_as_run`] of a weight of this layer.
    ///
    /// # Errors
    /// If the weight does not fit the tensor.
    pub(in crate::question) fn multiply_folded(
        &self,
        weight: &str,
        x: &Held,
        reference: &Held,
        transform: &Transform<'_>,
    ) -> Result<Option<Vec<Tracked>>, Stop> {
        self.folded_as_run(self.matrix(weight)?, x, reference, transform, |product| product)
    }
}

impl<'a> Site<'a> {
    /// Scores, for every product with a folded weight here, what candidates make of the transform; none for one that cannot be.
    ///
    /// # Errors
    /// If the model is not folded, the dump holds none of the products, or a candidate fails.
    pub(in crate::question) fn folded_products(
        &self,
        question: &Question,
        is_asked: impl Fn(&Product) -> bool,
        change: impl Fn(&str, Transform<'a>) -> Option<Transform<'a>>,
    ) -> Looked {
        self.fold()?;
        self.each_product(is_asked, |product, x, y| {
            let Ok(transform) = self.transform(product.weight) else { return Err(Stop::Elsewhere) };
            let of = |candidate: &str| match change(candidate, transform.clone()) {
                Some(transform) => self.multiply_folded(product.weight, &x, &y, &transform),
                None => Ok(None),
            };
            self.trial(question, product.weight, y.clone(), of)
        })
    }

    /// What is found at each product of this site of which the dump holds both sides.
    ///
    /// # Errors
    /// If it holds none, or one fails.
    pub(in crate::question) fn each_product(
        &self,
        is_asked: impl Fn(&Product) -> bool,
        mut at: impl FnMut(&Product, Held, Held) -> Result<Trial, Stop>,
    ) -> Looked {
        let products = PRODUCTS.iter().filter(|product| product.is_at(self) && is_asked(product));
        those_held(products.map(|product| {
            let (x, y) = (self.tensor(product.input)?, self.tensor(product.output)?);
            at(product, x, y)
        }))
    }
}

/// `W x` with activations rounded as said: `[n_tokens, n_out]`, packed.
pub(super) fn multiply(
    matrix: (Rows<'_>, f32),
    x: &Held,
    rounding: Option<ActivationRounding>,
) -> Result<Vec<Tracked>, Stop> {
    let rounding = rounding.map_or(Rounding::None, Rounding::Activation);
    Ok(ways(matrix, x, |_, _| vec![rounding])?.into_iter().next().unwrap_or_default())
}

/// `W x`, once for each of the roundings of x.
fn ways(
    (rows, scale): (Rows<'_>, f32),
    x: &Held,
    roundings: impl Fn(&dyn Oracle, &Invocation<'_>) -> Vec<Rounding>,
) -> Result<Vec<Vec<Tracked>>, Stop> {
    let n_tokens = x.values.len() / rows.n_in.max(1);
    let ne = |n: usize, t: usize| [n as u64, t as u64, 1, 1];
    let sources = [
        Some(Operand { ne: ne(rows.n_in, rows.n_out), data: Data::Weight(rows) }),
        Some(Operand { ne: ne(rows.n_in, n_tokens), data: Data::Float(x.values.clone()) }),
    ];
    let ne = ne(rows.n_out, n_tokens);
    let node = Invocation { op: "MUL_MAT", variant: None, params: &[], ne, sources: &sources };
    let oracle = oracle(&node)?;
    let product = |rounding| Ok(scaled(tracked(oracle.exact_with(&node, rounding)?), scale));
    roundings(oracle, &node).into_iter().map(product).collect()
}

/// `W_file H (s . P(x))` without a rounding of the activation: `[n_tokens, n_out]`, packed. None if the transform's block does not divide
/// the width.
///
/// llama.cpp computes it as `W x` with a weight that was unfolded and rounded to f32, an engine with the transformed activation. By
/// the inequality of Cauchy and Schwarz, `sum |w| |x|` over the blocks, with the lengths of weight and activation in each, bounds the
/// terms of both, as the transform keeps lengths; it is what errors are scaled by. The transform goes through `log2(block)` additions with
/// terms of at most |x|.
pub(super) fn multiply_folded(
    (rows, scale): (Rows<'_>, f32),
    x: &Held,
    transform: &Transform<'_>,
) -> Result<Option<Vec<Tracked>>, Stop> {
    let (width, block) = (rows.n_in, transform.block);
    if !width.is_multiple_of(block) {
        return Ok(None);
    }
    let mut x = x.rows(width)?.mapv(|x| x.value());
    x.outer_iter_mut().for_each(|mut row| transform.apply(row.as_slice_mut().expect("packed")));
    Ok(Some(scaled(folded_product(&rows, &x, block), scale)))
}

/// The activation behind the transform, in f32 as an engine has it.
pub(super) fn transformed(x: &Held, width: usize, transform: &Transform<'_>) -> Held {
    let mut transformed = x.clone();
    transformed.values.chunks_exact_mut(width).for_each(|row| transform.apply(row));
    transformed
}

/// `W x` with the terms and the spread of a folded product.
fn folded_product(rows: &Rows<'_>, x: &Array2<f64>, block: usize) -> Vec<Tracked> {
    let lengths = |row: &[f64]| -> Vec<f64> {
        row.chunks(block).map(|block| block.iter().map(|x| x * x).sum::<f64>().sqrt()).collect()
    };
    let tokens: Vec<(&[f64], Vec<f64>)> =
        x.outer_iter().map(|row| row.to_slice().expect("packed")).map(|row| (row, lengths(row))).collect();
    let additions = (block as f64).log2();
    let by_row: Vec<Vec<Tracked>> = (0..rows.n_out)
        .into_par_iter()
        .map(|n| {
            let mut decoded = vec![0.0; rows.n_in];
            rows.decode_row(n, &mut decoded);
            let row: Vec<f64> = decoded.into_iter().map(f64::from).collect();
            let of_row = lengths(&row);
            let product = |(x, of_x): &(&[f64], Vec<f64>)| {
                let value = crate::ops::dot(&row, x);
                let blocks = || of_row.iter().zip(of_x).map(|(w, x)| w * x);
                let inherited = (additions * blocks().map(|size| size * size).sum::<f64>()).sqrt();
                Tracked::computed(value, blocks().sum(), rows.n_in as f64).with_inherited(inherited)
            };
            tokens.iter().map(product).collect()
        })
        .collect();
    (0..tokens.len()).flat_map(|t| by_row.iter().map(move |products| products[t])).collect()
}

/// An oracle's result. A value whose rounding on purpose may have gone to the other side may be off by that step.
pub(in crate::question) fn tracked(exact: Exact) -> Vec<Tracked> {
    let flips = exact.flips.iter().copied().chain(std::iter::repeat(0.0));
    let numbers = exact.values.iter().zip(&exact.terms).zip(flips);
    // A budget grants `8 u spread`, so that a step needs a spread of that much more.
    let in_spread = |flip: f64| flip / (crate::compare::BUDGET_FACTOR * crate::compare::U);
    numbers
        .map(|((&value, &terms), flip)| {
            let terms = if exact.additions == 0.0 { value.abs() } else { terms };
            Tracked::computed(value, terms, exact.additions).with_inherited(in_spread(flip))
        })
        .collect()
}

fn scaled(mut numbers: Vec<Tracked>, scale: f32) -> Vec<Tracked> {
    if scale != 1.0 {
        numbers.iter_mut().for_each(|x| *x = *x * Tracked::exact(scale.into()));
    }
    numbers
}
