//! GATED_DELTA_NET: outputs, then the states after the last K tokens, the last one first, in one tensor.
//!
//! ```text
//! q, k {d, n_k, n_t, n_s}  v {d, n_v, n_t, n_s}  g {1 or d, n_v, n_t, n_s}  beta {1, n_v, n_t, n_s}  state {d, d, n_v, n_s}
//! result {d n_v, n_t n_s + K d n_s}:  o {d, n_v, n_t, n_s}, then S {d, d, n_v, n_s, K};  K = params 0
//! terms of d_j = (|v_j| + sum_i |S_ji k_i|) beta
//! terms of S   = g (terms of S before) + |g S| + |k| (terms of d)
//! terms of o_j = scale sum_i (|S_ji| + terms of S_ji) |q_i|
//! ```
//! Rounding of one token stays in the state, and the recurrence does not amplify it (its factor is `g (I - beta k k^T)`, whose
//! norm is at most 1 for a normalised k), so the terms of the state add up over tokens, decayed. `2 d + n_t` additions.
//! More snapshots than tokens are not evaluated: what those that no token fills hold is the caller's.

use super::moves::{floats, singles};
use super::{Exact, Executed, Invocation, Oracle, OracleError};
use crate::arithmetic::DeltaToken;

pub(super) struct GatedDeltaNet;

impl Oracle for GatedDeltaNet {
    fn ops(&self) -> &'static [&'static str] {
        &["GATED_DELTA_NET"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let Extents { d, n_k, n_v, n_t, n_s, n_decays, snapshots } = Extents::of(node)?;
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
        let mut values = vec![0.0; node.elements()];
        let mut terms = vec![0.0; node.elements()];
        let mut state_terms = vec![0.0; state.len()];
        for s in 0..n_s {
            for t in 0..n_t {
                for h in 0..n_v {
                    let token = s * n_t + t;
                    let at_k = (token * n_k + h % n_k) * d;
                    let (q, k) = (&q[at_k..][..d], &k[at_k..][..d]);
                    let decays = &g[(token * n_v + h) * n_decays..][..n_decays];
                    let beta = beta[token * n_v + h];
                    for j in 0..d {
                        let at = ((s * n_v + h) * d + j) * d;
                        let (row, row_terms) = (&mut state[at..][..d], &mut state_terms[at..][..d]);
                        let (mut predicted, mut predicted_terms) = (0.0, 0.0);
                        for i in 0..d {
                            let decay = decays[i % n_decays].exp();
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
                        let age = n_t - 1 - t;
                        if age < snapshots {
                            let slot = n_out + age * n_s * n_v * d * d + at;
                            values[slot..][..d].copy_from_slice(row);
                            terms[slot..][..d].copy_from_slice(row_terms);
                        }
                    }
                }
            }
        }
        Ok(Exact { values, terms, additions: (2 * d + n_t) as f64, ..Exact::default() })
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let Extents { d, n_k, n_v, n_t, n_s, n_decays, snapshots } = Extents::of(node)?;
        let source = |index| singles(node, index);
        let [q, k, v, g, beta] = [source(0)?, source(1)?, source(2)?, source(3)?, source(4)?];
        let mut state = source(5)?.into_owned();
        let n_out = d * n_v * n_t * n_s;
        let mut values = vec![0.0; node.elements()];
        for (s, t) in (0..n_s).flat_map(|s| (0..n_t).map(move |t| (s, t))) {
            for h in 0..n_v {
                let (token, at) = (s * n_t + t, (s * n_v + h) * d * d);
                let at_k = (token * n_k + h % n_k) * d;
                let at_v = token * n_v + h;
                let inputs = DeltaToken {
                    q: &q[at_k..][..d],
                    k: &k[at_k..][..d],
                    v: &v[at_v * d..][..d],
                    g: &g[at_v * n_decays..][..n_decays],
                    beta: beta[at_v],
                };
                let o = (executed.primitives.delta_token)(executed.ggml, &mut state[at..][..d * d], inputs);
                values[at_v * d..][..d].copy_from_slice(&o);
                let age = n_t - 1 - t;
                if age < snapshots {
                    let slot = n_out + age * n_s * n_v * d * d + at;
                    values[slot..][..d * d].copy_from_slice(&state[at..][..d * d]);
                }
            }
        }
        Ok(values)
    }
}

/// The extents of a node whose sources and result fit.
struct Extents {
    d: usize,
    n_k: usize,
    n_v: usize,
    n_t: usize,
    n_s: usize,
    n_decays: usize,
    snapshots: usize,
}

impl Extents {
    fn of(node: &Invocation<'_>) -> Result<Extents, OracleError> {
        let ne = |index| node.source(index).map(|source| source.ne.map(|n| n as usize));
        let ([d_k, n_k, ..], [d, n_v, n_t, n_s]) = (ne(0)?, ne(2)?);
        let snapshots = usize::try_from(node.int(0)).ok().filter(|n| (1..=n_t).contains(n));
        let snapshots =
            snapshots.ok_or_else(|| node.parameter(format!("{} snapshots of {n_t} tokens", node.int(0))))?;
        let n_decays = ne(3)?[0];
        let fits = d_k == d
            && ne(1)? == ne(0)?
            && ne(0)?[2..] == [n_t, n_s]
            && n_k > 0
            && n_v.is_multiple_of(n_k)
            && [1, d].contains(&n_decays)
            && ne(3)?[1..] == [n_v, n_t, n_s]
            && ne(4)? == [1, n_v, n_t, n_s]
            && ne(5)? == [d, d, n_v, n_s]
            && node.elements() == d * n_v * n_t * n_s + snapshots * d * d * n_v * n_s;
        node.require(fits, "the sources and the result do not fit")?;
        Ok(Extents { d, n_k, n_v, n_t, n_s, n_decays, snapshots })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    /// One head, two tokens with the key (1, 0) and v = 8, beta = 0.5; the second decays by a half.
    fn two_tokens(n_decays: u64, g: &[f32], snapshots: i32) -> Result<Vec<f64>, OracleError> {
        let float = |ne, values: &[f32]| Some(Operand { ne, data: Data::Float(values.to_vec()) });
        let key = [1.0, 0.0, 1.0, 0.0];
        let sources = [
            float([2, 1, 2, 1], &key),
            float([2, 1, 2, 1], &key),
            float([2, 1, 2, 1], &[8.0, 0.0, 8.0, 0.0]),
            float([n_decays, 1, 2, 1], g),
            float([1, 1, 2, 1], &[0.5, 0.5]),
            float([2, 2, 1, 1], &[0.0, 4.0, 0.0, 0.0]),
        ];
        let node = Invocation {
            op: "GATED_DELTA_NET",
            variant: None,
            params: &[snapshots],
            ne: [2, 2 + 2 * snapshots.max(0) as u64, 1, 1],
            sources: &sources,
        };
        Ok(GatedDeltaNet.exact(&node)?.values)
    }

    fn near(values: &[f64], expected: &[f64]) -> bool {
        values.len() == expected.len() && values.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-6)
    }

    #[test]
    fn a_repeated_key_overwrites() {
        let half = 0.5f32.ln();
        // S = 4, then 0.5 * 4 + (8 - 2) * 0.5 = 5; o = S / sqrt(2). What another key wrote decays: 4, then 2
        let (first, second) = ([4.0, 4.0, 0.0, 0.0], [5.0, 2.0, 0.0, 0.0]);
        let o = [first[0], 0.0, second[0], 0.0].map(|x: f64| x / 2f64.sqrt());
        let expected = |states: &[[f64; 4]]| [&o[..], &states.concat()].concat();
        assert!(near(&two_tokens(1, &[0.0, half], 1).unwrap(), &expected(&[second])));
        // the state before it is the next snapshot
        assert!(near(&two_tokens(1, &[0.0, half], 2).unwrap(), &expected(&[second, first])));
        // each element of the key has its own decay
        let kept = [5.0, 4.0, 0.0, 0.0];
        assert!(near(&two_tokens(2, &[0.0, 0.0, half, 0.0], 1).unwrap(), &expected(&[kept])));
    }

    #[test]
    fn snapshots_that_no_token_fills_are_an_error() {
        assert!(matches!(two_tokens(1, &[0.0, 0.0], 3), Err(OracleError::Parameter { .. })));
        assert!(matches!(two_tokens(1, &[0.0, 0.0], 0), Err(OracleError::Parameter { .. })));
    }
}
