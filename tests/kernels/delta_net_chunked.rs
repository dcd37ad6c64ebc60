//! kernels/delta_net_chunked.cu.

use lockstep::engine::HeadMap;
use lockstep::engine::gpu::launch::{self, DeltaShape};
use lockstep::ops::{DeltaInputs, NoSteps, Number as _, Tracked, delta_net_chunked};
use ndarray::{Array3, Array4};

use crate::gated_delta_net::{Case, SLOTS, shape};
use crate::support::{assert_rounded, assert_same_bits, given, in_every_order};

/// What is read and the states, in the order of the chunked form.
fn exact(case: &Case) -> (Vec<Tracked>, Vec<Tracked>) {
    let DeltaShape { n_seqs, n_tokens, n_k, n_v, d, head_map, scale } = case.shape;
    let qkv = given(&case.qkv);
    let heads = |at: usize, is_repeated: bool| {
        Array4::from_shape_fn((n_seqs, n_tokens, n_v, d), |(s, t, h, i)| {
            let head = match (is_repeated, head_map) {
                (false, _) => h,
                (true, HeadMap::Blocked) => h / (n_v / n_k),
                (true, HeadMap::Interleaved) => h % n_k,
            };
            qkv[(s * n_tokens + t) * case.stride() + (at + head) * d + i]
        })
    };
    let gates = |x: &[f32]| Array3::from_shape_vec((n_seqs, n_tokens, n_v), given(x)).unwrap();
    let (q, k, v) = (heads(0, true), heads(n_k, true), heads(2 * n_k, false));
    let (log_decay, beta) = (gates(&case.gate), gates(&case.beta));
    let inputs =
        DeltaInputs { q: q.view(), k: k.view(), v: v.view(), log_decay: log_decay.view(), beta: beta.view() };
    let mut states = given(&case.states);
    let n_state = case.shape.n_state();
    let of = |s: usize| SLOTS[s] as usize * n_state..(SLOTS[s] as usize + 1) * n_state;
    let state: Vec<Tracked> = (0..n_seqs).flat_map(|s| states[of(s)].to_vec()).collect();
    let state = Array4::from_shape_vec((n_seqs, n_v, d, d), state).unwrap();
    let Ok((o, state)) = delta_net_chunked(&inputs, state, Tracked::from_f32(scale), &mut NoSteps);
    for (s, state) in state.outer_iter().enumerate() {
        states[of(s)].iter_mut().zip(state).for_each(|(to, &x)| *to = x);
    }
    (o.into_iter().collect(), states)
}

/// Checks cases in every order. The limits are those of the chunked form, which rounds more than the recurrence does: sums of log
/// decays over a chunk are as exact as their size lets them, and the solve carries errors from token to token.
fn check(cases: &[Case]) {
    let cases: Vec<_> = cases.iter().map(|case| (case, exact(case))).collect();
    in_every_order(|device| {
        for (case, (exact_o, exact_states)) in &cases {
            let what = format!("delta_net_chunked: {:?}", case.shape);
            let (o, states) = case.run(device, launch::delta_net_chunked);
            assert_rounded(&format!("{what}, o"), &o, exact_o);
            assert_rounded(&format!("{what}, states"), &states, exact_states);
        }
    });
}

#[test]
fn any_number_of_tokens_and_sequences() {
    let sizes = [(1, 1), (3, 2), (2, 33), (1, 64), (1, 65)];
    let shapes = sizes.map(|(n_seqs, n_tokens)| shape(n_seqs, n_tokens, (1, 2), 8));
    let of = |shape| [1.0, 20.0].map(|strongest| Case::new(shape, strongest));
    check(&shapes.into_iter().flat_map(of).collect::<Vec<_>>());
}

#[test]
fn heads_of_every_size() {
    let blocked = DeltaShape { head_map: HeadMap::Blocked, ..shape(1, 3, (2, 4), 16) };
    let shapes = [blocked, shape(1, 66, (1, 1), 32), shape(1, 5, (1, 1), 64), shape(1, 3, (1, 1), 128)];
    check(&shapes.map(|shape| Case::new(shape, 1.0)));
}

/// Between chunks nothing but the state is kept.
#[test]
fn chunks_may_come_in_several_launches() {
    in_every_order(|device| {
        let whole = Case::new(shape(1, 66, (1, 1), 16), 1.0);
        let (o, states) = whole.run(device, launch::delta_net_chunked);
        let (mut parts, mut left) = (Vec::new(), whole.states.clone());
        for tokens in [0..64, 64..66] {
            let part = whole.part(tokens, left);
            let (o, states) = part.run(device, launch::delta_net_chunked);
            parts.extend(o);
            left = states;
        }
        assert_same_bits("delta_net_chunked: o", &parts, &o);
        assert_same_bits("delta_net_chunked: states", &left, &states);
    });
}

/// The limits tell a decay that is off by a thousandth from the right one.
#[test]
fn a_wrong_decay_is_over_the_limits() {
    let case = Case::new(shape(1, 3, (1, 1), 8), 1.0);
    let mut other = Case::new(case.shape, 1.0);
    other.gate[1] *= 0.999;
    let (o, _) = other.exact(|x| x);
    let (exact_o, _) = exact(&case);
    assert!(std::panic::catch_unwind(|| assert_rounded("another decay", &o, &exact_o)).is_err());
}
