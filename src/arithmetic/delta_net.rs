//! One token of one head of GATED_DELTA_NET: `ggml_compute_forward_gated_delta_net_one_chunk` (ops.cpp).

use super::rows::{mad, scale};
use super::{Ggml, dot_f32};

/// The inputs of a token of one head.
#[derive(Clone, Copy, Debug)]
pub struct DeltaToken<'a> {
    /// The query.
    pub q: &'a [f32],
    /// The key.
    pub k: &'a [f32],
    /// The value.
    pub v: &'a [f32],
    /// Logarithms of the decay: one, or one for each element of the key.
    pub g: &'a [f32],
    /// How much of the difference is written.
    pub beta: f32,
}

/// Moves the state `[d_v, d_k]` on by a token and gives the output `[d_v]`.
pub fn delta_token(ggml: Ggml, state: &mut [f32], token: DeltaToken<'_>) -> Vec<f32> {
    let DeltaToken { q, k, v, g, beta } = token;
    let d = k.len();
    match g {
        [g] => scale(state, g.exp()),
        _ => {
            let decay: Vec<f32> = g.iter().map(|g| g.exp()).collect();
            state.chunks_exact_mut(d).for_each(|row| row.iter_mut().zip(&decay).for_each(|(s, e)| *s *= e));
        }
    }
    let delta = state.chunks_exact(d).zip(v).map(|(row, v)| (v - dot_f32(ggml.isa, row, k)) * beta);
    let delta: Vec<f32> = delta.collect();
    state.chunks_exact_mut(d).zip(&delta).for_each(|(row, &delta)| mad(ggml.isa, row, k, delta));
    let factor = 1.0 / (v.len() as f32).sqrt();
    state.chunks_exact(d).map(|row| dot_f32(ggml.isa, row, q) * factor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_writes_what_the_state_does_not_give() {
        let ggml = Ggml::of("CPU : ").unwrap();
        let mut state = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let (k, v) = ([1.0, 0.0, 0.0, 0.0], [3.0, 5.0, 0.0, 0.0]);
        let token = DeltaToken { q: &k, k: &k, v: &v, g: &[0.0], beta: 0.5 };
        // 1 + (3 - 1) / 2, 0 + (5 - 0) / 2; the output is half of that
        assert_eq!(delta_token(ggml, &mut state, token), [1.0, 1.25, 0.0, 0.0]);
        assert_eq!((state[0], state[3], state[4]), (2.0, 1.0, 2.5));
    }
}
