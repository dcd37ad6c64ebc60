// The recurrence of the delta net, token by token; the state stays in registers over all tokens of a launch.
//
//   per v head h, with k head kh(h), state S [d_v, d_k]:
//     S <- exp(g) S;   delta = (v - S k) beta;   S <- S + delta k^T;   o = (S q) scale
//
//   o       [n_seqs, n_tokens, n_v, d], f32, d = d_v = d_k the number in the kernel's name
//   states  [n_slots, n_v, d, d], v-major, k contiguous; slots: one i32 for each sequence, no slot twice; in place
//   q, k    head kh of token t of all tokens begins at t stride + kh d; v alike; strides in floats
//   gate, beta  [n_seqs, n_tokens, n_v]; gate is the log decay
//   is_blocked  kh(h) = h / (n_v / n_k), else h % n_k
//   grid    x: ceil(d / ROWS) blocks of rows; y: v heads; z: sequences. 128 threads; no shared memory, no barrier
//   align   q, k, v, states 16 bytes; strides multiples of 4
//   oracle  src/ops/gated_delta_net/token_by_token.rs
//
// LANES lanes share a row of S, so a dot product needs few shuffles: they, not memory, bound a long prompt. The next token's
// q, k and v are on their way while a token is computed.
#include "common.cuh"
#include "delta_net.cuh"

template <int D>
__device__ __forceinline__ void recur(float* o, float* states, const float* q, const float* k, const float* v,
                                      const float* gate, const float* beta, const int* slots, int n_tokens, int n_k,
                                      int n_v, int q_stride, int k_stride, int v_stride, int is_blocked, float scale) {
    using L = DeltaRow<D>;
    const int head = blockIdx.y, s = blockIdx.z, lane = threadIdx.x % L::LANES;
    const int j = blockIdx.x * (blockDim.x / L::LANES) + threadIdx.x / L::LANES;
    if (j >= D) return; // whole warps: their number of rows divides D
    const int k_head = is_blocked ? head / (n_v / n_k) : head % n_k;
    const size_t first = (size_t)s * n_tokens;
    float* at = states + (((size_t)slots[s] * n_v + head) * D + j) * D;
    q += first * q_stride + k_head * D;
    k += first * k_stride + k_head * D;
    v += first * v_stride + head * D + j;
    gate += first * n_v + head;
    beta += first * n_v + head;
    o += (first * n_v + head) * D + j;

    float row_s[L::PER], now_q[L::PER], now_k[L::PER], next_q[L::PER], next_k[L::PER];
    L::load(row_s, at, lane);
    L::load(next_q, q, lane);
    L::load(next_k, k, lane);
    float next_v = *v, next_gate = *gate, next_beta = *beta;
#pragma unroll 2
    for (int t = 0; t < n_tokens; t++) {
#pragma unroll
        for (int i = 0; i < L::PER; i++) {
            now_q[i] = next_q[i];
            now_k[i] = next_k[i];
        }
        const float now_v = next_v, decay = expf(next_gate), now_beta = next_beta;
        if (t + 1 < n_tokens) {
            q += q_stride;
            k += k_stride;
            v += v_stride;
            gate += n_v;
            beta += n_v;
            L::load(next_q, q, lane);
            L::load(next_k, k, lane);
            next_v = *v;
            next_gate = *gate;
            next_beta = *beta;
        }
        const float out = L::step(row_s, now_q, now_k, now_v, decay, now_beta) * scale;
        if (lane == 0) o[(size_t)t * n_v * D] = out;
    }
    L::store(at, row_s, lane);
}

extern "C" __global__ void __launch_bounds__(128)
gated_delta_net_d8_f32(float* __restrict__ o, float* __restrict__ states, const float* __restrict__ q,
                       const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ gate,
                       const float* __restrict__ beta, const int* __restrict__ slots, int n_tokens, int n_k, int n_v,
                       int q_stride, int k_stride, int v_stride, int is_blocked, float scale) {
    recur<8>(o, states, q, k, v, gate, beta, slots, n_tokens, n_k, n_v, q_stride, k_stride, v_stride, is_blocked, scale);
}

extern "C" __global__ void __launch_bounds__(128)
gated_delta_net_d16_f32(float* __restrict__ o, float* __restrict__ states, const float* __restrict__ q,
                        const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ gate,
                        const float* __restrict__ beta, const int* __restrict__ slots, int n_tokens, int n_k, int n_v,
                        int q_stride, int k_stride, int v_stride, int is_blocked, float scale) {
    recur<16>(o, states, q, k, v, gate, beta, slots, n_tokens, n_k, n_v, q_stride, k_stride, v_stride, is_blocked, scale);
}

extern "C" __global__ void __launch_bounds__(128)
gated_delta_net_d32_f32(float* __restrict__ o, float* __restrict__ states, const float* __restrict__ q,
                        const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ gate,
                        const float* __restrict__ beta, const int* __restrict__ slots, int n_tokens, int n_k, int n_v,
                        int q_stride, int k_stride, int v_stride, int is_blocked, float scale) {
    recur<32>(o, states, q, k, v, gate, beta, slots, n_tokens, n_k, n_v, q_stride, k_stride, v_stride, is_blocked, scale);
}

extern "C" __global__ void __launch_bounds__(128)
gated_delta_net_d64_f32(float* __restrict__ o, float* __restrict__ states, const float* __restrict__ q,
                        const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ gate,
                        const float* __restrict__ beta, const int* __restrict__ slots, int n_tokens, int n_k, int n_v,
                        int q_stride, int k_stride, int v_stride, int is_blocked, float scale) {
    recur<64>(o, states, q, k, v, gate, beta, slots, n_tokens, n_k, n_v, q_stride, k_stride, v_stride, is_blocked, scale);
}

extern "C" __global__ void __launch_bounds__(128)
gated_delta_net_d128_f32(float* __restrict__ o, float* __restrict__ states, const float* __restrict__ q,
                         const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ gate,
                         const float* __restrict__ beta, const int* __restrict__ slots, int n_tokens, int n_k, int n_v,
                         int q_stride, int k_stride, int v_stride, int is_blocked, float scale) {
    recur<128>(o, states, q, k, v, gate, beta, slots, n_tokens, n_k, n_v, q_stride, k_stride, v_stride, is_blocked, scale);
}
