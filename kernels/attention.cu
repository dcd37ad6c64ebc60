// Attention in three steps, over all cells of one stream's cache, under llama.cpp's names.
//
//   kq[h][t][c]   = sum_i q[t][h][i] k[c][kh][i]                  kh = h / (n_head / n_head_kv); masked cells too, no scale
//   soft_max      p_c = exp(scale kq_c - m) / sum, m the largest visible; 0 where the mask is 0; in place
//   kqv[h][t][i]  = sum_c p[h][t][c] v[c][kh][i] over visible cells
//
//   round         x <- the nearest value that a cell of the type holds; in place
//
//   q     [n_tokens, n_head, head_dim], f32
//   k, v  [n_cells, n_head_kv, head_dim], n_cells >= n_kv, f32, or f16 or bf16 by their bits
//   kq    [n_head, n_tokens, n_kv];  kqv [n_head, n_tokens, head_dim], f32
//   mask  [n_tokens, n_kv], u8, 1 where a cell is visible
//   grid  kq: x cells, 8 to a block (a warp each), y tokens, z heads, 256 threads
//         soft_max: a block of 256 threads for each row of kq
//         round: a thread for each element, any block size
//         kqv: x elements of a head, y tokens, z heads, 64 threads
//   oracle  src/ops/mul_mat.rs (dot), src/ops/soft_max.rs; the denominator is summed in f64
//
// A row in which nothing is visible becomes NaN in soft_max.
#include "cache.cuh"

template <class T>
__device__ __forceinline__ void scores(float* kq, const float* q, const T* k, int n_kv, int head_dim, int n_head_kv) {
    const int c = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int t = blockIdx.y, h = blockIdx.z, n_tokens = gridDim.y, n_head = gridDim.z;
    if (c >= n_kv) return;
    q += ((size_t)t * n_head + h) * head_dim;
    k += ((size_t)c * n_head_kv + h / (n_head / n_head_kv)) * head_dim;
    float sum = 0.0f;
    for (int i = lane; i < head_dim; i += WARP) sum = fmaf(q[i], of_cell(k[i]), sum);
    sum = warp_sum(sum);
    if (lane == 0) kq[((size_t)h * n_tokens + t) * n_kv + c] = sum;
}

extern "C" __global__ void kq_f32(float* __restrict__ kq, const float* __restrict__ q, const float* __restrict__ k, int n_kv,
                                  int head_dim, int n_head_kv) {
    scores(kq, q, k, n_kv, head_dim, n_head_kv);
}

extern "C" __global__ void kq_f16(float* __restrict__ kq, const float* __restrict__ q, const u16* __restrict__ k, int n_kv,
                                  int head_dim, int n_head_kv) {
    scores(kq, q, (const F16*)k, n_kv, head_dim, n_head_kv);
}

extern "C" __global__ void kq_bf16(float* __restrict__ kq, const float* __restrict__ q, const u16* __restrict__ k, int n_kv,
                                   int head_dim, int n_head_kv) {
    scores(kq, q, (const Bf16*)k, n_kv, head_dim, n_head_kv);
}

#define SOFT_MAX_THREADS 256

extern "C" __global__ void soft_max_f32(float* __restrict__ kq, const u8* __restrict__ mask, int n_tokens, int n_kv,
                                        float scale) {
    __shared__ float largest[SOFT_MAX_THREADS / WARP];
    __shared__ double sums[SOFT_MAX_THREADS / WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    float* row = kq + (size_t)blockIdx.x * n_kv;
    const u8* visible = mask + (size_t)(blockIdx.x % n_tokens) * n_kv;
    float m = MINUS_INFINITY;
    for (int c = threadIdx.x; c < n_kv; c += SOFT_MAX_THREADS)
        if (visible[c]) m = fmaxf(m, row[c] * scale);
    m = warp_max(m);
    if (lane == 0) largest[warp] = m;
    __syncthreads();
    m = warp_max(lane < SOFT_MAX_THREADS / WARP ? largest[lane] : MINUS_INFINITY);
    double sum = 0.0;
    for (int c = threadIdx.x; c < n_kv; c += SOFT_MAX_THREADS) {
        const float p = expf((visible[c] ? row[c] * scale : MINUS_INFINITY) - m);
        row[c] = p;
        sum += (double)p;
    }
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes >>= 1) sum += __shfl_xor_sync(ALL_LANES, sum, lanes);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    sum = 0.0;
#pragma unroll
    for (int i = 0; i < SOFT_MAX_THREADS / WARP; i++) sum += sums[i];
    const float inverse = (float)(1.0 / sum);
    for (int c = threadIdx.x; c < n_kv; c += SOFT_MAX_THREADS) row[c] = row[c] * inverse;
}

template <class T>
__device__ __forceinline__ void weigh(float* kqv, const float* p, const T* v, const u8* mask, int n_kv, int head_dim,
                                      int n_head_kv) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, t = blockIdx.y, h = blockIdx.z;
    const int n_tokens = gridDim.y, n_head = gridDim.z;
    if (i >= head_dim) return;
    const size_t row = (size_t)h * n_tokens + t;
    p += row * n_kv;
    mask += (size_t)t * n_kv;
    v += (size_t)(h / (n_head / n_head_kv)) * head_dim + i;
    float sum = 0.0f;
    for (int c = 0; c < n_kv; c++)
        if (mask[c]) sum = fmaf(p[c], of_cell(v[(size_t)c * n_head_kv * head_dim]), sum);
    kqv[row * head_dim + i] = sum;
}

extern "C" __global__ void kqv_f32(float* __restrict__ kqv, const float* __restrict__ p, const float* __restrict__ v,
                                   const u8* __restrict__ mask, int n_kv, int head_dim, int n_head_kv) {
    weigh(kqv, p, v, mask, n_kv, head_dim, n_head_kv);
}

extern "C" __global__ void kqv_f16(float* __restrict__ kqv, const float* __restrict__ p, const u16* __restrict__ v,
                                   const u8* __restrict__ mask, int n_kv, int head_dim, int n_head_kv) {
    weigh(kqv, p, (const F16*)v, mask, n_kv, head_dim, n_head_kv);
}

extern "C" __global__ void kqv_bf16(float* __restrict__ kqv, const float* __restrict__ p, const u16* __restrict__ v,
                                    const u8* __restrict__ mask, int n_kv, int head_dim, int n_head_kv) {
    weigh(kqv, p, (const Bf16*)v, mask, n_kv, head_dim, n_head_kv);
}

template <class T>
__device__ __forceinline__ void round_to(float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = of_cell(to_cell<T>(x[i]));
}

extern "C" __global__ void round_f16(float* __restrict__ x, int n) { round_to<F16>(x, n); }

extern "C" __global__ void round_bf16(float* __restrict__ x, int n) { round_to<Bf16>(x, n); }
