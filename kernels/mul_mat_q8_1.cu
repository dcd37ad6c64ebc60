// Products of many tokens with weights, with activations in eight bits, by tensor cores.
//
//   y[t][n] = scale * sum over runs of d_W d_x sum_k c[n][k] q[t][k] (+ residual[t][n])
//
//   W  [n_out, n_in], rows of blocks as in a file, one upon the other; codes q  [n_tokens, n_in], s8, and scales  [n_tokens, n_in / 32]
//   of quantize_q8_1; y, residual  [n_tokens, n_out], f32
//   What is summed is what kernels/mul_mat_vec_q8_1.cu says: codes count from their zero, minima are multiplied with d_x sum_k q (Q4_K),
//   the zero of Q4_0 with the stored sum. Sums of 32 products (16 of Q6_K) are integers: exact.
//   grid  (ceil(n_out / 64), ceil(n_tokens / 64)) blocks of 256 threads
//   shared memory  SMEM_BYTES
//   n_in  a multiple of the format's block; codes and W are aligned to 16 bytes
//   oracle  src/ops/mul_mat.rs with the activations that quantize_q8_1 makes
//
// A block makes 64 x 64 elements of y, a warp 32 rows of 16 tokens. 256 columns of both are in shared memory, weights as signed bytes.
#include "mma.cuh"
#include "trits.cuh"

#define TILE 64
#define DEPTH 256
#define THREADS 256
// Words from a row to the next: lanes of a fragment hit different banks.
#define STRIDE (DEPTH / 4 + 4)
#define CELLS (DEPTH / 32)
// Weights and activations; scales of both, for each 16 elements of a weight; what minima are and what they are multiplied with.
#define SMEM_BYTES ((2 * TILE * STRIDE + TILE * (2 * CELLS + 3 * CELLS)) * 4)

extern __shared__ float smem[];

struct Tiles {
    u32 *w, *x;                // [TILE][STRIDE]
    float *dw, *dx, *min, *mx; // [TILE][2 CELLS], the others [TILE][CELLS]
};

__device__ __forceinline__ Tiles tiles() {
    u32* const w = (u32*)smem;
    float* const dw = smem + 2 * TILE * STRIDE;
    float* const dx = dw + TILE * 2 * CELLS;
    return {w, w + TILE * STRIDE, dw, dx, dx + TILE * CELLS, dx + 2 * TILE * CELLS};
}

// ggml takes the zero of Q4_0 off by the stored sum.
template <class F> struct ByStoredSum { static const bool IS = false; };
template <> struct ByStoredSum<Q4_0> { static const bool IS = true; };

// Codes as signed bytes that count from their zero.
template <class F> __device__ __forceinline__ u32 signed_codes(u32 codes) {
    if (F::ZERO == 128) return codes ^ 0x80808080u;
    if (F::ZERO == 0 || ByStoredSum<F>::IS) return codes;
    return ((codes | 0x80808080u) - F::ZERO * 0x01010101u) ^ 0x80808080u;
}

template <class F> __device__ __forceinline__ void stage_weights(const Tiles& s, const u8* w, int first_row, int n_out, int n_in, int from) {
    const int CELL = F::RUN == 2 ? 16 : 32;
    const long long row_bytes = (long long)(n_in / F::BLOCK) * F::BYTES;
    for (int i = threadIdx.x; i < TILE * DEPTH / PIECE; i += THREADS) {
        const int row = i % TILE, piece = from / PIECE + i / TILE;
        if (piece >= n_in / PIECE) continue;
        F of_piece;
        of_piece.load(w + min(first_row + row, n_out - 1) * row_bytes, piece); // a row that does not exist is not stored
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            const int at = F::at(piece, group) - from;
            s.w[row * STRIDE + at / 4] = signed_codes<F>(of_piece.codes(group));
            if (at % CELL != 0) continue; // the group that begins a cell brings its scale
            const float d = of_piece.scale(group / F::RUN);
            s.dw[row * 2 * CELLS + at / CELL] = d;
            if (F::HAS_MIN) s.min[row * CELLS + at / 32] = of_piece.min(group / F::RUN);
            if (ByStoredSum<F>::IS) s.min[row * CELLS + at / 32] = d * F::ZERO;
        }
    }
}

template <class F>
__device__ __forceinline__ void stage_activations(const Tiles& s, const signed char* codes, const u32* scales, int first_token, int n_tokens, int n_in, int from) {
    for (int i = threadIdx.x; i < TILE * DEPTH / 16; i += THREADS) {
        const int token = i / (DEPTH / 16), at = i % (DEPTH / 16) * 16, t = first_token + token;
        if (from + at >= n_in) continue;
        uint4 bytes = make_uint4(0, 0, 0, 0);
        if (t < n_tokens) bytes = *(const uint4*)(codes + (long long)t * n_in + from + at);
        *(uint4*)(s.x + token * STRIDE + at / 4) = bytes;
    }
    for (int i = threadIdx.x; i < TILE * CELLS; i += THREADS) {
        const int token = i / CELLS, at = i % CELLS * 32, t = first_token + token;
        if (from + at >= n_in) continue;
        const long long cell = ((long long)t * n_in + from + at) / 32;
        const u32 of_x = t < n_tokens ? scales[cell] : 0u;
        const float d = f16_to_f32((u16)of_x);
        s.dx[i] = d;
        if (ByStoredSum<F>::IS) s.mx[i] = f16_to_f32((u16)(of_x >> 16));
        if (!F::HAS_MIN) continue;
        int sum = 0;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            if (t < n_tokens) sum = __dp4a(0x01010101, ((const int*)codes)[cell * 8 + j], sum);
        }
        s.mx[i] = d * (float)sum;
    }
}

template <class F>
__device__ __forceinline__ void product(float* y, const u8* w, const signed char* codes, const u32* scales, const float* residual, int n_in, int n_out, int n_tokens, float scale) {
    const Tiles s = tiles();
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;
    const int first_row = blockIdx.x * TILE, first_token = blockIdx.y * TILE;
    const int row = warp % 2 * 32 + g, token = warp / 2 * 16;
    float sums[2][2][4] = {}; // [16 rows][8 tokens][c of mma.cuh]
    for (int from = 0; from < n_in; from += DEPTH) {
        __syncthreads();
        stage_weights<F>(s, w, first_row, n_out, n_in, from);
        stage_activations<F>(s, codes, scales, first_token, n_tokens, n_in, from);
        __syncthreads();
        const int cells = min(CELLS, (n_in - from) / 32);
        for (int cell = 0; cell < cells; cell++) {
            u32 a[2][4], b[2][2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) a[i][j] = s.w[(row + 16 * i + 8 * (j % 2)) * STRIDE + 8 * cell + t + 4 * (j / 2)];
#pragma unroll
                for (int j = 0; j < 2; j++) b[i][j] = s.x[(token + 8 * i + g) * STRIDE + 8 * cell + t + 4 * j];
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    const int none[4] = {0, 0, 0, 0};
                    int c[4], upper[4];
                    if (F::RUN == 2) { // two scales: the other half of the columns is left out
                        const u32 first[4] = {a[i][0], a[i][1], 0, 0}, second[4] = {0, 0, a[i][2], a[i][3]};
                        mma_m16n8k32_s8(c, first, b[j], none);
                        mma_m16n8k32_s8(upper, second, b[j], none);
                    } else {
                        mma_m16n8k32_s8(c, a[i], b[j], none);
                    }
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const int n = row + 16 * i + 8 * (k / 2), x = (token + 8 * j + 2 * t + k % 2) * CELLS + cell;
                        const float* dw = s.dw + n * 2 * CELLS;
                        float sum = sums[i][j][k];
                        if (F::RUN == 2) {
                            sum = fmaf(dw[2 * cell], s.dx[x] * (float)c[k], sum);
                            sum = fmaf(dw[2 * cell + 1], s.dx[x] * (float)upper[k], sum);
                        } else {
                            sum = fmaf(dw[cell], s.dx[x] * (float)c[k], sum);
                        }
                        if (F::HAS_MIN || ByStoredSum<F>::IS) sum = fmaf(-s.min[n * CELLS + cell], s.mx[x], sum);
                        sums[i][j][k] = sum;
                    }
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const int n = first_row + row + 16 * i + 8 * (k / 2), of_token = first_token + token + 8 * j + 2 * t + k % 2;
                if (n >= n_out || of_token >= n_tokens) continue;
                const long long to = (long long)of_token * n_out + n;
                y[to] = residual ? scale * sums[i][j][k] + residual[to] : scale * sums[i][j][k];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_pq2_0_q8_1(
    float* __restrict__ y, const u8* __restrict__ w, const signed char* __restrict__ codes, const u32* __restrict__ scales,
    const float* __restrict__ residual, int n_in, int n_out, int n_tokens, float scale, int has_residual) {
    product<Pq2_0>(y, w, codes, scales, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_ptq1_0_q8_1(
    float* __restrict__ y, const u8* __restrict__ w, const signed char* __restrict__ codes, const u32* __restrict__ scales,
    const float* __restrict__ residual, int n_in, int n_out, int n_tokens, float scale, int has_residual) {
    product<Ptq1_0>(y, w, codes, scales, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_q2_0_q8_1(
    float* __restrict__ y, const u8* __restrict__ w, const signed char* __restrict__ codes, const u32* __restrict__ scales,
    const float* __restrict__ residual, int n_in, int n_out, int n_tokens, float scale, int has_residual) {
    product<Q2_0>(y, w, codes, scales, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_q1_0_q8_1(
    float* __restrict__ y, const u8* __restrict__ w, const signed char* __restrict__ codes, const u32* __restrict__ scales,
    const float* __restrict__ residual, int n_in, int n_out, int n_tokens, float scale, int has_residual) {
    product<Q1_0>(y, w, codes, scales, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_tq1_0_q8_1(
    float* __restrict__ y, const u8* __restrict__ w, const signed char* __restrict__ codes, const u32* __restrict__ scales,
    const float* __restrict__ residual, int n_in, int n_out, int n_tokens, float scale, int has_residual) {
    product<Tq1_0>(y, w, codes, scales, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_tq2_0_q8_1(
    float* __restrict__ y, const u8* __restrict__ w, const signed char* __restrict__ codes, const u32* __restrict__ scales,
    const float* __restrict__ residual, int n_in, int n_out, int n_tokens, float scale, int has_residual) {
    product<Tq2_0>(y, w, codes, scales, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_q8_0_q8_1(
    float* __restrict__ y, const u8* __restrict__ w, const signed char* __restrict__ codes, const u32* __restrict__ scales,
    const float* __restrict__ residual, int n_in, int n_out, int n_tokens, float scale, int has_residual) {
    product<Q8_0>(y, w, codes, scales, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_q4_0_q8_1(
    float* __restrict__ y, const u8* __restrict__ w, const signed char* __restrict__ codes, const u32* __restrict__ scales,
    const float* __restrict__ residual, int n_in, int n_out, int n_tokens, float scale, int has_residual) {
    product<Q4_0>(y, w, codes, scales, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_q4_k_q8_1(
    float* __restrict__ y, const u8* __restrict__ w, const signed char* __restrict__ codes, const u32* __restrict__ scales,
    const float* __restrict__ residual, int n_in, int n_out, int n_tokens, float scale, int has_residual) {
    product<Q4_K>(y, w, codes, scales, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256, 3) mul_mat_q6_k_q8_1(
    float* __restrict__ y, const u8* __restrict__ w, const signed char* __restrict__ codes, const u32* __restrict__ scales,
    const float* __restrict__ residual, int n_in, int n_out, int n_tokens, float scale, int has_residual) {
    product<Q6_K>(y, w, codes, scales, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}
