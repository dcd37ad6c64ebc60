//! ROPE on the first `n_dims` elements of each head: modes NEOX, MROPE and IMROPE (pairs half a rotation apart) and NORMAL.
//!
//! ```text
//! params  1 n_dims, 2 mode, 4 n_ctx_orig, 5 freq_base, 6 freq_scale, 7 ext_factor, 8 attn_factor, 11.. sections
//! x  {head_dim, n_head, n_tokens}   positions  n_tokens, or 4 n_tokens for MROPE
//! terms = (|x_a| + |x_b|) (1 + |angle| (i + 2))
//! ```
//! ggml forms the angle of pair i by i multiplications in f32 (`ggml_mrope_cache_init`, ops.cpp), so it is off by up to
//! `(i + 2) u |angle|`, and the rotated pair by that much of its length. YaRN (`ext_factor`) and frequency factors are not
//! evaluated.

use ndarray::ArrayViewMut3;

use super::moves::floats;
use super::{Exact, Invocation, Oracle, OracleError};
use crate::ops::{Rope, RopePairing, RopeSections};

pub(super) struct RopeOracle;

/// Roundings on the way: two products, a sum, sine and cosine.
const STEPS: f64 = 4.0;
const NORMAL: i32 = 0;
const NEOX: i32 = 2;
const MROPE: i32 = 8;
const IMROPE: i32 = 40;

impl Oracle for RopeOracle {
    fn ops(&self) -> &'static [&'static str] {
        &["ROPE"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let mut x = floats(node, 0)?;
        let positions = node.source(1)?.ints().ok_or_else(|| node.shape("source 1 holds no integers"))?;
        for (what, holds) in [
            ("frequency factors", node.sources.get(2).is_none_or(Option::is_none)),
            ("ext_factor", node.float(7) == 0.0),
            ("freq_scale other than 1", node.float(6) == 1.0),
            ("attn_factor other than 1", node.float(8) == 1.0),
            ("several sequences in dimension 3", node.ne[3] == 1),
        ] {
            if !holds {
                return Err(node.parameter(what));
            }
        }
        let mode = node.int(2);
        let (pairing, layout) = match mode {
            NORMAL => (RopePairing::Adjacent, RopeSections::Contiguous),
            NEOX | MROPE => (RopePairing::Half, RopeSections::Contiguous),
            IMROPE => (RopePairing::Half, RopeSections::Interleaved),
            _ => return Err(node.parameter(format!("mode {mode}"))),
        };
        let [head_dim, n_head, n_tokens, _] = node.ne.map(|n| n as usize);
        let sections = if mode & MROPE == 0 {
            [head_dim, 0, 0, 0]
        } else {
            [0, 1, 2, 3].map(|c| node.int(11 + c).max(0) as usize)
        };
        let n_dims = usize::try_from(node.int(1)).unwrap_or(0);
        let channels = if mode & MROPE == 0 { 1 } else { 4 };
        let fits = x.len() == node.elements()
            && n_dims.is_multiple_of(2)
            && n_dims <= head_dim
            && positions.len() == channels * n_tokens;
        node.require(fits, "heads, rotation and positions do not fit")?;
        let positions: Vec<[i64; 4]> =
            (0..n_tokens).map(|t| [0, 1, 2, 3].map(|c| positions[(c % channels) * n_tokens + t])).collect();
        let rope = Rope { n_dims, freq_base: node.float(5), sections, layout, pairing };
        let terms = terms(&rope, &x, [n_tokens, n_head, head_dim], &positions);
        let view = ArrayViewMut3::from_shape((n_tokens, n_head, head_dim), &mut x);
        rope.rotate(view.map_err(|e| node.shape(e.to_string()))?, &positions);
        Ok(Exact { values: x, terms, additions: STEPS, flips: Vec::new() })
    }
}

fn terms(
    rope: &Rope,
    x: &[f64],
    [n_tokens, n_head, head_dim]: [usize; 3],
    positions: &[[i64; 4]],
) -> Vec<f64> {
    let mut terms: Vec<f64> = vec![0.0; x.len()]; // what passes through is moved
    let half = rope.n_dims / 2;
    for (t, position) in positions.iter().enumerate().take(n_tokens) {
        for i in 0..half {
            let (a, b) = match rope.pairing {
                RopePairing::Half => (i, i + half),
                RopePairing::Adjacent => (2 * i, 2 * i + 1),
            };
            let amplified = 1.0 + rope.angle(i, position).abs() * (i + 2) as f64;
            for head in 0..n_head {
                let at = (t * n_head + head) * head_dim;
                let length = (x[at + a].abs() + x[at + b].abs()) * amplified;
                (terms[at + a], terms[at + b]) = (length, length);
            }
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn position_zero_moves_nothing_and_other_modes_are_named() {
        let x = Some(Operand { ne: [4, 1, 1, 1], data: Data::Float(vec![1.0, 2.0, 3.0, 4.0]) });
        let positions = Some(Operand { ne: [1, 1, 1, 1], data: Data::Int(vec![0]) });
        let sources = [x, positions];
        let bits = |x: f32| x.to_bits() as i32;
        let params = |mode| [0, 2, mode, 0, 0, bits(100.0), bits(1.0), 0, bits(1.0)];
        let node =
            |params| Invocation { op: "ROPE", variant: None, params, ne: [4, 1, 1, 1], sources: &sources };
        let (neox, vision) = (params(NEOX), params(24));
        let exact = RopeOracle.exact(&node(&neox)).unwrap();
        assert_eq!((exact.values, exact.terms), (vec![1.0, 2.0, 3.0, 4.0], vec![3.0, 3.0, 0.0, 0.0]));
        assert!(matches!(RopeOracle.exact(&node(&vision)), Err(OracleError::Parameter { .. })));
    }
}
