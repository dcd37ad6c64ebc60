//! DSV4_HC_PRE: the streams of a hyper-connection become one, `y_i = s sum_h x_ih w_h`.
//!
//! ```text
//! x {n, hc, n_tokens}   w {hc, n_tokens};  gated: w_ih = 1 / (1 + exp(-g_ih)), g {n, hc, n_tokens}   y {n, n_tokens}
//! s, gated = params 0, 1
//! terms = |s| sum_h |x_ih w_h|;  hc + 1 additions, gated GATE more
//! ```
//! Products and sums are f32's, h after h (`ggml_compute_forward_dsv4_hc_pre_f32`, ops.cpp), and the scale is one more product. A
//! gate is rounded in its exponential (as much as two), its sum and its quotient: as much as two more addends with their products;
//! the exponential's error is not amplified, as `|d ln w / d ln exp(-g)| = 1 - w`. A weight below the smallest normal f32 may be
//! anything down to 0, as its exponential overflows: such a weight counts 1/u times.

use std::borrow::Cow;

use super::attention::values;
use super::{Exact, Executed, Invocation, Oracle, OracleError, U, indices};
use crate::ops::sigmoid;

pub(super) struct Dsv4HcPre;

/// What the roundings of a gate amount to, in additions.
const GATE: f64 = 2.0;

impl Oracle for Dsv4HcPre {
    fn ops(&self) -> &'static [&'static str] {
        &["DSV4_HC_PRE"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let streams = Streams::of(node)?;
        let scale = node.float(0);
        let element = |[i, t, ..]: [usize; 4]| {
            let (sum, terms) = streams.pairs(i, t).fold((0.0, 0.0), |(sum, terms), (x, w)| {
                let (x, (w, w_terms)) = (f64::from(x), streams.weight(w.into()));
                (sum + x * w, terms + (x * w_terms).abs())
            });
            (scale * sum, scale.abs() * terms)
        };
        let additions = (streams.hc + 1) as f64 + if streams.gated { GATE } else { 0.0 };
        Ok(Exact::collect(additions, indices(node.ne).map(element)))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let streams = Streams::of(node)?;
        let (isa, scale) = (executed.ggml.isa, node.single(0));
        let element = |[i, t, ..]: [usize; 4]| {
            let sum = streams.pairs(i, t).fold(0.0, |sum, (x, w)| {
                let w = if streams.gated { 1.0 / (1.0 + (-w).exp()) } else { w };
                isa.madd(x, w, sum)
            });
            scale * sum
        };
        Ok(indices(node.ne).map(element).collect())
    }
}

/// The sources of a node, which fit each other.
struct Streams<'a> {
    /// `[n_tokens, hc, n]`
    x: Cow<'a, [f32]>,
    /// `[n_tokens, hc]`, or gated `[n_tokens, hc, n]`
    w: Cow<'a, [f32]>,
    n: usize,
    hc: usize,
    gated: bool,
}

impl<'a> Streams<'a> {
    fn of(node: &Invocation<'a>) -> Result<Streams<'a>, OracleError> {
        let (([n, hc, n_tokens, more], x), (w_ne, w)) = (values(node, 0)?, values(node, 1)?);
        let gated = node.int(1) != 0;
        let fits = more == 1
            && w_ne == if gated { [n, hc, n_tokens, 1] } else { [hc, n_tokens, 1, 1] }
            && node.ne == [n, n_tokens, 1, 1].map(|n| n as u64);
        node.require(fits, "the streams, their weights and the result do not fit")?;
        Ok(Streams { x, w, n, hc, gated })
    }

    /// What element `i` of token `t` adds up: of each stream its element, and its weight or gate.
    fn pairs(&self, i: usize, t: usize) -> impl Iterator<Item = (f32, f32)> {
        (t * self.hc..(t + 1) * self.hc).map(move |stream| {
            let at = stream * self.n + i;
            (self.x[at], self.w[if self.gated { at } else { stream }])
        })
    }

    /// The weight that a source says, and its terms.
    fn weight(&self, w: f64) -> (f64, f64) {
        if !self.gated {
            return (w, w);
        }
        let w = sigmoid(w);
        (w, if w < f64::from(f32::MIN_POSITIVE) { w / U } else { w })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::{GGML_CPU, Ggml, Isa};
    use crate::ops::exact::{Data, Operand};

    fn float(ne: [u64; 4], values: &[f32]) -> Option<Operand<'static>> {
        Some(Operand { ne, data: Data::Float(values.to_vec()) })
    }

    fn node<'a>(params: &'a [i32], ne: [u64; 4], sources: &'a [Option<Operand<'a>>]) -> Invocation<'a> {
        Invocation { op: "DSV4_HC_PRE", variant: None, params, ne, sources }
    }

    #[test]
    fn streams_are_added_by_weight() {
        // two tokens of two streams of two
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let sources = [float([2, 2, 2, 1], &x), float([2, 2, 1, 1], &[1.0, -1.0, 0.5, 2.0])];
        let one = [1f32.to_bits() as i32];
        let exact = Dsv4HcPre.exact(&node(&one, [2, 2, 1, 1], &sources)).unwrap();
        assert_eq!(exact.values, [1.0 - 3.0, 2.0 - 4.0, 2.5 + 14.0, 3.0 + 16.0]);
        assert_eq!((exact.terms, exact.additions), (vec![4.0, 6.0, 16.5, 19.0], 3.0));
        for wrong in [[2, 1, 2, 1], [2, 2, 2, 1], [1, 2, 1, 1]] {
            let error = Dsv4HcPre.exact(&node(&one, wrong, &sources)).unwrap_err();
            assert!(matches!(error, OracleError::Shape { .. }));
        }
        assert!(Dsv4HcPre.exact(&node(&one, [2, 2, 1, 1], &sources[..1])).is_err());
    }

    #[test]
    fn a_gate_belongs_to_an_element() {
        let ln_3 = 3f32.ln();
        let sources = [
            float([2, 2, 1, 1], &[8.0, 1.0, -4.0, 1.0]),
            float([2, 2, 1, 1], &[ln_3, -100.0, 0.0, -100.0]), // 3/4, 1/2
        ];
        let params = [2f32.to_bits() as i32, 1];
        let exact = Dsv4HcPre.exact(&node(&params, [2, 1, 1, 1], &sources)).unwrap();
        assert!((exact.values[0] - 2.0 * (6.0 - 2.0)).abs() < 1e-6);
        assert!((exact.terms[0] - 2.0 * (6.0 + 2.0)).abs() < 1e-6);
        // the exponential of 100 is no f32
        assert_eq!((exact.terms[1], exact.additions), (4.0 * sigmoid(-100.0) / U, 5.0));
        // without the parameter they are weights, which have another shape
        assert!(Dsv4HcPre.exact(&node(&params[..1], [2, 1, 1, 1], &sources)).is_err());
    }

    #[test]
    fn products_are_fused_where_the_build_can() {
        let a = 1.0 + 2f32.powi(-12); // a^2 is no f32: 2^-24 is lost of it
        let sources = [float([1, 2, 1, 1], &[-1.0, a]), float([2, 1, 1, 1], &[a * a, a])];
        let one = [1f32.to_bits() as i32];
        let of = |isa| {
            let executed = Executed {
                ggml: Ggml { isa, ..Ggml::of("CPU : ").unwrap() },
                primitives: &GGML_CPU,
                contiguous: &[],
            };
            Dsv4HcPre.ggml(&node(&one, [1, 1, 1, 1], &sources), &executed).unwrap()
        };
        assert_eq!((of(Isa::Sse2), of(Isa::Avx2)), (vec![0.0], vec![2f32.powi(-24)]));
    }
}
