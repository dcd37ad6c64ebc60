// The recurrence of the delta net in chunks of 64 tokens: within a chunk matrices, between chunks the state.
//
//   i and j tokens of a chunk, G_i = g_0 + .. + g_i, D_ij = exp(G_i - G_j), S the state in front of it, rows of it d_v:
//     A_ij = beta_i (k_i . k_j) D_ij for j < i
//     X    solves X_i + sum_j A_ij X_j = beta_i (v_i - exp(G_i) S k_i): what is written, token by token
//     o_i  = (exp(G_i) S q_i + sum_j<=i (q_i . k_j) D_ij X_j) scale
//     S   <- exp(G_last) S + sum_i exp(G_last - G_i) X_i k_i^T
//
//   buffers, strides, is_blocked  as in gated_delta_net.cu, of which this computes the same function in another order
//   grid    x: D / R blocks of R = min(D, 32) rows of S; y: v heads; z: sequences. 256 threads
//   shared  dynamic, floats: (64 + R) (D + 4) + 64 (R + 1) + 64 * 65 + 4 * 64
//   align   q, k, v, states 16 bytes; strides multiples of 4
//   oracle  src/ops/gated_delta_net/chunked.rs
//
// Rows of S do not meet, so blocks share nothing. A chunk is filled up with tokens whose k, v, beta and g are 0: they write nothing.
// Only differences G_i - G_j <= 0 are exponentiated.
#include "common.cuh"

#define THREADS 256
#define CHUNK 64
#define SIDE 16                 // threads side by side in a tile of products
#define MINE (CHUNK / SIDE)     // tokens of a thread
#define A_STRIDE (CHUNK + 1)

extern __shared__ float smem[];

__device__ __forceinline__ float dot4(float4 a, float4 b, float sum) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

template <int D>
__device__ __forceinline__ void run_chunks(float* o, float* states, const float* q, const float* k, const float* v, const float* gate,
                                           const float* beta, const int* slots, int n_tokens, int n_k, int n_v, int q_stride,
                                           int k_stride, int v_stride, int is_blocked, float scale) {
    constexpr int R = D < 32 ? D : 32, STRIDE = D + 4, X_STRIDE = R + 1;
    constexpr int U = (R + SIDE - 1) / SIDE;                                    // rows of S of a thread, in products with tokens
    constexpr int COLUMNS = D / 4;                                              // threads side by side in a row of S, in its update,
    constexpr int ROWS = R * COLUMNS > THREADS ? R * COLUMNS / THREADS : 1;     // with so many rows each
    const int row_0 = blockIdx.x * R, head = blockIdx.y, s = blockIdx.z, k_head = is_blocked ? head / (n_v / n_k) : head % n_k;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    float* keys = smem;                           // [CHUNK, STRIDE]
    float* state = keys + CHUNK * STRIDE;         // [R, STRIDE]
    float* x = state + R * STRIDE;                // [CHUNK, X_STRIDE]
    float* a = x + CHUNK * X_STRIDE;              // [CHUNK, A_STRIDE]: A, then (q . k) D
    float* sums = a + CHUNK * A_STRIDE;           // [CHUNK]: G
    float* betas = sums + CHUNK;                  // [CHUNK]
    float* decays = betas + CHUNK;                // [CHUNK]: exp(G)
    float* kept = decays + CHUNK;                 // [CHUNK]: exp(G_last - G)
    const size_t first = (size_t)s * n_tokens;
    float* home = states + (((size_t)slots[s] * n_v + head) * D + row_0) * D;
    q += first * q_stride + k_head * D;
    k += first * k_stride + k_head * D;
    v += first * v_stride + head * D + row_0;
    gate += first * n_v + head;
    beta += first * n_v + head;
    o += (first * n_v + head) * D + row_0;
    for (int i = threadIdx.x; i < R * COLUMNS; i += THREADS)
        *(float4*)(state + i / COLUMNS * STRIDE + i % COLUMNS * 4) = *(const float4*)(home + i * 4);

    const int token = threadIdx.x / SIDE * MINE, side = threadIdx.x % SIDE;
    for (int t_0 = 0; t_0 < n_tokens; t_0 += CHUNK) {
        const int n = min(CHUNK, n_tokens - t_0);
        for (int i = threadIdx.x; i < CHUNK * COLUMNS; i += THREADS) {
            const int t = i / COLUMNS, at = i % COLUMNS * 4;
            const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            *(float4*)(keys + t * STRIDE + at) = t < n ? *(const float4*)(k + (size_t)(t_0 + t) * k_stride + at) : zero;
        }
        if (warp == 0) {
            // Two tokens a lane, then the sums of the lanes in front.
            const int t = 2 * lane;
            const float g_0 = t < n ? gate[(size_t)(t_0 + t) * n_v] : 0.0f, g_1 = t + 1 < n ? gate[(size_t)(t_0 + t + 1) * n_v] : 0.0f;
            float sum = g_0 + g_1;
#pragma unroll
            for (int lanes = 1; lanes < WARP; lanes <<= 1) {
                const float before = __shfl_up_sync(ALL_LANES, sum, lanes);
                if (lane >= lanes) sum += before;
            }
            const float before = __shfl_up_sync(ALL_LANES, sum, 1), last = __shfl_sync(ALL_LANES, sum, WARP - 1);
            const float sum_0 = (lane == 0 ? 0.0f : before) + g_0;
            sums[t] = sum_0, sums[t + 1] = sum;
            decays[t] = expf(sum_0), decays[t + 1] = expf(sum);
            kept[t] = expf(last - sum_0), kept[t + 1] = expf(last - sum);
            betas[t] = t < n ? beta[(size_t)(t_0 + t) * n_v] : 0.0f;
            betas[t + 1] = t + 1 < n ? beta[(size_t)(t_0 + t + 1) * n_v] : 0.0f;
        }
        __syncthreads();

        // Keys of MINE tokens with keys of all and with rows of S: A, and what the solve starts from.
        {
            float with_keys[MINE][MINE] = {}, with_state[MINE][U] = {};
#pragma unroll 1
            for (int at = 0; at < D; at += 4) {
                float4 mine[MINE];
#pragma unroll
                for (int r = 0; r < MINE; r++) mine[r] = *(const float4*)(keys + (token + r) * STRIDE + at);
#pragma unroll
                for (int u = 0; u < MINE; u++) {
                    const float4 other = *(const float4*)(keys + (side + SIDE * u) * STRIDE + at);
#pragma unroll
                    for (int r = 0; r < MINE; r++) with_keys[r][u] = dot4(mine[r], other, with_keys[r][u]);
                }
#pragma unroll
                for (int u = 0; u < U; u++) {
                    const float4 other = *(const float4*)(state + min(side + SIDE * u, R - 1) * STRIDE + at);
#pragma unroll
                    for (int r = 0; r < MINE; r++) with_state[r][u] = dot4(mine[r], other, with_state[r][u]);
                }
            }
#pragma unroll
            for (int r = 0; r < MINE; r++) {
                const int i = token + r;
#pragma unroll
                for (int u = 0; u < MINE; u++) {
                    const int j = side + SIDE * u;
                    a[i * A_STRIDE + j] = j < i ? betas[i] * with_keys[r][u] * expf(sums[i] - sums[j]) : 0.0f;
                }
#pragma unroll
                for (int u = 0; u < U; u++) {
                    const int j = side + SIDE * u;
                    const float value = i < n && j < R ? v[(size_t)(t_0 + i) * v_stride + j] : 0.0f;
                    if (j < R) x[i * X_STRIDE + j] = betas[i] * (value - decays[i] * with_state[r][u]);
                }
            }
        }
        __syncthreads();

        // The solve: eight lanes for a column of X, with every eighth token each; a token that is done is taken off all later ones.
        // A is 0 on and above its diagonal, so that earlier ones stay as they are.
        constexpr int LANES = 8, OF_LANE = CHUNK / LANES;
        const int solved = threadIdx.x / LANES, part = threadIdx.x % LANES;
        if (solved < R) {  // whole warps
            float mine[OF_LANE];
#pragma unroll
            for (int m = 0; m < OF_LANE; m++) mine[m] = x[(m * LANES + part) * X_STRIDE + solved];
#pragma unroll
            for (int m = 0; m < OF_LANE; m++) {
                for (int p = 0; p < LANES; p++) {
                    const float done = __shfl_sync(ALL_LANES, mine[m], p, LANES);
#pragma unroll
                    for (int later = m; later < OF_LANE; later++)
                        mine[later] = fmaf(-a[(later * LANES + part) * A_STRIDE + m * LANES + p], done, mine[later]);
                }
            }
#pragma unroll
            for (int m = 0; m < OF_LANE; m++) x[(m * LANES + part) * X_STRIDE + solved] = mine[m];
        }
        __syncthreads();

        // Queries of MINE tokens with all keys and with rows of S.
        float read[MINE][U] = {};
        {
            float with_keys[MINE][MINE] = {};
            const float* mine[MINE];
#pragma unroll
            for (int r = 0; r < MINE; r++) mine[r] = q + (size_t)(t_0 + min(token + r, n - 1)) * q_stride;
#pragma unroll 1
            for (int at = 0; at < D; at += 4) {
                float4 query[MINE];
#pragma unroll
                for (int r = 0; r < MINE; r++) query[r] = *(const float4*)(mine[r] + at);
#pragma unroll
                for (int u = 0; u < MINE; u++) {
                    const float4 other = *(const float4*)(keys + (side + SIDE * u) * STRIDE + at);
#pragma unroll
                    for (int r = 0; r < MINE; r++) with_keys[r][u] = dot4(query[r], other, with_keys[r][u]);
                }
#pragma unroll
                for (int u = 0; u < U; u++) {
                    const float4 other = *(const float4*)(state + min(side + SIDE * u, R - 1) * STRIDE + at);
#pragma unroll
                    for (int r = 0; r < MINE; r++) read[r][u] = dot4(query[r], other, read[r][u]);
                }
            }
#pragma unroll
            for (int r = 0; r < MINE; r++) {
                const int i = token + r;
#pragma unroll
                for (int u = 0; u < MINE; u++) {
                    const int j = side + SIDE * u;
                    a[i * A_STRIDE + j] = j <= i ? with_keys[r][u] * expf(sums[i] - sums[j]) : 0.0f;
                }
#pragma unroll
                for (int u = 0; u < U; u++) read[r][u] *= decays[i];
            }
        }
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < n; j++) {
#pragma unroll
            for (int u = 0; u < U; u++) {
                const float written = x[j * X_STRIDE + min(side + SIDE * u, R - 1)];
#pragma unroll
                for (int r = 0; r < MINE; r++) read[r][u] = fmaf(a[(token + r) * A_STRIDE + j], written, read[r][u]);
            }
        }
#pragma unroll
        for (int r = 0; r < MINE; r++)
#pragma unroll
            for (int u = 0; u < U; u++)
                if (token + r < n && side + SIDE * u < R)
                    o[(size_t)(t_0 + token + r) * n_v * D + side + SIDE * u] = read[r][u] * scale;

        // All have read S by the last barrier.
        const int column = threadIdx.x % COLUMNS * 4, row = threadIdx.x / COLUMNS * ROWS;
        if (row < R) {
            float4 next[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const float4 old = *(const float4*)(state + (row + r) * STRIDE + column);
                const float decay = decays[CHUNK - 1];
                next[r] = make_float4(old.x * decay, old.y * decay, old.z * decay, old.w * decay);
            }
#pragma unroll 4
            for (int i = 0; i < n; i++) {
                const float4 key = *(const float4*)(keys + i * STRIDE + column);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const float written = x[i * X_STRIDE + row + r] * kept[i];
                    next[r].x = fmaf(written, key.x, next[r].x);
                    next[r].y = fmaf(written, key.y, next[r].y);
                    next[r].z = fmaf(written, key.z, next[r].z);
                    next[r].w = fmaf(written, key.w, next[r].w);
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) *(float4*)(state + (row + r) * STRIDE + column) = next[r];
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < R * COLUMNS; i += THREADS)
        *(float4*)(home + i * 4) = *(const float4*)(state + i / COLUMNS * STRIDE + i % COLUMNS * 4);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
delta_net_chunked_d8_f32(float* __restrict__ o, float* __restrict__ states, const float* __restrict__ q,
                         const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ gate,
                         const float* __restrict__ beta, const int* __restrict__ slots, int n_tokens, int n_k, int n_v,
                         int q_stride, int k_stride, int v_stride, int is_blocked, float scale) {
    run_chunks<8>(o, states, q, k, v, gate, beta, slots, n_tokens, n_k, n_v, q_stride, k_stride, v_stride, is_blocked,
                  scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
delta_net_chunked_d16_f32(float* __restrict__ o, float* __restrict__ states, const float* __restrict__ q,
                          const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ gate,
                          const float* __restrict__ beta, const int* __restrict__ slots, int n_tokens, int n_k, int n_v,
                          int q_stride, int k_stride, int v_stride, int is_blocked, float scale) {
    run_chunks<16>(o, states, q, k, v, gate, beta, slots, n_tokens, n_k, n_v, q_stride, k_stride, v_stride, is_blocked,
                   scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
delta_net_chunked_d32_f32(float* __restrict__ o, float* __restrict__ states, const float* __restrict__ q,
                          const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ gate,
                          const float* __restrict__ beta, const int* __restrict__ slots, int n_tokens, int n_k, int n_v,
                          int q_stride, int k_stride, int v_stride, int is_blocked, float scale) {
    run_chunks<32>(o, states, q, k, v, gate, beta, slots, n_tokens, n_k, n_v, q_stride, k_stride, v_stride, is_blocked,
                   scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
delta_net_chunked_d64_f32(float* __restrict__ o, float* __restrict__ states, const float* __restrict__ q,
                          const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ gate,
                          const float* __restrict__ beta, const int* __restrict__ slots, int n_tokens, int n_k, int n_v,
                          int q_stride, int k_stride, int v_stride, int is_blocked, float scale) {
    run_chunks<64>(o, states, q, k, v, gate, beta, slots, n_tokens, n_k, n_v, q_stride, k_stride, v_stride, is_blocked,
                   scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
delta_net_chunked_d128_f32(float* __restrict__ o, float* __restrict__ states, const float* __restrict__ q,
                           const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ gate,
                           const float* __restrict__ beta, const int* __restrict__ slots, int n_tokens, int n_k, int n_v,
                           int q_stride, int k_stride, int v_stride, int is_blocked, float scale) {
    run_chunks<128>(o, states, q, k, v, gate, beta, slots, n_tokens, n_k, n_v, q_stride, k_stride, v_stride, is_blocked,
                    scale);
}
