// Products of many tokens with weights, in f32.
//
//   y[t][n] = scale * sum_k W[n][k] x[t][k] (+ residual[t][n])
//
//   W  [n_out, n_in], rows of blocks as in a file, one upon the other; x  [n_tokens, n_in]; y, residual  [n_tokens, n_out], f32
//   grid  (ceil(n_out / 64), ceil(n_tokens / 64)) blocks of 256 threads
//   shared memory  SMEM_BYTES
//   n_in  a multiple of the format's block (of 1 for bf16, f16, f32); W is aligned to 16 bytes
//   oracle  src/ops/mul_mat.rs
//
// A block makes 64 x 64 elements of y, a thread 4 x 4 of them. The weights of 256 columns are decoded to shared memory, and x goes
// beside them 32 columns at a time. Sums of 256 columns are added up apart, so that long rows round less.
#include "trits.cuh"

#define TILE 64
#define DEPTH 256
#define THREADS 256
// Columns of x in shared memory, and floats from one to the next: a multiple of 4.
#define X_DEPTH 32
#define X_STRIDE (TILE + 4)
#define SMEM_BYTES ((DEPTH * TILE + X_DEPTH * X_STRIDE) * 4)

extern __shared__ float smem[]; // w [DEPTH][TILE], x [X_DEPTH][X_STRIDE]

// Weights of blocks: a thread takes pieces.
template <class F> struct Blocks {
    __device__ __forceinline__ static void stage(const u8* w, int first_row, int n_out, int n_in, int from) {
        const long long row_bytes = (long long)(n_in / F::BLOCK) * F::BYTES;
        for (int i = threadIdx.x; i < TILE * DEPTH / PIECE; i += THREADS) {
            const int row = i % TILE, piece = from / PIECE + i / TILE;
            if (piece >= n_in / PIECE) continue;
            F of_piece;
            of_piece.load(w + min(first_row + row, n_out - 1) * row_bytes, piece);
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                float* to = smem + (F::at(piece, group) - from) * TILE + row;
                const float4 v = values(of_piece, group);
                to[0] = v.x, to[TILE] = v.y, to[2 * TILE] = v.z, to[3 * TILE] = v.w;
            }
        }
    }
};

// Weights without blocks. Columns beyond the last are 0.
template <class E> struct Plain {
    __device__ __forceinline__ static void stage(const u8* w, int first_row, int n_out, int n_in, int from) {
        for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
            const int k = i % DEPTH, row = min(first_row + i / DEPTH, n_out - 1);
            const typename E::Bits* bits = (const typename E::Bits*)w + (long long)row * n_in;
            smem[k * TILE + i / DEPTH] = from + k < n_in ? E::value(bits[from + k]) : 0.0f;
        }
    }
};

template <class S>
__device__ __forceinline__ void product(float* y, const u8* w, const float* x, const float* residual, int n_in, int n_out,
                                        int n_tokens, float scale) {
    float* const xs = smem + DEPTH * TILE;
    const int first_row = blockIdx.x * TILE, first_token = blockIdx.y * TILE;
    const int row = 4 * (threadIdx.x % 16), token = 4 * (threadIdx.x / 16);
    float sums[4][4] = {}; // [token][row]
    for (int from = 0; from < n_in; from += DEPTH) {
        __syncthreads();
        S::stage(w, first_row, n_out, n_in, from);
        float parts[4][4] = {};
        for (int part = 0; part < DEPTH && from + part < n_in; part += X_DEPTH) {
            __syncthreads();
            for (int i = threadIdx.x; i < X_DEPTH * TILE; i += THREADS) {
                const int k = from + part + i % X_DEPTH, t = first_token + i / X_DEPTH;
                xs[i % X_DEPTH * X_STRIDE + i / X_DEPTH] = k < n_in && t < n_tokens ? x[(long long)t * n_in + k] : 0.0f;
            }
            __syncthreads();
#pragma unroll 8
            for (int k = 0; k < X_DEPTH; k++) {
                const float4 a = *(const float4*)(xs + k * X_STRIDE + token);
                const float4 b = *(const float4*)(smem + (part + k) * TILE + row);
                const float of_tokens[4] = {a.x, a.y, a.z, a.w}, of_rows[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
                for (int i = 0; i < 4; i++) {
#pragma unroll
                    for (int j = 0; j < 4; j++) parts[i][j] = fmaf(of_tokens[i], of_rows[j], parts[i][j]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) sums[i][j] += parts[i][j];
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int t = first_token + token + i, n = first_row + row + j;
            if (t >= n_tokens || n >= n_out) continue;
            const long long to = (long long)t * n_out + n;
            y[to] = residual ? scale * sums[i][j] + residual[to] : scale * sums[i][j];
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_pq2_0_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Blocks<Pq2_0>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_ptq1_0_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Blocks<Ptq1_0>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_q2_0_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Blocks<Q2_0>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_q1_0_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Blocks<Q1_0>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_tq1_0_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Blocks<Tq1_0>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_tq2_0_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Blocks<Tq2_0>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_q8_0_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Blocks<Q8_0>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_q4_0_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Blocks<Q4_0>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_q4_k_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Blocks<Q4_K>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_q6_k_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Blocks<Q6_K>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_bf16_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Plain<Bf16>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_f16_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Plain<F16>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_f32_f32(
    float* __restrict__ y, const u8* __restrict__ w, const float* __restrict__ x, const float* __restrict__ residual, int n_in, int n_out,
    int n_tokens, float scale, int has_residual) {
    product<Plain<F32>>(y, w, x, has_residual ? residual : 0, n_in, n_out, n_tokens, scale);
}
