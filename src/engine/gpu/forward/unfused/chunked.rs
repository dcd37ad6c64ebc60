//! Several tokens of each sequence, in chunks: the structure and the formulas of ops/gated_delta_net/chunked.rs.

use super::{Graph, Inputs, Tensor, launch};
use crate::engine::EngineError;
use crate::engine::gpu::Buffer;
use crate::engine::gpu::launch::Matrices;
use crate::ops::DELTA_CHUNK;

/// Outputs `[n_seqs, n_tokens, n_v, d]` and the states behind.
pub(super) fn recur(
    graph: &mut Graph<'_, '_, '_, '_>,
    inputs: Inputs<'_>,
    before: Tensor,
) -> Result<(Tensor, Tensor), EngineError> {
    let Graph { n_seqs, n_tokens, n_v, d, .. } = *graph;
    let by_state = [graph.n_states(), 1, d, d];
    graph.view("dnet_add_ch_state", &by_state, &before)?;
    let within = WithinChunks::new(graph, inputs)?;
    let mut states = vec![before.shaped(&by_state)]; // in front of each chunk, and behind the last
    let mut written = Vec::new();
    for chunk in 0..graph.n_chunks() {
        let (v_t_new, state) = within.update(graph, chunk, &states[chunk])?;
        written.push(v_t_new);
        states.push(state);
    }
    let queries = within.queries(graph, inputs.q)?;
    let mut o = graph.pass.tensor(&[n_seqs, n_tokens, n_v, d])?;
    for (chunk, v_t_new) in written.iter().enumerate() {
        let of_chunk = queries.output(graph, chunk, &states[chunk], v_t_new)?;
        graph.place(&mut o, chunk, &of_chunk)?;
    }
    let state = states.pop().expect("there is one in front of the first chunk").shaped(&[n_seqs, n_v, d, d]);
    // A view of the last `dnet_add_ch_state`.
    graph.view("new_state", &[n_seqs, n_v, d, d], &state)?;
    Ok((o, state))
}

impl Graph<'_, '_, '_, '_> {
    fn n_chunks(&self) -> usize {
        self.n_tokens.div_ceil(DELTA_CHUNK)
    }

    /// Shows matrices of all chunks, or of one, as `[n_seqs n_v, chunks, rows, columns]`.
    fn stack(&mut self, name: &str, x: Tensor) -> Result<Tensor, EngineError> {
        let shape = self.by_chunk(&x);
        self.step(name, x.shaped(&shape))
    }

    fn by_chunk(&self, x: &Tensor) -> [usize; 4] {
        let [n, rows, columns] = x.matrices().shape();
        [self.n_states(), n / self.n_states(), rows, columns]
    }

    /// `[n_seqs, n_tokens, n_v, n]` by head, filled up with zero tokens to whole chunks: `[n_seqs n_v, n_chunks, DELTA_CHUNK, n]`.
    fn padded(&self, x: &Tensor, n: usize) -> Result<Tensor, EngineError> {
        let &Graph { n_seqs, n_tokens, n_v, .. } = self;
        let mut padded = self.pass.tensor(&[self.n_states(), self.n_chunks(), DELTA_CHUNK, n])?;
        let (all, tokens) = (padded.len() / n_seqs, n_tokens * n_v * n);
        for seq in 0..n_seqs {
            let own = x.part(seq * tokens..(seq + 1) * tokens);
            let by_head = Matrices::strided(own, [n_v, n_tokens, n], [n, n_v * n, 1]);
            let to = padded.part_mut(seq * all..(seq + 1) * all);
            launch::cont(self.pass.device, to, by_head, self.n_chunks() * DELTA_CHUNK)?;
        }
        Ok(padded)
    }

    /// Puts what is read in one chunk, `[n_seqs n_v, 1, DELTA_CHUNK, d]`, in its place in `o`, without its padding.
    fn place(&self, o: &mut Tensor, chunk: usize, of_chunk: &Tensor) -> Result<(), EngineError> {
        let &Graph { n_seqs, n_tokens, n_v, d, .. } = self;
        let first = chunk * DELTA_CHUNK;
        let n = (n_tokens - first).min(DELTA_CHUNK);
        let (head, token) = (DELTA_CHUNK * d, n_v * d);
        for seq in 0..n_seqs {
            let own = of_chunk.part(seq * n_v * head..(seq + 1) * n_v * head);
            let by_token = Matrices::strided(own, [n, n_v, d], [d, head, 1]);
            let at = (seq * n_tokens + first) * token;
            launch::cont(self.pass.device, o.part_mut(at..at + n * token), by_token, n_v)?;
        }
        Ok(())
    }
}

/// What does not depend on the state, for all chunks at once: `[n_seqs n_v, n_chunks, rows, columns]`.
struct WithinChunks {
    /// K: `[.., DELTA_CHUNK, d]`.
    k: Tensor,
    /// `D`: `[.., DELTA_CHUNK, DELTA_CHUNK]`.
    decay_mask: Tensor,
    /// `exp(G)`: `[.., 1, DELTA_CHUNK]`.
    g_exp: Tensor,
    /// `exp(G_last)`: `[.., 1, 1]`.
    g_last_exp: Tensor,
    /// `K^T diag(exp(G_last - G))`: `[.., d, DELTA_CHUNK]`.
    key_gdiff_t: Tensor,
    /// `A diag(beta) V`: `[.., DELTA_CHUNK, d]`.
    v: Tensor,
    /// `A diag(beta exp(G)) K`: `[.., DELTA_CHUNK, d]`.
    k_cumdecay: Tensor,
}

impl WithinChunks {
    fn new(graph: &mut Graph<'_, '_, '_, '_>, inputs: Inputs<'_>) -> Result<Self, EngineError> {
        let d = graph.d;
        let [k, v] = [graph.padded(inputs.k, d)?, graph.padded(inputs.v, d)?];
        let [g, beta] = [graph.padded(inputs.gate, 1)?, graph.padded(inputs.beta, 1)?];
        let mut g_cs = graph.pass.tensor(&g.shape)?;
        launch::cumsum(graph.pass.device, g_cs.all_mut(), g.all(), DELTA_CHUNK)?;
        let g_cs = g_cs.shaped(&[graph.n_states(), graph.n_chunks(), 1, DELTA_CHUNK]);
        let g_cs = graph.step("g_cs", g_cs)?;
        let g_last = graph.pass.cont(last(&g_cs))?;
        graph.view("g_last", &graph.by_chunk(&g_last), &g_last)?;
        let g_last_exp = graph.pass.exp(&g_last)?;
        let g_last_exp = graph.stack("g_last_exp_t", g_last_exp)?;
        let g_diff = graph.pass.of_two(launch::sub_matrices, g_cs.matrices(), g_last.matrices())?;
        let g_diff = graph.pass.scaled(&g_diff, -1.0)?;
        let g_diff = graph.stack("g_diff", g_diff)?;
        let g_diff_exp = graph.pass.exp(&g_diff)?;
        let key_gdiff =
            graph.pass.of_two(launch::mul_matrices, k.matrices(), g_diff_exp.matrices().transposed())?;
        let key_gdiff = graph.stack("key_gdiff", key_gdiff)?;
        let key_gdiff_t = graph.pass.cont(key_gdiff.matrices().transposed())?;
        let key_gdiff_t = graph.stack("key_gdiff_t", key_gdiff_t)?;
        let v_b = graph.by_beta("v_b", &v, &beta)?;
        let k_b = graph.by_beta("k_b", &k, &beta)?;
        let decay_mask = graph.decay_mask(&g_cs)?;
        let kb = graph.pass.rows_meet(k.matrices(), k_b.matrices())?;
        let kb = graph.pass.of_two(launch::mul_matrices, kb.matrices(), decay_mask.matrices())?;
        let attn = graph.inverse(&kb)?;
        let v = graph.pass.rows_meet(v_b.matrices().transposed(), attn.matrices())?;
        let by_chunk = graph.by_chunk(&v);
        let v = v.shaped(&by_chunk);
        let g_exp = graph.pass.exp(&g_cs)?;
        let k_beta_g_exp =
            graph.pass.of_two(launch::mul_matrices, k_b.matrices().transposed(), g_exp.matrices())?;
        let k_beta_g_exp = graph.stack("k_beta_g_exp", k_beta_g_exp)?;
        let k_cumdecay = graph.pass.rows_meet(k_beta_g_exp.matrices(), attn.matrices())?;
        let k_cumdecay = graph.stack("k_cumdecay", k_cumdecay)?;
        Ok(WithinChunks { k, decay_mask, g_exp, g_last_exp, key_gdiff_t, v, k_cumdecay })
    }

    /// `V'^T` of one chunk `[.., 1, d, DELTA_CHUNK]` and the state behind it, from the state in front of it `[.., 1, d_v, d_k]`.
    fn update(
        &self,
        graph: &mut Graph<'_, '_, '_, '_>,
        chunk: usize,
        state: &Tensor,
    ) -> Result<(Tensor, Tensor), EngineError> {
        let v_prime = graph.pass.rows_meet(self.k_cumdecay.of_chunk(chunk), state.matrices())?;
        let v_prime = graph.stack("v_prime", v_prime)?;
        let v_t = self.v.of_chunk(chunk).transposed();
        let v_t_new = graph.pass.of_two(launch::sub_matrices, v_t, v_prime.matrices())?;
        let v_t_new = graph.stack("v_t_new", v_t_new)?;
        let decay = self.g_last_exp.of_chunk(chunk);
        let kept = graph.pass.of_two(launch::mul_matrices, state.matrices(), decay)?;
        let new = graph.pass.rows_meet(self.key_gdiff_t.of_chunk(chunk), v_t_new.matrices())?;
        let state = graph.pass.of_two(launch::add_matrices, kept.matrices(), new.matrices())?;
        let state = graph.stack("dnet_add_ch_state", state)?;
        Ok((v_t_new, state))
    }

    fn queries(&self, graph: &mut Graph<'_, '_, '_, '_>, q: &Tensor) -> Result<Queries, EngineError> {
        let q = graph.pass.scaled(q, graph.scale())?;
        let q = graph.step("q_in", q)?;
        let q = graph.padded(&q, graph.d)?;
        let kq = graph.pass.rows_meet(self.k.matrices(), q.matrices())?;
        let kq = graph.pass.of_two(launch::mul_matrices, kq.matrices(), self.decay_mask.matrices())?;
        let kq = graph.pass.tri(&kq, true)?;
        let kq = graph.stack("kq", kq)?;
        let g_exp_t = self.g_exp.matrices().transposed();
        let q_g_exp = graph.pass.of_two(launch::mul_matrices, q.matrices(), g_exp_t)?.shaped(&q.shape);
        Ok(Queries { kq, q_g_exp })
    }
}

/// The last column of each matrix.
fn last(x: &Tensor) -> Matrices<'_> {
    let [n, rows, columns] = x.matrices().shape();
    Matrices::strided(x.part(columns - 1..x.len()), [n, rows, 1], [rows * columns, columns, 1])
}

impl Graph<'_, '_, '_, '_> {
    /// `diag(beta) X`, whose chunks llama.cpp cuts once it has a name: `[n_seqs, n_v, n_chunks DELTA_CHUNK, d]` there.
    fn by_beta(&mut self, name: &str, x: &Tensor, beta: &Tensor) -> Result<Tensor, EngineError> {
        let whole = [self.n_seqs, self.n_v, self.n_chunks() * DELTA_CHUNK, self.d];
        let product = self.pass.of_two(launch::mul_matrices, x.matrices(), beta.matrices())?.shaped(&whole);
        Ok(self.step(name, product)?.shaped(&x.shape))
    }

    /// `D` of `G` `[.., 1, DELTA_CHUNK]`.
    fn decay_mask(&mut self, g_cs: &Tensor) -> Result<Tensor, EngineError> {
        let differences =
            self.pass.of_two(launch::sub_matrices, g_cs.matrices().transposed(), g_cs.matrices())?;
        let kept = self.pass.tri(&differences, true)?;
        let mask = self.pass.exp(&kept)?;
        self.stack("decay_mask", mask)
    }

    /// `A` from `diag(beta) K K^T . D`, of which it takes what is below the diagonal.
    fn inverse(&mut self, kb: &Tensor) -> Result<Tensor, EngineError> {
        let identity = self.identity()?;
        let identity = || Matrices::packed(identity.all(), [1, DELTA_CHUNK, DELTA_CHUNK]);
        let attn = self.pass.tri(kb, false)?;
        let attn = self.stack("attn", attn)?;
        let lhs = self.pass.of_two(launch::add_matrices, attn.matrices(), identity())?;
        let lhs = self.stack("dnet_add_ch_lhs", lhs)?;
        let attn = self.pass.scaled(&attn, -1.0)?;
        let attn = self.stack("attn_pre_solve", attn)?;
        let mut solved = self.pass.tensor(&attn.shape)?;
        let shape = attn.matrices().shape();
        launch::solve_tri(self.pass.device, solved.all_mut(), lhs.all(), attn.all(), shape)?;
        let solved = self.pass.of_two(launch::add_matrices, solved.matrices(), identity())?;
        self.stack("dnet_add_ch_attn_solved", solved)
    }

    fn identity(&self) -> Result<Buffer<f32>, EngineError> {
        let of = |i: usize| if i / DELTA_CHUNK == i % DELTA_CHUNK { 1.0 } else { 0.0 };
        let values: Vec<f32> = (0..DELTA_CHUNK * DELTA_CHUNK).map(of).collect();
        Ok(self.pass.device.upload(&values)?)
    }
}

/// What reads the state.
struct Queries {
    /// `Q K^T . D`, lower triangle: `[.., DELTA_CHUNK, DELTA_CHUNK]`.
    kq: Tensor,
    /// `diag(exp(G)) Q`: `[.., DELTA_CHUNK, d]`.
    q_g_exp: Tensor,
}

impl Queries {
    /// O of one chunk `[.., 1, DELTA_CHUNK, d]`, from the state in front of it and `V'^T`.
    fn output(
        &self,
        graph: &mut Graph<'_, '_, '_, '_>,
        chunk: usize,
        state: &Tensor,
        v_t_new: &Tensor,
    ) -> Result<Tensor, EngineError> {
        let attn_inter = graph.pass.rows_meet(state.matrices(), self.q_g_exp.of_chunk(chunk))?;
        let attn_inter = graph.stack("attn_inter", attn_inter)?;
        let v_attn = graph.pass.rows_meet(v_t_new.matrices(), self.kq.of_chunk(chunk))?;
        let v_attn = graph.stack("v_attn", v_attn)?;
        let o = graph.pass.of_two(launch::add_matrices, attn_inter.matrices(), v_attn.matrices())?;
        graph.stack("dnet_add_ch_attn_out", o)
    }
}
