//! GATED_DELTA_NET, one state per sequence: outputs, then the state after the last token, in one tensor.
//!
//! ```text
//! q, k {d, n_k, n_t, n_s}  v {d, n_v, n_t, n_s}  g, beta {1, n_v, n_t, n_s}  state {d, d, n_v, n_s}
//! result {d n_v, n_t n_s + d n_s}:  o {d, n_v, n_t, n_s}, then S {d, d, n_v, n_s}
//! terms of d_j = (|v_j| + sum_i |S_ji k_i|) beta
//! terms of S   = g (terms of S before) + |g S| + |k| (terms of d)
//! terms of o_j = scale sum_i (|S_ji| + terms of S_ji) |q_i|
//! ```
//! Rounding of one token stays in the state, and the recurrence does not amplify it (its factor is `g (I - beta k k^T)`, whose
//! norm is at most 1 for a normalised k), so the terms of the state add up over tokens, decayed. `2 d + n_t` additions.
//! A vector of decays (`g {d, ..}`) and several snapshots (params 0) are not evaluated.

use super::moves::floats;
use super::{Exact, Invocation, Oracle, OracleError};

pub(super) struct GatedDeltaNet;

impl Oracle for GatedDeltaNet {
    fn ops(&self) -> &'static [&'static str] {
        &["GATED_DELTA_NET"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let ne = |index| node.source(index).map(|source| source.ne.map(|n| n as usize));
        let ([d_k, n_k, ..], [d, n_v, n_t, n_s]) = (ne(0)?, ne(2)?);
        if node.int(0) > 1 || ne(3)?[0] != 1 {
            return Err(node.parameter("several snapshots, or a vector of decays"));
        }
        let fits = d_k == d
            && ne(1)? == ne(0)?
            && ne(0)?[2..] == [n_t, n_s]
            && n_k > 0
            && n_v.is_multiple_of(n_k)
            && ne(5)? == [d, d, n_v, n_s]
            && node.elements() == d * n_v * n_t * n_s + d * d * n_v * n_s;
        node.require(fits, "the sources and the result do not fit")?;
        let [q, k, v, g, beta, mut state] = [
            floats(node, 0)?,
            floats(node, 1)?,
            floats(node, 2)?,
            floats(node, 3)?,
            floats(node, 4)?,
            floats(node, 5)?,
        ];
        let scale = 1.0 / (d as f64).sqrt();
        let n_out = d * n_v * n_t * n_s;
        let mut values = vec![0.0; n_out];
        let mut terms = vec![0.0; n_out];
        let mut state_terms = vec![0.0; state.len()];
        for s in 0..n_s {
            for t in 0..n_t {
                for h in 0..n_v {
                    let token = s * n_t + t;
                    let at_k = (token * n_k + h % n_k) * d;
                    let (q, k) = (&q[at_k..][..d], &k[at_k..][..d]);
                    let (decay, beta) = (g[token * n_v + h].exp(), beta[token * n_v + h]);
                    for j in 0..d {
                        let at = ((s * n_v + h) * d + j) * d;
                        let (row, row_terms) = (&mut state[at..][..d], &mut state_terms[at..][..d]);
                        let (mut predicted, mut predicted_terms) = (0.0, 0.0);
                        for i in 0..d {
                            row[i] *= decay;
                            row_terms[i] = row_terms[i] * decay + row[i].abs();
                            predicted += row[i] * k[i];
                            predicted_terms += (row[i] * k[i]).abs();
                        }
                        let v = v[(token * n_v + h) * d + j];
                        let (delta, delta_terms) =
                            ((v - predicted) * beta, (v.abs() + predicted_terms) * beta.abs());
                        let (mut o, mut o_terms) = (0.0, 0.0);
                        for i in 0..d {
                            row[i] += k[i] * delta;
                            row_terms[i] += k[i].abs() * delta_terms;
                            o += row[i] * q[i];
                            o_terms += (row[i].abs() + row_terms[i]) * q[i].abs();
                        }
                        let out = (token * n_v + h) * d + j;
                        (values[out], terms[out]) = (o * scale, o_terms * scale);
                    }
                }
            }
        }
        values.extend(state);
        terms.extend(state_terms);
        Ok(Exact { values, terms, additions: (2 * d + n_t) as f64, flips: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn a_repeated_key_overwrites() {
        let float = |ne, values: &[f32]| Some(Operand { ne, data: Data::Float(values.to_vec()) });
        let key = [1.0, 0.0, 1.0, 0.0];
        let sources = [
            float([2, 1, 2, 1], &key),
            float([2, 1, 2, 1], &key),
            float([2, 1, 2, 1], &[8.0, 0.0, 8.0, 0.0]),
            float([1, 1, 2, 1], &[0.0, 0.5f32.ln()]),
            float([1, 1, 2, 1], &[0.5, 0.5]),
            float([2, 2, 1, 1], &[0.0; 4]),
        ];
        let node = Invocation {
            op: "GATED_DELTA_NET",
            variant: None,
            params: &[1],
            ne: [2, 4, 1, 1],
            sources: &sources,
        };
        let exact = GatedDeltaNet.exact(&node).unwrap();
        // S = 4, then 0.5 * 4 + (8 - 2) * 0.5 = 5; o = S / sqrt(2)
        let expected = [4.0 / 2f64.sqrt(), 0.0, 5.0 / 2f64.sqrt(), 0.0, 5.0, 0.0, 0.0, 0.0];
        assert!(exact.values.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-7), "{:?}", exact.values);
    }
}
