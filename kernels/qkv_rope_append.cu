// Heads of q, k and v between their projections and attention, in one launch.
//
//   q <- rope(norm(q) q_weight), packed;  k_cache[cells[t]] <- rope(norm(k) k_weight);  v_cache[cells[t]] <- v
//
//   y                 [n_tokens, n_head, head_dim], f32
//   k_cache, v_cache  [n_cells, n_head_kv, head_dim], f32, or f16 or bf16 by their bits
//   q                 head h of token t begins at t q_stride + h q_head_stride (in floats)
//   k, v              head h of token t begins at t kv_stride + h head_dim
//   q_weight, k_weight  [head_dim];  cells, positions  [n_tokens], i32, no cell twice;  table as in rope.cu
//   grid              one warp for each head of q, k and v of each token, 128 threads; head_dim <= 256, dynamic shared memory of
//                     4 head_dim floats
//   wide              heads are read 16 bytes at a time: head_dim and strides are multiples of 4, buffers lie on 16 bytes
//   oracle            the bits of qk_norm_rope and kv_append
#include "cache.cuh"
#include "rope.cuh"

extern __shared__ float smem[];

template <class T>
__device__ __forceinline__ void run(float* y, T* k_cache, T* v_cache, const float* q, const float* k, const float* v,
                                    const float* q_weight, const float* k_weight, const int* cells, const int* positions,
                                    const float* table, int n_tokens, int n_head, int n_head_kv, int head_dim, int n_rot,
                                    int q_stride, int q_head_stride, int kv_stride, int wide, float eps) {
    const int of_token = n_head + 2 * n_head_kv, row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (row >= n_tokens * of_token) return;
    const int t = row / of_token, lane = threadIdx.x % WARP;
    const float2* turns = (const float2*)table + (size_t)positions[t] * (n_rot / 2);
    float* normed = smem + threadIdx.x / WARP * head_dim;
    int h = row % of_token;
    if (h < n_head) {
        y += ((size_t)t * n_head + h) * head_dim;
        norm_head(normed, q + (size_t)t * q_stride + (size_t)h * q_head_stride, q_weight, head_dim, wide, eps);
        rotate_head(normed, turns, head_dim, n_rot, [=](int i, float value) { y[i] = value; });
        return;
    }
    h -= n_head;
    const bool is_key = h < n_head_kv;
    if (!is_key) h -= n_head_kv;
    const size_t from = (size_t)t * kv_stride + h * head_dim, to = ((size_t)cells[t] * n_head_kv + h) * head_dim;
    if (is_key) {
        norm_head(normed, k + from, k_weight, head_dim, wide, eps);
        rotate_head(normed, turns, head_dim, n_rot, [=](int i, float value) { k_cache[to + i] = to_cell<T>(value); });
    } else {
        for (int i = lane; i < head_dim; i += WARP) v_cache[to + i] = to_cell<T>(v[from + i]);
    }
}

extern "C" __global__ void
qkv_rope_append_f32(float* __restrict__ y, float* __restrict__ k_cache, float* __restrict__ v_cache, const float* __restrict__ q,
                    const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ q_weight,
                    const float* __restrict__ k_weight, const int* __restrict__ cells, const int* __restrict__ positions,
                    const float* __restrict__ table, int n_tokens, int n_head, int n_head_kv, int head_dim, int n_rot,
                    int q_stride, int q_head_stride, int kv_stride, int wide, float eps) {
    run(y, k_cache, v_cache, q, k, v, q_weight, k_weight, cells, positions, table, n_tokens, n_head, n_head_kv, head_dim,
        n_rot, q_stride, q_head_stride, kv_stride, wide, eps);
}

extern "C" __global__ void
qkv_rope_append_f16(float* __restrict__ y, u16* __restrict__ k_cache, u16* __restrict__ v_cache, const float* __restrict__ q,
                    const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ q_weight,
                    const float* __restrict__ k_weight, const int* __restrict__ cells, const int* __restrict__ positions,
                    const float* __restrict__ table, int n_tokens, int n_head, int n_head_kv, int head_dim, int n_rot,
                    int q_stride, int q_head_stride, int kv_stride, int wide, float eps) {
    run(y, (F16*)k_cache, (F16*)v_cache, q, k, v, q_weight, k_weight, cells, positions, table, n_tokens, n_head, n_head_kv, head_dim,
        n_rot, q_stride, q_head_stride, kv_stride, wide, eps);
}

extern "C" __global__ void
qkv_rope_append_bf16(float* __restrict__ y, u16* __restrict__ k_cache, u16* __restrict__ v_cache, const float* __restrict__ q,
                     const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ q_weight,
                     const float* __restrict__ k_weight, const int* __restrict__ cells, const int* __restrict__ positions,
                     const float* __restrict__ table, int n_tokens, int n_head, int n_head_kv, int head_dim, int n_rot,
                     int q_stride, int q_head_stride, int kv_stride, int wide, float eps) {
    run(y, (Bf16*)k_cache, (Bf16*)v_cache, q, k, v, q_weight, k_weight, cells, positions, table, n_tokens, n_head, n_head_kv, head_dim,
        n_rot, q_stride, q_head_stride, kv_stride, wide, eps);
}
