//! GATED_DELTA_NET in chunks of tokens, as a graph of plain operators.
//!
//! ```text
//! within a chunk, i and j tokens of it, G_i = g_0 + .. + g_i, S the state in front of it [d_v, d_k]:
//!   D_ij = exp(G_i - G_j) for j <= i
//!   A    = (I + tril(diag(beta) K K^T . D, -1))^-1                       a triangular solve
//!   V'   = A (diag(beta) V) - (A diag(beta exp(G)) K) S^T                what is written, token by token
//!   O    = diag(exp(G)) Q S^T + tril(Q K^T . D) V'                       Q scaled
//!   S   <- exp(G_last) S + V'^T diag(exp(G_last - G)) K
//! ```
//! The tokens of a sequence are padded with zeros to whole chunks: a key, value or query of 0 with beta = 0 writes nothing, and
//! a log decay of 0 keeps `G_last` what it is at the last token. The upper triangle of D, zeroed in front of the exponential,
//! is 1; what is multiplied with it is zeroed afterwards.
//!
//! Everything is in the arithmetic's type, sums of products by [`dot`](crate::ops::dot), cumulative sums and the solve in order.
//! Mirrors `build_delta_net_chunking` (models/delta-net-base.cpp) for one decay per head. The stacks of matrices are
//! `[n_seqs n_v, n_chunks, rows, columns]`.
//!
//! Tensors come in the order in which llama.cpp evaluates its graph, which is not that of its source: the states of all chunks
//! first, as the cache is written first, then the outputs. (Only `kq` comes a tensor early, in front of the first `attn_inter`.)

use ndarray::{Array4, ArrayView4, Axis, s};

use super::matrices::{Triangle, plus_identity, products_by, solved, transposed, triangle};
use super::{DeltaInputs, DeltaSteps};
use crate::ops::Number;

/// Tokens of a chunk, llama.cpp's CS for one decay per head.
pub const DELTA_CHUNK: usize = 64;

/// Runs the recurrence over all tokens of every sequence from `state` `[n_seqs, n_v, d_v, d_k]`; returns `o`
/// `[n_seqs, n_tokens, n_v, d]` and the new state.
///
/// # Errors
/// Those of `steps`.
///
/// # Panics
/// If the shapes do not belong together.
pub fn delta_net_chunked<T: Number, S: DeltaSteps<T>>(
    inputs: &DeltaInputs<'_, T>,
    state: Array4<T>,
    scale: T,
    steps: &mut S,
) -> Result<(Array4<T>, Array4<T>), S::Error> {
    let (n_seqs, n_tokens, n_v, d) = inputs.dim(&state);
    let state = state.into_shape_with_order((n_seqs * n_v, 1, d, d)).expect("a state is packed");
    steps.view("dnet_add_ch_state", state.view())?;
    let within = WithinChunks::new(inputs, steps)?;
    let mut states = vec![state]; // in front of each chunk, and behind the last
    let mut written = Vec::with_capacity(n_chunks(n_tokens));
    for chunk in 0..n_chunks(n_tokens) {
        let (v_t_new, state) = within.update(chunk, &states[chunk], steps)?;
        written.push(v_t_new);
        states.push(state);
    }
    let queries = within.queries(inputs.q, scale, steps)?;
    let mut o = Array4::from_elem(within.v.dim(), T::ZERO);
    for (chunk, v_t_new) in written.iter().enumerate() {
        let of_chunk = queries.output(chunk, &states[chunk], v_t_new, steps)?;
        o.slice_mut(s![.., chunk..chunk + 1, .., ..]).assign(&of_chunk);
    }
    let state = states.pop().expect("there is one in front of the first chunk");
    let state = state.into_shape_with_order((n_seqs, n_v, d, d)).expect("packed");
    Ok((without_padding(o, (n_seqs, n_tokens, n_v)), state))
}

/// Chunks that hold `n_tokens`.
fn n_chunks(n_tokens: usize) -> usize {
    n_tokens.div_ceil(DELTA_CHUNK)
}

/// `[n_seqs, n_tokens, n_v, n]` by head, filled up with zero tokens: `[n_seqs, n_v, n_chunks DELTA_CHUNK, n]`.
fn padded<T: Number>(x: ArrayView4<'_, T>) -> Array4<T> {
    let (n_seqs, n_tokens, n_v, n) = x.dim();
    let mut padded = Array4::from_elem((n_seqs, n_v, n_chunks(n_tokens) * DELTA_CHUNK, n), T::ZERO);
    padded.slice_mut(s![.., .., ..n_tokens, ..]).assign(&x.permuted_axes([0, 2, 1, 3]));
    padded
}

/// Padded tokens by chunk: `[n_seqs n_v, n_chunks, DELTA_CHUNK, n]`.
fn by_chunk<T: Number>(x: Array4<T>) -> Array4<T> {
    let (n_seqs, n_v, n_tokens, n) = x.dim();
    x.into_shape_with_order((n_seqs * n_v, n_tokens / DELTA_CHUNK, DELTA_CHUNK, n)).expect("packed")
}

/// The inverse of both, for the tokens that there are.
fn without_padding<T: Number>(o: Array4<T>, (n_seqs, n_tokens, n_v): (usize, usize, usize)) -> Array4<T> {
    let (_, n_chunks, _, d) = o.dim();
    let o = o.into_shape_with_order((n_seqs, n_v, n_chunks * DELTA_CHUNK, d)).expect("packed");
    let o = o.slice_move(s![.., .., ..n_tokens, ..]);
    o.permuted_axes([0, 2, 1, 3]).as_standard_layout().into_owned()
}

/// MUL_MAT of `a` and `b`, whose second factor lies in memory without gaps or not.
fn multiplied<T: Number, S: DeltaSteps<T>>(
    a: ArrayView4<'_, T>,
    b: ArrayView4<'_, T>,
    contiguous: bool,
    steps: &S,
) -> Array4<T> {
    products_by(steps.product(a.dim().2, b.dim().2, contiguous), a, b)
}

/// One chunk of a stack: `[.., 1, rows, columns]`.
fn of_chunk<T>(x: &Array4<T>, chunk: usize) -> ArrayView4<'_, T> {
    x.slice(s![.., chunk..chunk + 1, .., ..])
}

/// `G`: the log decays `[.., .., 1, DELTA_CHUNK]` added up within each chunk.
fn cumulated<T: Number>(mut g: Array4<T>) -> Array4<T> {
    g.accumulate_axis_inplace(Axis(3), |&previous, current| *current += previous);
    g
}

/// `D`: `[.., .., DELTA_CHUNK, DELTA_CHUNK]` of `G` `[.., .., 1, DELTA_CHUNK]`.
fn decay_mask<T: Number>(g_cs: &Array4<T>) -> Array4<T> {
    let (stack, n_chunks, ..) = g_cs.dim();
    let differences = Array4::from_shape_fn((stack, n_chunks, DELTA_CHUNK, DELTA_CHUNK), |(b, c, i, j)| {
        g_cs[[b, c, 0, i]] - g_cs[[b, c, 0, j]]
    });
    triangle(differences, Triangle::LowerDiag).mapv_into(T::exp)
}

/// What does not depend on the state, for all chunks at once.
struct WithinChunks<T> {
    /// K: `[.., DELTA_CHUNK, d]`.
    k: Array4<T>,
    /// `D`: `[.., DELTA_CHUNK, DELTA_CHUNK]`.
    decay_mask: Array4<T>,
    /// `exp(G)`: `[.., 1, DELTA_CHUNK]`.
    g_exp: Array4<T>,
    /// `exp(G_last)`: `[.., 1, 1]`.
    g_last_exp: Array4<T>,
    /// `K^T diag(exp(G_last - G))`: `[.., d, DELTA_CHUNK]`.
    key_gdiff_t: Array4<T>,
    /// `A diag(beta) V`: `[.., DELTA_CHUNK, d]`.
    v: Array4<T>,
    /// `A diag(beta exp(G)) K`: `[.., DELTA_CHUNK, d]`.
    k_cumdecay: Array4<T>,
}

impl<T: Number> WithinChunks<T> {
    fn new<S: DeltaSteps<T>>(inputs: &DeltaInputs<'_, T>, steps: &mut S) -> Result<Self, S::Error> {
        let [k, v] = [inputs.k, inputs.v].map(padded);
        let [g, beta] = [inputs.log_decay, inputs.beta].map(|gate| padded(gate.insert_axis(Axis(3))));
        let g_cs = steps.step("g_cs", cumulated(transposed(by_chunk(g).view())))?;
        let g_last = g_cs.slice(s![.., .., .., DELTA_CHUNK - 1..]);
        steps.view("g_last", g_last)?;
        let g_last_exp = steps.step("g_last_exp_t", g_last.mapv(T::exp))?;
        let g_diff = steps.step("g_diff", (&g_cs - &g_last).mapv_into(|g| -g))?;
        let g_diff_exp = transposed(g_diff.mapv(T::exp).view());
        let (v_b, k_b) = (v * &beta, &k * &beta);
        let k = by_chunk(k);
        let key_gdiff = steps.step("key_gdiff", &k * &g_diff_exp)?;
        let key_gdiff_t = steps.step("key_gdiff_t", transposed(key_gdiff.view()))?;
        let v_b = by_chunk(steps.step("v_b", v_b)?);
        let k_b = by_chunk(steps.step("k_b", k_b)?);
        let decay_mask = steps.step("decay_mask", decay_mask(&g_cs))?;
        let attn = inverse(multiplied(k.view(), k_b.view(), true, steps) * &decay_mask, steps)?;
        let v = multiplied(transposed(v_b.view()).view(), attn.view(), true, steps);
        let g_exp = g_cs.mapv(T::exp);
        let k_beta_g_exp = steps.step("k_beta_g_exp", transposed(k_b.view()) * &g_exp)?;
        let k_cumdecay =
            steps.step("k_cumdecay", multiplied(k_beta_g_exp.view(), attn.view(), true, steps))?;
        Ok(WithinChunks { k, decay_mask, g_exp, g_last_exp, key_gdiff_t, v, k_cumdecay })
    }

    /// `V'^T` of one chunk `[.., 1, d, DELTA_CHUNK]` and the state behind it, from the state in front of it `[.., 1, d_v, d_k]`.
    fn update<S: DeltaSteps<T>>(
        &self,
        chunk: usize,
        state: &Array4<T>,
        steps: &mut S,
    ) -> Result<(Array4<T>, Array4<T>), S::Error> {
        let v_prime = steps
            .step("v_prime", multiplied(of_chunk(&self.k_cumdecay, chunk), state.view(), true, steps))?;
        let v_t_new = steps.step("v_t_new", transposed(of_chunk(&self.v, chunk)) - &v_prime)?;
        let kept = state * &of_chunk(&self.g_last_exp, chunk);
        let state = kept + &multiplied(of_chunk(&self.key_gdiff_t, chunk), v_t_new.view(), true, steps);
        let state = steps.step("dnet_add_ch_state", state)?;
        Ok((v_t_new, state))
    }

    fn queries<S: DeltaSteps<T>>(
        &self,
        q: ArrayView4<'_, T>,
        scale: T,
        steps: &mut S,
    ) -> Result<Queries<T>, S::Error> {
        let q = by_chunk(padded(steps.step("q_in", q.mapv(|q| q * scale))?.view()));
        let kq = triangle(
            multiplied(self.k.view(), q.view(), true, steps) * &self.decay_mask,
            Triangle::LowerDiag,
        );
        let kq = steps.step("kq", kq)?;
        Ok(Queries { kq, q_g_exp: q * &transposed(self.g_exp.view()) })
    }
}

/// `A` from `diag(beta) K K^T . D`, of which it takes what is below the diagonal.
fn inverse<T: Number, S: DeltaSteps<T>>(kb: Array4<T>, steps: &mut S) -> Result<Array4<T>, S::Error> {
    let attn = steps.step("attn", triangle(kb, Triangle::Lower))?;
    let lhs = steps.step("dnet_add_ch_lhs", plus_identity(attn.clone()))?;
    let attn = steps.step("attn_pre_solve", -attn)?;
    steps.step("dnet_add_ch_attn_solved", plus_identity(solved(lhs.view(), attn.view())))
}

/// What reads the state.
struct Queries<T> {
    /// `Q K^T . D`, lower triangle: `[.., DELTA_CHUNK, DELTA_CHUNK]`.
    kq: Array4<T>,
    /// `diag(exp(G)) Q`: `[.., DELTA_CHUNK, d]`.
    q_g_exp: Array4<T>,
}

impl<T: Number> Queries<T> {
    /// O of one chunk `[.., 1, DELTA_CHUNK, d]`, from the state in front of it and `V'^T`.
    fn output<S: DeltaSteps<T>>(
        &self,
        chunk: usize,
        state: &Array4<T>,
        v_t_new: &Array4<T>,
        steps: &mut S,
    ) -> Result<Array4<T>, S::Error> {
        // Of several chunks one has gaps.
        let is_whole = self.kq.dim().1 == 1;
        let attn_inter = steps
            .step("attn_inter", multiplied(state.view(), of_chunk(&self.q_g_exp, chunk), is_whole, steps))?;
        let v_attn =
            steps.step("v_attn", multiplied(v_t_new.view(), of_chunk(&self.kq, chunk), is_whole, steps))?;
        steps.step("dnet_add_ch_attn_out", attn_inter + &v_attn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::NoSteps;
    use ndarray::{Array, Array3};

    #[test]
    fn tokens_fill_whole_chunks() {
        assert_eq!([1, 63, 64, 65, 128, 129].map(n_chunks), [1, 1, 1, 2, 2, 3]);
        // two sequences of 65 tokens, three heads: token 64 is the first of the second chunk, and zeros follow
        let x = Array4::from_shape_fn((2, 65, 3, 1), |(s, t, h, _)| (1000 * s + 10 * t + h) as f64);
        let padded = padded(x.view());
        assert_eq!(padded.dim(), (2, 3, 128, 1));
        let chunks = by_chunk(padded);
        assert_eq!(chunks.dim(), (6, 2, 64, 1));
        assert_eq!(
            (chunks[[5, 0, 63, 0]], chunks[[5, 1, 0, 0]], chunks[[5, 1, 1, 0]]),
            (1632.0, 1642.0, 0.0)
        );
        assert_eq!(without_padding(chunks, (2, 65, 3)), x);
    }

    #[test]
    fn a_later_token_decays_an_earlier_one() {
        let mut g = Array4::from_elem((1, 1, 1, DELTA_CHUNK), 0.0f64);
        (g[[0, 0, 0, 0]], g[[0, 0, 0, 1]]) = (-1.0, -2.0);
        let g_cs = cumulated(g);
        assert_eq!([0, 1, 63].map(|t| g_cs[[0, 0, 0, t]]), [-1.0, -3.0, -3.0]);
        let mask = decay_mask(&g_cs);
        assert_eq!([mask[[0, 0, 1, 0]], mask[[0, 0, 1, 1]], mask[[0, 0, 0, 1]]], [(-2f64).exp(), 1.0, 1.0]);
    }

    #[test]
    fn a_repeated_key_overwrites() {
        // Two tokens with the key (1, 0), v = (8, 0), beta = 0.5, no decay, then a half:
        // S = 0.5 * 8 = 4;  then 0.5 * 4 = 2, and 2 + (8 - 2) * 0.5 = 5.  What another key wrote only decays: 4, then 2
        let of_tokens = |x: [f64; 2]| Array::from_shape_fn((1, 2, 1, 2), |(_, _, _, i)| x[i]);
        let (k, v) = (of_tokens([1.0, 0.0]), of_tokens([8.0, 0.0]));
        let gates = |x: [f64; 2]| Array3::from_shape_fn((1, 2, 1), |(_, t, _)| x[t]);
        let (log_decay, beta) = (gates([0.0, 0.5f64.ln()]), gates([0.5, 0.5]));
        let inputs = DeltaInputs {
            q: k.view(),
            k: k.view(),
            v: v.view(),
            log_decay: log_decay.view(),
            beta: beta.view(),
        };
        let state = Array::from_shape_vec((1, 1, 2, 2), vec![0.0, 4.0, 0.0, 0.0]).unwrap();
        let (o, state) = delta_net_chunked(&inputs, state, 1.0, &mut NoSteps).unwrap();
        assert_eq!(o.into_raw_vec_and_offset().0, [4.0, 0.0, 5.0, 0.0]);
        assert_eq!(state.into_raw_vec_and_offset().0, [5.0, 2.0, 0.0, 0.0]);
    }
}
