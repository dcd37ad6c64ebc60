//! DSV4_HC_POST: what a block gave goes to every stream of a hyper-connection, `y_id = x_i p_d + sum_s r_is c_ds`.
//!
//! ```text
//! x {n, n_tokens}   r {n, hc, n_tokens}   p {hc, n_tokens}   c {hc, hc, n_tokens}, d fastest   y {n, hc, n_tokens}
//! without c: y_id = x_i p_d + r_id
//! terms = |x_i p_d| + sum_s |r_is c_ds|;  hc + 1 additions;  without c |x_i p_d| + |r_id| and 2
//! ```
//! In f32, beginning with the product, which is rounded, and s after s (`ggml_compute_forward_dsv4_hc_post_f32`, ops.cpp).

use std::borrow::Cow;

use super::attention::values;
use super::{Exact, Executed, Invocation, Oracle, OracleError, indices};

pub(super) struct Dsv4HcPost;

impl Oracle for Dsv4HcPost {
    fn ops(&self) -> &'static [&'static str] {
        &["DSV4_HC_POST"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let streams = Streams::of(node)?;
        let element = |index| {
            let (first, others) = streams.products(index);
            std::iter::once(first).chain(others).fold((0.0, 0.0), |(sum, terms), (a, b)| {
                let product = f64::from(a) * f64::from(b);
                (sum + product, terms + product.abs())
            })
        };
        let additions = if streams.comb.is_some() { streams.hc + 1 } else { 2 };
        Ok(Exact::collect(additions as f64, indices(node.ne).map(element)))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let streams = Streams::of(node)?;
        let element = |index| {
            let ((x, post), others) = streams.products(index);
            others.fold(x * post, |sum, (r, c)| executed.ggml.isa.madd(r, c, sum))
        };
        Ok(indices(node.ne).map(element).collect())
    }
}

/// The sources of a node, which fit each other.
struct Streams<'a> {
    /// `[n_tokens, n]`
    x: Cow<'a, [f32]>,
    /// `[n_tokens, hc, n]`
    residual: Cow<'a, [f32]>,
    /// `[n_tokens, hc]`
    post: Cow<'a, [f32]>,
    /// `[n_tokens, hc, hc]`
    comb: Option<Cow<'a, [f32]>>,
    n: usize,
    hc: usize,
}

impl<'a> Streams<'a> {
    fn of(node: &Invocation<'a>) -> Result<Streams<'a>, OracleError> {
        let (x_ne, x) = values(node, 0)?;
        let ([n, hc, n_tokens, more], residual) = values(node, 1)?;
        let (post_ne, post) = values(node, 2)?;
        let comb = match node.sources.get(3).and_then(Option::as_ref) {
            Some(_) => Some(values(node, 3)?),
            None => None,
        };
        let fits = more == 1
            && x_ne == [n, n_tokens, 1, 1]
            && post_ne == [hc, n_tokens, 1, 1]
            && comb.as_ref().is_none_or(|(ne, _)| *ne == [hc, hc, n_tokens, 1])
            && node.ne == [n, hc, n_tokens, 1].map(|n| n as u64);
        node.require(fits, "the block, the streams, their weights and the result do not fit")?;
        Ok(Streams { x, residual, post, comb: comb.map(|(_, comb)| comb), n, hc })
    }

    /// The products that an element adds up: that of the block, then those of the streams.
    fn products(&self, index: [usize; 4]) -> ((f32, f32), impl Iterator<Item = (f32, f32)>) {
        let ([i, to, t, _], hc) = (index, self.hc);
        let from = if self.comb.is_some() { 0..hc } else { to..to + 1 };
        let others = from.map(move |from| {
            let weight = self.comb.as_ref().map_or(1.0, |comb| comb[(t * hc + from) * hc + to]);
            (self.residual[(t * hc + from) * self.n + i], weight)
        });
        ((self.x[t * self.n + i], self.post[t * hc + to]), others)
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

    /// One token of two streams of one: x = 3, r = (5, 7), p = (1, -2).
    fn sources(comb: Option<[f32; 4]>) -> [Option<Operand<'static>>; 4] {
        [
            float([1, 1, 1, 1], &[3.0]),
            float([1, 2, 1, 1], &[5.0, 7.0]),
            float([2, 1, 1, 1], &[1.0, -2.0]),
            comb.and_then(|comb| float([2, 2, 1, 1], &comb)),
        ]
    }

    fn node<'a>(sources: &'a [Option<Operand<'a>>]) -> Invocation<'a> {
        Invocation { op: "DSV4_HC_POST", variant: None, params: &[], ne: [1, 2, 1, 1], sources }
    }

    #[test]
    fn the_streams_are_mixed() {
        let exact = Dsv4HcPost.exact(&node(&sources(Some([1.0, 2.0, -3.0, 4.0])))).unwrap();
        // the first stream goes by 1 to itself, by 2 to the second
        assert_eq!(exact.values, [3.0 + 5.0 - 21.0, -6.0 + 10.0 + 28.0]);
        assert_eq!((exact.terms, exact.additions), (vec![29.0, 44.0], 3.0));
        let own = Dsv4HcPost.exact(&node(&sources(None)[..3])).unwrap();
        assert_eq!((own.values, own.terms, own.additions), (vec![8.0, 1.0], vec![8.0, 13.0], 2.0));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        for (index, wrong) in [(0, [2, 1, 1, 1]), (2, [1, 2, 1, 1]), (3, [1, 2, 1, 1])] {
            let mut sources = sources(Some([0.0; 4]));
            sources[index] = float(wrong, &[0.0; 2]);
            let error = Dsv4HcPost.exact(&node(&sources)).unwrap_err();
            assert!(matches!(error, OracleError::Shape { .. }));
            assert!(Dsv4HcPost.exact(&node(&sources[..2])).is_err());
        }
    }

    #[test]
    fn the_first_product_is_rounded() {
        let a = 1.0 + 2f32.powi(-12); // a^2 is no f32: 2^-24 is lost of it
        let of = |isa, [x, post, residual, comb]: [f32; 4]| {
            let one = [1; 4];
            let sources = [x, residual, post, comb].map(|value| float(one, &[value]));
            let executed = Executed {
                ggml: Ggml { isa, ..Ggml::of("CPU : ").unwrap() },
                primitives: &GGML_CPU,
                contiguous: &[],
            };
            Dsv4HcPost.ggml(&Invocation { ne: one, ..node(&sources) }, &executed).unwrap()[0]
        };
        let [first, second] = [[a, a, -(a * a), 1.0], [-(a * a), 1.0, a, a]];
        assert_eq!([Isa::Sse2, Isa::Avx2].map(|isa| of(isa, first)), [0.0, 0.0]);
        assert_eq!([Isa::Sse2, Isa::Avx2].map(|isa| of(isa, second)), [0.0, 2f32.powi(-24)]);
    }
}
