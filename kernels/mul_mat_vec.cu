// Products of few tokens with weights, in f32.
//
//   y[t][n] = scale * sum_k W[n][k] x[t][k] (+ residual[t][n])
//
//   W  [n_out, n_in], rows of blocks as in a file, one upon the other; x  [n_tokens, n_in]; y, residual  [n_tokens, n_out], f32
//   Up to four matrices of one width share a launch, each with its y, rows and scale; the residual is the first one's. They are of one
//   type and have one x; but beside matrices of blocks, the first n_plain may be bf16, f16 or f32 (plain_type), with an x of their own.
//   grid  ceil(n_i / 32) blocks of 256 threads for each matrix, one upon the other; ceil(n_i / 8) for bf16, f16, f32
//   shared memory  STAGE_BYTES for up to 4 tokens, twice that for more; none for bf16, f16, f32
//   n_tokens  1..=8; n_in  a multiple of the format's block (of 1 for bf16, f16, f32)
//   x, plain_x and W are aligned to 16 bytes
//   oracle  src/ops/mul_mat.rs
//
// A lane takes piece after piece of its rows (formats.cuh), 32 pieces apart; the bytes of the next ones are on their way while it
// adds up. x is shared by the rows of a block and lies in shared memory, a stage at a time. How a sum is made depends on n_in and
// the format alone: not on the tokens, rows and matrices beside it.
#include "products.cuh"
#include "trits.cuh"

#define WARPS 8
#define ROWS_OF_WARP 4
// x lies in shared memory in fours; after eight of them one is left out, so that lanes that read 32 elements apart hit different
// banks. A stage is whole steps of a warp, 256 fours each.
#define STEP 256
#define PADDED(four) ((four) + (four) / 8)
#define STAGE_BYTES (PADDED(4 * STEP) * 16)

extern __shared__ float smem[];

// Formats whose codes are used where they lie: a code at bit 2 j is the code times 4^j, which x makes up for.
template <class F> struct InPlace { static const bool IS = false; };
template <int ELEMENTS> struct InPlace<TwoBit<ELEMENTS>> { static const bool IS = true; };

// What the scale of a run multiplies: levels, or values where there is a minimum.
template <class F> __device__ __forceinline__ float4 factors(F& piece, int group) {
    return F::HAS_MIN ? values(piece, group) : levels<F>(piece.codes(group));
}
template <int ELEMENTS> __device__ __forceinline__ float4 factors(TwoBit<ELEMENTS>& piece, int group) {
    const u32 word = group % 4 < 2 ? piece.q[group / 4] : piece.q[group / 4] >> 16;
    float v[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int bit = 2 * (4 * (group % 2) + j);
        v[j] = __uint_as_float(and_or(word, 3u << bit, 0x4b000000u)) - (8388608.0f + (float)(1 << bit));
    }
    return make_float4(v[0], v[1], v[2], v[3]);
}

// Four elements of x as they lie in shared memory.
template <class F> __device__ __forceinline__ float4 staged(float4 x, int four) {
    if (!InPlace<F>::IS) return x;
    const float first = four % 2 ? 1.0f / 256.0f : 1.0f;
    return make_float4(x.x * first, x.y * (first / 4.0f), x.z * (first / 16.0f), x.w * (first / 64.0f));
}

// The 32 rows of a block times TOKENS tokens, of which n_tokens exist.
template <class F, int TOKENS>
__device__ __forceinline__ void rows_times_tokens(const Weights& m, const float* x, int n_in, int n_tokens) {
    const int STAGE = TOKENS < 4 ? 4 / TOKENS * STEP : STEP;
    // Rows that share what is read of x: fewer where registers are short.
    const int HELD = TOKENS <= 2 ? (sizeof(F) < 32 ? 4 : 2) : sizeof(F) < 28 ? 2 : 1;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, n_pieces = n_in / PIECE, n_fours = n_in / 4;
    const long long row_bytes = (long long)(n_in / F::BLOCK) * F::BYTES;
    float4* const xs = (float4*)smem; // [TOKENS][PADDED(STAGE)]
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
                float4 of_x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (t < n_tokens) of_x = ((const float4*)x)[(long long)t * n_fours + stage + four];
                xs[t * PADDED(STAGE) + PADDED(four)] = staged<F>(of_x, four);
            }
            __syncthreads();
            const int end = min(n_pieces, (stage + STAGE) / GROUPS);
            for (int piece = stage / GROUPS + lane; piece < end; piece += WARP) {
                F now[HELD];
                float parts[HELD][TOKENS];
#pragma unroll
                for (int r = 0; r < HELD; r++) {
                    now[r] = next[r];
                    if (piece + WARP < n_pieces) next[r].load(rows[r], piece + WARP);
                }
#pragma unroll
                for (int group = 0; group < GROUPS; group++) {
                    const int four = F::at(piece, group) / 4 - stage;
                    float4 w[HELD];
#pragma unroll
                    for (int r = 0; r < HELD; r++) w[r] = factors(now[r], group);
#pragma unroll
                    for (int t = 0; t < TOKENS; t++) {
                        const float4 v = xs[t * PADDED(STAGE) + PADDED(four)];
#pragma unroll
                        for (int r = 0; r < HELD; r++) {
                            float part = group % F::RUN == 0 ? w[r].x * v.x : fmaf(w[r].x, v.x, parts[r][t]);
                            part = fmaf(w[r].y, v.y, part);
                            part = fmaf(w[r].z, v.z, part);
                            parts[r][t] = fmaf(w[r].w, v.w, part);
                            if (group % F::RUN != F::RUN - 1) continue;
                            const float d = F::HAS_MIN ? 1.0f : now[r].scale(group / F::RUN);
                            sums[r][t] = fmaf(d, parts[r][t], sums[r][t]);
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
                if (lane == 0 && first + r < m.n_out && t < n_tokens) store(m, first + r, t, sum);
            }
        }
    }
}

template <class F> __device__ __forceinline__ void product(const Weights& m, const float* x, int n_in, int n_tokens) {
    if (n_tokens == 1) {
        rows_times_tokens<F, 1>(m, x, n_in, n_tokens);
    } else if (n_tokens == 2) {
        rows_times_tokens<F, 2>(m, x, n_in, n_tokens);
    } else if (n_tokens <= 4) {
        rows_times_tokens<F, 4>(m, x, n_in, n_tokens);
    } else {
        rows_times_tokens<F, 8>(m, x, n_in, n_tokens);
    }
}

// Elements without blocks: a warp takes a row of any length, a lane 16 bytes of it at a time, or an element where rows do not begin at
// multiples of 16 bytes.
template <class E, int TOKENS>
__device__ __forceinline__ void row_times_tokens(const Weights& m, const float* x, int n_in, int n_tokens) {
    const int N = 16 / sizeof(typename E::Bits);
    const int lane = threadIdx.x % WARP, row = m.block * WARPS + threadIdx.x / WARP;
    if (row >= m.n_out) return;
    const typename E::Bits* w = (const typename E::Bits*)m.w + (long long)row * n_in;
    float sums[TOKENS];
#pragma unroll
    for (int t = 0; t < TOKENS; t++) sums[t] = 0.0f;
    if (n_in % N == 0) {
#pragma unroll 4
        for (int k = N * lane; k < n_in; k += N * WARP) {
            const uint4 bits = __ldg((const uint4*)(w + k));
            float values[N];
            E::values(bits, values);
#pragma unroll
            for (int t = 0; t < TOKENS; t++) {
                if (t >= n_tokens) break;
                const float* xt = x + (long long)t * n_in + k;
#pragma unroll
                for (int i = 0; i < N; i += 4) {
                    const float4 v = *(const float4*)(xt + i);
                    sums[t] = fmaf(values[i], v.x, sums[t]);
                    sums[t] = fmaf(values[i + 1], v.y, sums[t]);
                    sums[t] = fmaf(values[i + 2], v.z, sums[t]);
                    sums[t] = fmaf(values[i + 3], v.w, sums[t]);
                }
            }
        }
    } else {
        for (int k = lane; k < n_in; k += WARP) {
            const float value = E::value(__ldg(w + k));
#pragma unroll
            for (int t = 0; t < TOKENS; t++) {
                if (t < n_tokens) sums[t] = fmaf(value, x[(long long)t * n_in + k], sums[t]);
            }
        }
    }
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        const float sum = warp_sum(sums[t]);
        if (lane == 0 && t < n_tokens) store(m, row, t, sum);
    }
}

template <class E> __device__ __forceinline__ void plain_product(const Weights& m, const float* x, int n_in, int n_tokens) {
    if (n_tokens == 1) {
        row_times_tokens<E, 1>(m, x, n_in, n_tokens);
    } else {
        row_times_tokens<E, 8>(m, x, n_in, n_tokens);
    }
}

// Types of the plain matrices beside others: PLAIN_TYPES of the launcher.
#define PLAIN_BF16 0
#define PLAIN_F16 1
#define PLAIN_F32 2

// A plain matrix beside others: token after token, in no more registers than they take.
template <class E> __device__ __forceinline__ void plain_tokens(Weights m, const float* x, int n_in, int n_tokens) {
#pragma unroll 1
    for (int t = 0; t < n_tokens; t++) {
        row_times_tokens<E, 1>(m, x, n_in, 1);
        m.y += m.n_out, x += n_in;
    }
}

// A block of a matrix of this kernel's format, or of a plain one beside it.
template <class F>
__device__ __forceinline__ void product(const Weights& m, const float* x, const float* plain_x, int n_in, int n_tokens, int plain_type) {
    if (!m.is_plain) {
        product<F>(m, x, n_in, n_tokens);
    } else if (plain_type == PLAIN_BF16) {
        plain_tokens<Bf16>(m, plain_x, n_in, n_tokens);
    } else if (plain_type == PLAIN_F16) {
        plain_tokens<F16>(m, plain_x, n_in, n_tokens);
    } else {
        plain_tokens<F32>(m, plain_x, n_in, n_tokens);
    }
}

// With how many blocks on a multiprocessor the compiler finds registers enough: it counts otherwise for sm_120 than before.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define Q4_K_BOUNDS 256
#else
#define Q4_K_BOUNDS 256, 2
#endif

extern "C" __global__ void __launch_bounds__(256, 2) mul_mat_vec_pq2_0_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ plain_x, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens,
    int n_plain, int plain_type, float s0, float s1, float s2, float s3, int has_residual) {
    const Weights m = pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3,
                           s0, s1, s2, s3, has_residual, n_plain);
    product<Pq2_0>(m, x, plain_x, n_in, n_tokens, plain_type);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_ptq1_0_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ plain_x, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens,
    int n_plain, int plain_type, float s0, float s1, float s2, float s3, int has_residual) {
    const Weights m = pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3,
                           s0, s1, s2, s3, has_residual, n_plain);
    product<Ptq1_0>(m, x, plain_x, n_in, n_tokens, plain_type);
}

extern "C" __global__ void __launch_bounds__(256, 2) mul_mat_vec_q2_0_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ plain_x, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens,
    int n_plain, int plain_type, float s0, float s1, float s2, float s3, int has_residual) {
    const Weights m = pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3,
                           s0, s1, s2, s3, has_residual, n_plain);
    product<Q2_0>(m, x, plain_x, n_in, n_tokens, plain_type);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_q1_0_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ plain_x, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens,
    int n_plain, int plain_type, float s0, float s1, float s2, float s3, int has_residual) {
    const Weights m = pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3,
                           s0, s1, s2, s3, has_residual, n_plain);
    product<Q1_0>(m, x, plain_x, n_in, n_tokens, plain_type);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_tq1_0_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ plain_x, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens,
    int n_plain, int plain_type, float s0, float s1, float s2, float s3, int has_residual) {
    const Weights m = pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3,
                           s0, s1, s2, s3, has_residual, n_plain);
    product<Tq1_0>(m, x, plain_x, n_in, n_tokens, plain_type);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_tq2_0_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ plain_x, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens,
    int n_plain, int plain_type, float s0, float s1, float s2, float s3, int has_residual) {
    const Weights m = pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3,
                           s0, s1, s2, s3, has_residual, n_plain);
    product<Tq2_0>(m, x, plain_x, n_in, n_tokens, plain_type);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_q8_0_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ plain_x, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens,
    int n_plain, int plain_type, float s0, float s1, float s2, float s3, int has_residual) {
    const Weights m = pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3,
                           s0, s1, s2, s3, has_residual, n_plain);
    product<Q8_0>(m, x, plain_x, n_in, n_tokens, plain_type);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_q4_0_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ plain_x, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens,
    int n_plain, int plain_type, float s0, float s1, float s2, float s3, int has_residual) {
    const Weights m = pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3,
                           s0, s1, s2, s3, has_residual, n_plain);
    product<Q4_0>(m, x, plain_x, n_in, n_tokens, plain_type);
}

extern "C" __global__ void __launch_bounds__(Q4_K_BOUNDS) mul_mat_vec_q4_k_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ plain_x, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens,
    int n_plain, int plain_type, float s0, float s1, float s2, float s3, int has_residual) {
    const Weights m = pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3,
                           s0, s1, s2, s3, has_residual, n_plain);
    product<Q4_K>(m, x, plain_x, n_in, n_tokens, plain_type);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_q6_k_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ plain_x, const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens,
    int n_plain, int plain_type, float s0, float s1, float s2, float s3, int has_residual) {
    const Weights m = pick(ROWS_OF_WARP * WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3,
                           s0, s1, s2, s3, has_residual, n_plain);
    product<Q6_K>(m, x, plain_x, n_in, n_tokens, plain_type);
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_vec_bf16_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0, float s1, float s2,
    float s3, int has_residual) {
    plain_product<Bf16>(pick(WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), x, n_in, n_tokens);
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_vec_f16_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0, float s1, float s2,
    float s3, int has_residual) {
    plain_product<F16>(pick(WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), x, n_in, n_tokens);
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_vec_f32_f32(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const float* __restrict__ x,
    const float* __restrict__ residual, int n0, int n1, int n2, int n3, int n_in, int n_tokens, float s0, float s1, float s2,
    float s3, int has_residual) {
    plain_product<F32>(pick(WARPS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual), x, n_in, n_tokens);
}
