//! SSM_SCAN: the selective state space of Mamba (`ggml_compute_forward_ssm_scan_f32`, ops.cpp): outputs, then the states after the
//! last K tokens, the last one first, in one tensor.
//!
//! ```text
//! s  {n, d, n_h, n_rows}   x  {d, n_h, n_t, n_s}   dt  {n_h, n_t, n_s}   A  {n, n_h} of Mamba 1, {1, n_h} of Mamba 2
//! B, C  {n, n_g, n_t, n_s}   ids  {n_s}: the row of s that a sequence begins with;  n_h / n_g heads in order share B and C
//! result  {d n_h n_t n_s + K n d n_h n_s}:  y {d, n_h, n_t, n_s}, then S {n, d, n_h, n_s, K};  K = params 0
//!
//! D = softplus(dt)    g_i = exp(D A_i)    S_ji = g_i S_ji + B_i x_j D    y_j = sum_i S_ji C_i
//! terms of D   = 1 + D, as its rounding of 1 + exp(dt) is one of 1
//! terms of g_i = g_i (1 + |A_i| (terms of D)), as an error of the exponent is a share of the exponential
//! terms of S   = g (terms of S before) + |S before| (terms of g) + |B x| (terms of D)
//! terms of y_j = sum_i (|S_ji| + terms of S_ji) |C_i|
//! ```
//! What a token rounds stays in the state and decays with it, as do its terms. `n + n_t + 8` additions: the sum over the state,
//! the state's decay by each token, and the [`STEPS`] by which a token comes to what it adds. More snapshots than tokens are
//! not evaluated: what those that no token fills hold is the caller's.

use super::moves::{floats, singles};
use super::{Exact, Executed, Invocation, Oracle, OracleError};
use crate::arithmetic::{dot_of_scan, dot_one_by_one};
use crate::ops::softplus;

pub(super) struct SsmScan;

/// Roundings of a token beside those of sums: exponential, addition and logarithm of D, the exponent, its exponential, and the
/// products `x D`, `B x D` and `g S`.
const STEPS: usize = 8;

impl Oracle for SsmScan {
    fn ops(&self) -> &'static [&'static str] {
        &["SSM_SCAN"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let extents = Extents::of(node)?;
        let Extents { n, n_t, .. } = extents;
        let [s, x, dt, a, b, c] = [
            floats(node, 0)?,
            floats(node, 1)?,
            floats(node, 2)?,
            floats(node, 3)?,
            floats(node, 4)?,
            floats(node, 5)?,
        ];
        let states = extents.scan(s.into_iter().map(|s| (s, 0.0)).collect(), |state, at| {
            let of_b = &b[at.group * n..][..n];
            let of_c = &c[at.group * n..][..n];
            let delta = softplus(dt[at.token_head]);
            let delta_terms = 1.0 + delta.abs();
            let x = x[at.output];
            let (mut y, mut y_terms) = (0.0, 0.0);
            for (i, (value, terms)) in state.iter_mut().enumerate() {
                let a = a[extents.decay(at.head, i)];
                let decay = (delta * a).exp();
                let decay_terms = decay * (1.0 + a.abs() * delta_terms);
                *terms = decay * *terms + value.abs() * decay_terms + (of_b[i] * x).abs() * delta_terms;
                *value = decay * *value + of_b[i] * x * delta;
                y += *value * of_c[i];
                y_terms += (value.abs() + *terms) * of_c[i].abs();
            }
            (y, y_terms)
        });
        Ok(Exact::collect((n + n_t + STEPS) as f64, states.into_iter()))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let isa = executed.ggml.isa;
        let extents = Extents::of(node)?;
        let n = extents.n;
        let source = |index| singles(node, index);
        let [x, dt, a, b, c] = [source(1)?, source(2)?, source(3)?, source(4)?, source(5)?];
        Ok(extents.scan(source(0)?.into_owned(), |state, at| {
            let of_b = &b[at.group * n..][..n];
            let of_c = &c[at.group * n..][..n];
            let dt = dt[at.token_head];
            let delta = if dt > 20.0 { dt } else { (1.0 + dt.exp()).ln() };
            let x = x[at.output] * delta;
            for (i, state) in state.iter_mut().enumerate() {
                let decay = (delta * a[extents.decay(at.head, i)]).exp();
                *state = isa.madd(*state, decay, of_b[i] * x);
            }
            // The exponentials of Mamba 1 are called one by one, and so is all beside them.
            match extents.n_decays {
                1 => dot_of_scan(isa, state, of_c),
                _ => dot_one_by_one(isa, 0.0, state, of_c),
            }
        }))
    }
}

/// The extents of a node whose sources and result fit.
struct Extents<'a> {
    n: usize,
    d: usize,
    n_h: usize,
    n_g: usize,
    n_t: usize,
    n_s: usize,
    n_decays: usize,
    snapshots: usize,
    /// Which state each sequence begins with.
    rows: &'a [i64],
}

/// One element of y, and where what makes it is: a row of x as of y, a token's head, and a token's group.
struct At {
    output: usize,
    head: usize,
    token_head: usize,
    group: usize,
}

impl<'a> Extents<'a> {
    fn of(node: &Invocation<'a>) -> Result<Extents<'a>, OracleError> {
        let ne = |index| node.source(index).map(|source| source.ne.map(|n| n as usize));
        let ([n, .., n_rows], [d, n_h, n_t, n_s], [n_decays, ..], [_, n_g, ..]) =
            (ne(0)?, ne(1)?, ne(3)?, ne(4)?);
        let snapshots = usize::try_from(node.int(0)).ok().filter(|n| (1..=n_t).contains(n));
        let snapshots =
            snapshots.ok_or_else(|| node.parameter(format!("{} snapshots of {n_t} tokens", node.int(0))))?;
        let rows = node.source(6)?.ints().ok_or_else(|| node.shape("source 6 holds no integers"))?;
        let fits = n > 0
            && ne(0)?[1..3] == [d, n_h]
            && ne(2)? == [n_h, n_t, n_s, 1]
            && [1, n].contains(&n_decays)
            && ne(3)?[1..] == [n_h, 1, 1]
            && n_g > 0
            && n_h.is_multiple_of(n_g)
            && ne(4)? == [n, n_g, n_t, n_s]
            && ne(5)? == ne(4)?
            && rows.len() == n_s
            && node.elements() == d * n_h * n_t * n_s + snapshots * n * d * n_h * n_s;
        node.require(fits, "the sources and the result do not fit")?;
        if let Some(row) = rows.iter().find(|row| !(0..n_rows as i64).contains(row)) {
            return Err(node.shape(format!("state {row} of {n_rows}")));
        }
        Ok(Extents { n, d, n_h, n_g, n_t, n_s, n_decays, snapshots, rows })
    }

    /// Where the decay of an element of a head's state is in A.
    fn decay(&self, head: usize, i: usize) -> usize {
        head * self.n_decays + i % self.n_decays
    }

    /// The result: `step` moves a row of the state on by a token and gives the output that comes of it.
    fn scan<T: Copy + Default>(&self, states: Vec<T>, step: impl Fn(&mut [T], At) -> T) -> Vec<T> {
        let &Extents { n, d, n_h, n_g, n_t, n_s, snapshots, .. } = self;
        let (n_out, width) = (d * n_h * n_t * n_s, n * d * n_h);
        let mut result = vec![T::default(); n_out + snapshots * width * n_s];
        for (s, &row) in self.rows.iter().enumerate() {
            let mut state = states[row as usize * width..][..width].to_vec();
            for t in 0..n_t {
                let token = s * n_t + t;
                for (j, state) in state.chunks_exact_mut(n).enumerate() {
                    let head = j / d;
                    let (output, token_head) = (token * n_h * d + j, token * n_h + head);
                    let group = token * n_g + head / (n_h / n_g);
                    result[output] = step(state, At { output, head, token_head, group });
                }
                let age = n_t - 1 - t;
                if age < snapshots {
                    result[n_out + (age * n_s + s) * width..][..width].copy_from_slice(&state);
                }
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::{GGML_CPU, Ggml, Isa};
    use crate::ops::exact::{Data, Operand};

    /// softplus of it is ln 2.
    const DT: f32 = 0.0;

    fn float(ne: [u64; 4], values: &[f32]) -> Option<Operand<'static>> {
        Some(Operand { ne, data: Data::Float(values.to_vec()) })
    }

    /// One head of one row, two tokens; a state of two elements is the second of two.
    fn sources(a: &[f32], id: i64) -> [Option<Operand<'static>>; 7] {
        [
            float([2, 1, 1, 2], &[9.0, 9.0, 8.0, 4.0]),
            float([1, 1, 2, 1], &[0.0, 3.0]),
            float([1, 2, 1, 1], &[DT; 2]),
            float([a.len() as u64, 1, 1, 1], a),
            float([2, 1, 2, 1], &[5.0, 5.0, 1.0, -1.0]),
            float([2, 1, 2, 1], &[1.0, 10.0, 1.0, 10.0]),
            Some(Operand { ne: [1; 4], data: Data::Int(vec![id]) }),
        ]
    }

    fn node<'a>(sources: &'a [Option<Operand<'a>>], params: &'a [i32]) -> Invocation<'a> {
        let ne = [2 + 2 * params[0] as u64, 1, 1, 1];
        Invocation { op: "SSM_SCAN", variant: None, params, ne, sources }
    }

    fn near(values: &[f64], expected: &[f64]) -> bool {
        values.len() == expected.len() && values.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-6)
    }

    #[test]
    fn a_state_decays_and_takes_up_what_a_token_brings() {
        let d = std::f64::consts::LN_2;
        // A = -1: halves, 4 and 2; then 2 + 3 D and 1 - 3 D
        let sources = sources(&[-1.0], 1);
        let [first, second] = [[4.0, 2.0], [2.0 + 3.0 * d, 1.0 - 3.0 * d]];
        let y = [first, second].map(|s| s[0] + 10.0 * s[1]);
        let one = SsmScan.exact(&node(&sources, &[1])).unwrap();
        assert!(near(&one.values, &[&y[..], &second].concat()), "{:?}", one.values);
        let two = SsmScan.exact(&node(&sources, &[2])).unwrap();
        assert!(near(&two.values, &[&y[..], &second, &first].concat()), "{:?}", two.values);
        // terms: of D 1 + D, of g (1 + (1 + D)) / 2; of S 8 times that, then half of these, 4 times that, and 3 times those of D
        let (of_d, of_g) = (1.0 + d, (2.0 + d) / 2.0);
        let after = |s: f64, s1: f64| 0.5 * s * of_g + s1 * of_g + 3.0 * of_d;
        let states = [after(8.0, 4.0), after(4.0, 2.0)];
        let of_y = (second[0].abs() + states[0]) + 10.0 * (second[1].abs() + states[1]);
        assert!(near(&two.terms[1..4], &[of_y, states[0], states[1]]), "{:?}", two.terms);
        assert_eq!(two.additions, 2.0 + 2.0 + 8.0);
    }

    #[test]
    fn each_element_of_a_state_may_have_its_own_decay() {
        let sources = sources(&[-1.0, 0.0], 1);
        let node = node(&sources, &[1]);
        let d = std::f64::consts::LN_2;
        let (first, second) = ([4.0, 4.0], [2.0 + 3.0 * d, 4.0 - 3.0 * d]);
        let y = [first, second].map(|s| s[0] + 10.0 * s[1]);
        let expected = [&y[..], &second].concat();
        assert!(near(&SsmScan.exact(&node).unwrap().values, &expected));
        for isa in [Isa::Sse2, Isa::Avx2] {
            let ggml = Ggml { isa, ..Ggml::of("CPU : ").unwrap() };
            let executed = Executed { ggml, primitives: &GGML_CPU, contiguous: &[] };
            let singles = SsmScan.ggml(&node, &executed).unwrap();
            assert!(singles.iter().zip(&expected).all(|(a, b)| (f64::from(*a) - b).abs() <= 1e-5));
        }
    }

    #[test]
    fn a_state_that_there_is_not_and_unfilled_snapshots_are_errors() {
        for id in [-1, 2] {
            let refused = SsmScan.exact(&node(&sources(&[-1.0], id), &[1])).unwrap_err();
            assert_eq!(refused.to_string(), format!("SSM_SCAN: state {id} of 2"));
        }
        let sources = sources(&[-1.0], 0);
        for snapshots in [0, 3] {
            let refused = SsmScan.exact(&node(&sources, &[snapshots]));
            assert!(matches!(refused, Err(OracleError::Parameter { .. })));
        }
    }
}
