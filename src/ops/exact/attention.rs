//! The sources of an attention node as rows: a query with the keys and values that it sees.

use std::borrow::Cow;

use super::{Invocation, OracleError};
use crate::arithmetic::Factor;
use crate::quant;
use crate::tensor::GgmlType;

/// The sources as values, and the parameters.
pub(super) struct Attention<'a> {
    /// `[batch, n_head, n_tokens, dk]`
    q: Vec<f32>,
    /// `[batch, n_head_kv, n_kv, dk]`
    k: Cow<'a, [f32]>,
    /// `[batch, n_head_kv, n_kv, dv]`
    v: Cow<'a, [f32]>,
    mask: Option<(Extents, Cow<'a, [f32]>)>,
    sinks: Option<Cow<'a, [f32]>>,
    q_ne: Extents,
    k_ne: Extents,
    v_ne: Extents,
    scale: f32,
    max_bias: f64,
    softcap: f32,
}

type Extents = [usize; 4];

/// One token of one head.
pub(super) struct Query<'a> {
    /// The query, as it meets the keys.
    pub(super) q: &'a [f32],
    /// What is not masked, in order.
    pub(super) keys: Vec<Key<'a>>,
    /// The row of k, of all heads and batches, where its keys begin.
    pub(super) first: usize,
    /// A logit that takes part in the sum of the weights alone.
    pub(super) sink: Option<f64>,
    /// What the product with a key is multiplied by: the node's scale, divided by the softcap if there is one.
    pub(super) scale: f32,
    /// The softcap; 0 if there is none.
    pub(super) softcap: f32,
    /// ALiBi's factor of the mask, and how many roundings it has; 1 and none without ALiBi.
    pub(super) slope: (f64, f64),
    /// The factor as ggml-cpu forms it.
    pub(super) single_slope: f32,
}

/// A key that a query sees.
pub(super) struct Key<'a> {
    /// Where it is among all of them.
    pub(super) index: usize,
    pub(super) k: &'a [f32],
    pub(super) v: &'a [f32],
    /// What is added to the logit, before the slope.
    pub(super) mask: f32,
}

impl<'a> Attention<'a> {
    /// Reads the sources of a node; `round` is applied to each query.
    pub(super) fn of(
        node: &Invocation<'a>,
        round: impl Fn(&[f32]) -> Vec<f32>,
    ) -> Result<Attention<'a>, OracleError> {
        let (q_ne, q) = values(node, 0)?;
        let (k_ne, k) = values(node, 1)?;
        let (v_ne, v) = values(node, 2)?;
        let [dk, tokens, n_head, batches] = q_ne;
        let divides = |part: usize, whole: usize| part > 0 && whole.is_multiple_of(part);
        let shared = [(k_ne[2], n_head), (v_ne[2], n_head), (k_ne[3], batches), (v_ne[3], batches)];
        let fits = dk > 0
            && k_ne[..2] == [dk, v_ne[1]]
            && shared.iter().all(|&(part, whole)| divides(part, whole))
            && node.ne == [v_ne[0], n_head, tokens, batches].map(|n| n as u64);
        node.require(fits, "q, k, v and the result do not fit")?;
        let has = |index: usize| node.sources.get(index).is_some_and(Option::is_some);
        let mask = if has(3) { Some(values(node, 3)?) } else { None };
        let fits = mask.as_ref().is_none_or(|(ne, _)| {
            ne[0] == v_ne[1] && ne[1] >= tokens && divides(ne[2], n_head) && divides(ne[3], batches)
        });
        node.require(fits, "the mask does not fit")?;
        let sinks = match node.sources.get(4).and_then(Option::as_ref) {
            Some(sinks) => {
                let values = sinks.floats().filter(|_| sinks.ty() == Some(GgmlType::F32));
                let values = values.filter(|values| values.len() == n_head);
                Some(values.ok_or_else(|| node.shape("the sinks are not one f32 per head"))?)
            }
            None => None,
        };
        let (scale, softcap) = (node.float(0) as f32, node.float(2) as f32);
        Ok(Attention {
            q: q.chunks_exact(dk).flat_map(round).collect(),
            k,
            v,
            mask,
            sinks,
            q_ne,
            k_ne,
            v_ne,
            scale: if softcap == 0.0 { scale } else { scale / softcap },
            max_bias: node.float(1),
            softcap,
        })
    }

    /// Elements of a value.
    pub(super) fn dv(&self) -> usize {
        self.v_ne[0]
    }

    /// Number of keys, masked ones too.
    pub(super) fn n_kv(&self) -> usize {
        self.k_ne[1]
    }

    /// Every row of k, of all heads and batches.
    pub(super) fn k_rows(&self) -> impl Iterator<Item = &[f32]> {
        self.k.chunks_exact(self.q_ne[0])
    }

    /// Number of queries: rows of the result.
    pub(super) fn queries(&self) -> usize {
        self.q_ne[1..].iter().product()
    }

    /// Query number `row` of the result, which has the heads of a token next to each other.
    pub(super) fn query(&self, row: usize) -> Query<'_> {
        let [dk, tokens, n_head, batches] = self.q_ne;
        let (head, token, batch) = (row % n_head, row / n_head % tokens, row / n_head / tokens);
        // head h of a batch reads head h / (n_head / n of its own) of k and v
        let first = |ne: &Extents| ((batch / (batches / ne[3])) * ne[2] + head / (n_head / ne[2])) * ne[1];
        let k = self.k[first(&self.k_ne) * dk..].chunks_exact(dk);
        let v = self.v[first(&self.v_ne) * self.dv()..].chunks(self.dv().max(1));
        let mask = self.mask.as_ref().map(|(ne, values)| {
            &values[(((batch % ne[3]) * ne[2] + head % ne[2]) * ne[1] + token) * ne[0]..][..ne[0]]
        });
        let keys = k.zip(v).take(self.n_kv()).enumerate().map(|(index, (k, v))| Key {
            index,
            k,
            v,
            mask: mask.map_or(0.0, |mask| mask[index]),
        });
        Query {
            q: &self.q[((batch * n_head + head) * tokens + token) * dk..][..dk],
            keys: keys.filter(|key| key.mask != f32::NEG_INFINITY).collect(),
            first: first(&self.k_ne),
            sink: self.sinks.as_ref().map(|sinks| sinks[head].into()),
            scale: self.scale,
            softcap: self.softcap,
            slope: slope(self.max_bias, head, n_head),
            single_slope: single_slope(self.max_bias as f32, head, n_head),
        }
    }
}

impl Query<'_> {
    /// The logit of a key, and the sum of the absolute values of what is added to make it.
    pub(super) fn logit(&self, key: &Key<'_>) -> (f64, f64) {
        let (dot, terms) = self.q.iter().zip(key.k).fold((0.0, 0.0), |(dot, terms), (&q, &k)| {
            let term = f64::from(q) * f64::from(k);
            (dot + term, terms + term.abs())
        });
        let (scale, softcap) = (f64::from(self.scale), f64::from(self.softcap));
        let (slope, roundings) = self.slope;
        let bias = slope * f64::from(key.mask);
        let of_bias = bias.abs() * (1.0 + roundings);
        let (scaled, terms) = (dot * scale, terms * scale.abs());
        if softcap == 0.0 {
            return (scaled + bias, terms + of_bias);
        }
        (softcap * scaled.tanh() + bias, terms * softcap.abs() + of_bias)
    }
}

/// ALiBi's slope of a head, and its roundings: it is a power of a number that is rounded to f32, both by `powf`.
pub(super) fn slope(max_bias: f64, head: usize, n_head: usize) -> (f64, f64) {
    if max_bias <= 0.0 {
        return (1.0, 0.0);
    }
    let (below, halves, power) = alibi(head, n_head);
    let slope = (-max_bias / halves / below as f64 * power as f64).exp2();
    (slope, (power + 1) as f64)
}

/// The slope as ggml-cpu forms it.
pub(super) fn single_slope(max_bias: f32, head: usize, n_head: usize) -> f32 {
    if max_bias <= 0.0 {
        return 1.0;
    }
    let (below, halves, power) = alibi(head, n_head);
    2f32.powf(-(max_bias / halves as f32) / below as f32).powf(power as f32)
}

/// Among how many heads the exponent is divided, whether it is halved (2) or not (1), and the power of a head.
fn alibi(head: usize, n_head: usize) -> (usize, f64, usize) {
    let below = 1usize << n_head.ilog2();
    if head < below { (below, 1.0, head + 1) } else { (below, 2.0, 2 * (head - below) + 1) }
}

/// A row of a cache as ggml multiplies it. Blocks are recovered from their values, which is right where they came from rounding:
/// the largest value has the largest code then. None if they did not, or of a type that is not multiplied so.
pub(super) fn of_cache(ty: GgmlType, row: &[f32]) -> Option<Factor> {
    if ty.block_elements() == 1 {
        return Some(Factor::Floats(ty, row.to_vec()));
    }
    let blocks = quant::encode(ty, row).ok()?;
    let mut decoded = vec![0.0; row.len()];
    quant::decode(ty, &blocks, &mut decoded).ok()?;
    if decoded != row {
        return None;
    }
    Factor::of_blocks(ty, &blocks)
}

/// The extents and values of a source of floats, as many as the extents say.
pub(super) fn values<'a>(
    node: &Invocation<'a>,
    index: usize,
) -> Result<(Extents, Cow<'a, [f32]>), OracleError> {
    let source = node.source(index)?;
    let values = source.floats().ok_or_else(|| node.shape(format!("source {index} holds integers")))?;
    let ne = source.ne.map(|n| n as usize);
    node.require(values.len() == ne.iter().product::<usize>(), "a source holds another number of elements")?;
    Ok((ne, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_alibis() {
        // 8 heads and max_bias 8: 1/2, 1/4, ..; with 3 heads the third takes the odd powers of the smaller base 2^-(4/2)
        assert_eq!((slope(8.0, 0, 8).0, slope(8.0, 2, 8).0), (0.5, 0.125));
        assert_eq!([0, 1, 2].map(|head| slope(8.0, head, 3).0), [1.0 / 16.0, 1.0 / 256.0, 0.25]);
        assert_eq!(slope(0.0, 5, 8), (1.0, 0.0));
        assert_eq!([0, 1, 2].map(|head| single_slope(8.0, head, 3)), [1.0 / 16.0, 1.0 / 256.0, 0.25]);
    }
}
