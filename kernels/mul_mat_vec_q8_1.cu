// Products of few tokens with weights, with activations in eight bits: what ggml's mul_mat_vec_q computes.
//
//   y[t][n] = scale * sum over runs of d_W d_x sum_k c[n][k] q[t][k] (+ residual[t][n])
//
//   W  [n_out, n_in], rows of blocks as in a file, one upon the other; codes q  [n_tokens, n_in], s8, and scales  [n_tokens, n_in / 32]
//   of quantize_q8_1; y, residual  [n_tokens, n_out], f32
//   Codes c count from their zero, and sums of codes are integers: exact. A minimum is multiplied with d_x sum_k q (Q4_K). In Q4_0
//   codes count from 0, and 8 d_W times the stored sum s of what was not rounded is taken off, as ggml does.
//   Up to four matrices of one type and width share a launch, each with its y, rows and scale; the residual is the first one's.
//   grid  (ceil(n_i / 32) for each matrix, one upon the other; ceil(n_tokens / 8)) blocks of 256 threads
//   shared memory  STAGE_BYTES for up to 4 tokens and for more
//   n_in  a multiple of the format's block; codes, scales and W are aligned to 16 bytes
//   oracle  src/ops/mul_mat.rs with the activations that quantize_q8_1 makes
//
// As mul_mat_vec.cu, with four multiplications in an instruction.
#include "products.cuh"
#include "trits.cuh"

#define WARPS 8
#define ROWS_OF_WARP 4
#define TOKENS_OF_BLOCK 8
// Four codes of x are a word of shared memory; after eight of them one is left out, so that lanes that read 32 elements apart hit
// different banks. Behind them lie the scales. A stage is whole steps of a warp, 256 words each.
#define STEP 256
#define PADDED(four) ((four) + (four) / 8)
#define STAGE_BYTES (4 * (PADDED(4 * STEP) + 4 * STEP / 8) * 4)

extern __shared__ float smem[];

__device__ __forceinline__ int dot(u32 codes, u32 x, int sum) { return __dp4a((int)codes, (int)x, sum); }

// Codes as signed bytes: those of Q8_0 count from 128.
template <class F> __device__ __forceinline__ u32 signed_codes(F& piece, int group) {
    return F::ZERO == 128 ? piece.codes(group) ^ 0x80808080u : piece.codes(group);
}

// Two-bit codes are taken out of a word at once, one of each byte: elements j, 4 + j, 8 + j, 12 + j, and x lies in that order too.
template <int ELEMENTS> __device__ __forceinline__ u32 signed_codes(TwoBit<ELEMENTS>& piece, int group) {
    return piece.q[group / 4] >> 2 * (group % 4) & 0x03030303u;
}
template <class F> struct Transposed { static const bool IS = false; };
template <int ELEMENTS> struct Transposed<TwoBit<ELEMENTS>> { static const bool IS = true; };

// Word j of four words with their bytes transposed: byte j of each.
__device__ __forceinline__ u32 transposed(const u32* words, int j) {
    const u32 low = __byte_perm(words[0], words[1], 0x40u + 0x11u * j), high = __byte_perm(words[2], words[3], 0x40u + 0x11u * j);
    return __byte_perm(low, high, 0x5410u);
}

// ggml takes the zero of Q4_0 off by the stored sum.
template <class F> struct ByStoredSum { static const bool IS = false; };
template <> struct ByStoredSum<Q4_0> { static const bool IS = true; };

// The 32 rows of a block times TOKENS tokens, of which n_tokens exist.
template <class F, int TOKENS>
__device__ __forceinline__ void rows_times_tokens(const Weights& m, const u32* x, const u32* scales, int n_in, int first_token, int n_tokens) {
    const int STAGE = TOKENS <= 4 ? 4 * STEP : 2 * STEP;
    const int HELD = TOKENS <= 2 ? (sizeof(F) < 32 ? 4 : 2) : sizeof(F) < 28 ? 2 : 1;
    const int NEAR = F::RUN < F::NEAR ? F::RUN : F::NEAR; // groups that share the scales of weights and of activations
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, n_pieces = n_in / PIECE, n_fours = n_in / 4;
    const long long row_bytes = (long long)(n_in / F::BLOCK) * F::BYTES;
    u32* const xs = (u32*)smem;                    // [TOKENS][PADDED(STAGE)]
    u32* const ds = xs + TOKENS * PADDED(STAGE);   // [TOKENS][STAGE / 8]
    for (int held = 0; held < ROWS_OF_WARP; held += HELD) {
        const int first = (m.block * WARPS + warp) * ROWS_OF_WARP + held;
        const u8* rows[HELD];
        F next[HELD];
        float sums[HELD][TOKENS];
#pragma unroll
        for (int r = 0; r < HELD; r++) {
            rows[r] = m.w + min(first + r, m.n_out - 1) * row_bytes; // a row that does not exist is not stored
            if (lane < n_pieces) next[r].load(rows[r], lane);
#pragma unroll
            for (int t = 0; t < TOKENS; t++) sums[r][t] = 0.0f;
        }
        for (int stage = 0; stage < n_fours; stage += STAGE) {
            __syncthreads();
            for (int i = threadIdx.x; i < TOKENS * STAGE; i += WARPS * WARP) {
                const int t = i / STAGE, four = i % STAGE;
                if (stage + four >= n_fours) continue;
                const long long at = (long long)(first_token + t) * n_fours + stage + four;
                xs[t * PADDED(STAGE) + PADDED(four)] = t >= n_tokens ? 0u : Transposed<F>::IS ? transposed(x + at / 4 * 4, (int)(at % 4)) : x[at];
                if (four % 8 == 0) ds[t * (STAGE / 8) + four / 8] = t < n_tokens ? scales[at / 8] : 0u;
            }
            __syncthreads();
            const int end = min(n_pieces, (stage + STAGE) / GROUPS);
            for (int piece = stage / GROUPS + lane; piece < end; piece += WARP) {
                F now[HELD];
                int parts[HELD][TOKENS], totals[TOKENS];
#pragma unroll
                for (int r = 0; r < HELD; r++) {
                    now[r] = next[r];
                    if (piece + WARP < n_pieces) next[r].load(rows[r], piece + WARP);
                }
#pragma unroll
                for (int group = 0; group < GROUPS; group++) {
                    const int four = F::at(piece, group) / 4 - stage;
                    u32 codes[HELD];
#pragma unroll
                    for (int r = 0; r < HELD; r++) codes[r] = signed_codes(now[r], group);
#pragma unroll
                    for (int t = 0; t < TOKENS; t++) {
                        const u32 v = xs[t * PADDED(STAGE) + PADDED(four)];
                        totals[t] = dot(0x01010101u, v, group % NEAR == 0 ? 0 : totals[t]);
                        const u32 scales_of_x = ds[t * (STAGE / 8) + four / 8];
                        const float dx = f16_to_f32((u16)scales_of_x), s = f16_to_f32((u16)(scales_of_x >> 16));
#pragma unroll
                        for (int r = 0; r < HELD; r++) {
                            parts[r][t] = dot(codes[r], v, group % NEAR == 0 ? 0 : parts[r][t]);
                            if (group % NEAR != NEAR - 1) continue;
                            const float d = now[r].scale(group / F::RUN);
                            const bool from_zero = F::ZERO == 128 || ByStoredSum<F>::IS;
                            const int sum = from_zero ? parts[r][t] : parts[r][t] - F::ZERO * totals[t];
                            float part = dx * (float)sum;
                            if (ByStoredSum<F>::IS) part -= (float)F::ZERO * s;
                            sums[r][t] = fmaf(d, part, sums[r][t]);
                            if (!F::HAS_MIN) continue;
                            sums[r][t] = fmaf(-now[r].min(group / F::RUN), dx * (float)totals[t], sums[r][t]);
                        }
                    }
                }
            }
        }
#pragma unroll
        for (int r = 0; r < HELD; r++) {
#pragma unroll
            for (int t = 0; t < TOKENS; t++) {
                const float sum = warp_sum(sums[r][t]);
                if (lane == 0 && first + r < m.n_out && t < n_tokens) store(m, first + r, first_token + t, sum);
            }
        }
    }
}

template <class F>
__device__ __forceinline__ void product(const Weights& m, const signed char* codes, const u32* scales, int n_in, int n_tokens) {
    const int first = blockIdx.y * TOKENS_OF_BLOCK, n = min(n_tokens - first, TOKENS_OF_BLOCK);
    const u32* x = (const u32*)codes;
    if (n == 1) {
        rows_times_tokens<F, 1>(m, x, scales, n_in, first, n);
    } else if (n == 2) {
        rows_times_tokens<F, 2>(m, x, scales, n_in, first, n);
    } else if (n <= 4) {
        rows_times_tokens<F, 4>(m, x, scales, n_in, first, n);
    } else {
        rows_times_tokens<F, 8>(m, x, scales, n_in, first, n);
    }
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_pq2_0_q8_1(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const signed char* __restrict__ codes,
    const u32* __restrict__ scales, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0,
    float s1, float s2, float s3, int has_residual) {
    product<Pq2_0>(pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), codes, scales, n_in, n_tokens);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_ptq1_0_q8_1(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const signed char* __restrict__ codes,
    const u32* __restrict__ scales, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0,
    float s1, float s2, float s3, int has_residual) {
    product<Ptq1_0>(pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), codes, scales, n_in, n_tokens);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_q2_0_q8_1(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const signed char* __restrict__ codes,
    const u32* __restrict__ scales, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0,
    float s1, float s2, float s3, int has_residual) {
    product<Q2_0>(pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), codes, scales, n_in, n_tokens);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_q1_0_q8_1(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const signed char* __restrict__ codes,
    const u32* __restrict__ scales, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0,
    float s1, float s2, float s3, int has_residual) {
    product<Q1_0>(pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), codes, scales, n_in, n_tokens);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_tq1_0_q8_1(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const signed char* __restrict__ codes,
    const u32* __restrict__ scales, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0,
    float s1, float s2, float s3, int has_residual) {
    product<Tq1_0>(pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), codes, scales, n_in, n_tokens);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_tq2_0_q8_1(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const signed char* __restrict__ codes,
    const u32* __restrict__ scales, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0,
    float s1, float s2, float s3, int has_residual) {
    product<Tq2_0>(pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), codes, scales, n_in, n_tokens);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_q8_0_q8_1(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const signed char* __restrict__ codes,
    const u32* __restrict__ scales, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0,
    float s1, float s2, float s3, int has_residual) {
    product<Q8_0>(pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), codes, scales, n_in, n_tokens);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_q4_0_q8_1(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const signed char* __restrict__ codes,
    const u32* __restrict__ scales, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0,
    float s1, float s2, float s3, int has_residual) {
    product<Q4_0>(pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), codes, scales, n_in, n_tokens);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_q4_k_q8_1(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const signed char* __restrict__ codes,
    const u32* __restrict__ scales, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0,
    float s1, float s2, float s3, int has_residual) {
    product<Q4_K>(pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), codes, scales, n_in, n_tokens);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_q6_k_q8_1(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const signed char* __restrict__ codes,
    const u32* __restrict__ scales, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0,
    float s1, float s2, float s3, int has_residual) {
    product<Q6_K>(pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), codes, scales, n_in, n_tokens);
}
