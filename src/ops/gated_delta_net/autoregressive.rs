//! GATED_DELTA_NET of one token, as a graph of plain operators.
//!
//! ```text
//! S <- exp(g) S;   sk_j = sum_i S_ji k_i;   d = (v - sk) beta;   S <- S + d k^T;   o_j = sum_i S_ji (scale q_i)
//! ```
//! Products are rounded to the arithmetic's type; their sums accumulate in f64 and are rounded once, as those of SUM_ROWS.
//! Mirrors `build_delta_net_autoregressive` (models/delta-net-base.cpp), whose `dnet_add_ar_state` is the tensor that
//! `build_recurrent_attn` then names `new_state`.

use ndarray::{Array4, ArrayView1, s};

use super::{DeltaInputs, DeltaSteps};
use crate::ops::Number;

/// Moves `state` `[n_seqs, n_v, d_v, d_k]` on by one token; returns `o` `[n_seqs, 1, n_v, d]` and the new state, which
/// `steps` has seen.
///
/// # Errors
/// Those of `steps`.
///
/// # Panics
/// If the shapes do not belong together, or there is not one token.
pub fn delta_net_autoregressive<T: Number, S: DeltaSteps<T>>(
    inputs: &DeltaInputs<'_, T>,
    state: Array4<T>,
    scale: T,
    steps: &mut S,
) -> Result<(Array4<T>, Array4<T>), S::Error> {
    let (n_seqs, n_tokens, n_v, d) = inputs.dim(&state);
    assert!(n_tokens == 1, "{n_tokens} tokens");
    let by_head = [0, 2, 1, 3]; // [n_seqs, n_v, 1, d]
    steps.view("k_in", inputs.k.permuted_axes(by_head))?;
    steps.view("v_in", inputs.v.permuted_axes(by_head))?;
    let state = steps.step("new_state", updated(inputs, state))?;
    let q = steps.step("q_in", inputs.q.mapv(|q| q * scale).permuted_axes(by_head))?;
    let o = Array4::from_shape_fn((n_seqs, 1, n_v, d), |(seq, _, head, j)| {
        sum_of_products(state.slice(s![seq, head, j, ..]), q.slice(s![seq, head, 0, ..]))
    });
    Ok((o, state))
}

/// The state after the token.
fn updated<T: Number>(inputs: &DeltaInputs<'_, T>, mut state: Array4<T>) -> Array4<T> {
    for (seq, mut heads) in state.outer_iter_mut().enumerate() {
        for (head, mut rows) in heads.outer_iter_mut().enumerate() {
            let decay = inputs.log_decay[[seq, 0, head]].exp();
            let beta = inputs.beta[[seq, 0, head]];
            let k = inputs.k.slice(s![seq, 0, head, ..]);
            for (mut row, &v) in rows.outer_iter_mut().zip(inputs.v.slice(s![seq, 0, head, ..])) {
                row.mapv_inplace(|x| x * decay);
                let delta = (v - sum_of_products(row.view(), k)) * beta;
                row.zip_mut_with(&k, |x, &k| *x += k * delta);
            }
        }
    }
    state
}

/// SUM_ROWS of MUL.
fn sum_of_products<T: Number>(x: ArrayView1<'_, T>, y: ArrayView1<'_, T>) -> T {
    T::sum_in_f64(x.iter().zip(y).map(|(&x, &y)| x * y))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::gated_delta_net::NoSteps;
    use ndarray::{Array, Array3, ArrayView4};

    #[test]
    fn a_state_decays_and_is_corrected() {
        let shape = |values: &[f64]| Array::from_shape_vec((1, 1, 1, 2), values.to_vec()).unwrap();
        let (q, k, v) = (shape(&[1.0, 3.0]), shape(&[1.0, 0.0]), shape(&[8.0, 0.0]));
        let gate = |x: f64| Array3::from_elem((1, 1, 1), x);
        let (log_decay, beta) = (gate(0.5f64.ln()), gate(0.5));
        let inputs = DeltaInputs {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            log_decay: log_decay.view(),
            beta: beta.view(),
        };
        let state = ArrayView4::from_shape((1, 1, 2, 2), &[4.0, 2.0, 0.0, 6.0]).unwrap().to_owned();
        let (o, state) = delta_net_autoregressive(&inputs, state, 0.5, &mut NoSteps).unwrap();
        // 0.5 [4 2; 0 6] = [2 1; 0 3]; d = ((8 - 2) 0.5, (0 - 0) 0.5); S = [2 + 3, 1; 0, 3]
        assert_eq!(state.into_raw_vec_and_offset().0, [5.0, 1.0, 0.0, 3.0]);
        // 0.5 (5 * 1 + 1 * 3), 0.5 (0 * 1 + 3 * 3)
        assert_eq!(o.into_raw_vec_and_offset().0, [4.0, 4.5]);
    }
}
