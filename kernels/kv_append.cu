// Keys and values of new tokens into the cells of a cache.
//
//   k_cache[cells[t]] = k[t];  v_cache[cells[t]] = v[t]       rounded to the cache's type
//
//   k, v              [n_tokens, n_embd_kv], f32
//   k_cache, v_cache  [n_cells, n_embd_kv], f32, or f16 or bf16 by their bits
//   cells             [n_tokens], i32, no cell twice
//   grid              x: 256 elements each; y: tokens. 256 threads
//   oracle            a copy; roundings as `half` has them
#include "cache.cuh"

template <class T>
__device__ __forceinline__ void append(T* k_cache, T* v_cache, const float* k, const float* v, const int* cells,
                                       int n_embd_kv) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, t = blockIdx.y;
    if (i >= n_embd_kv) return;
    const size_t from = (size_t)t * n_embd_kv + i, to = (size_t)cells[t] * n_embd_kv + i;
    k_cache[to] = to_cell<T>(k[from]);
    v_cache[to] = to_cell<T>(v[from]);
}

extern "C" __global__ void kv_append_f32(float* __restrict__ k_cache, float* __restrict__ v_cache,
                                         const float* __restrict__ k, const float* __restrict__ v,
                                         const int* __restrict__ cells, int n_embd_kv) {
    append(k_cache, v_cache, k, v, cells, n_embd_kv);
}

extern "C" __global__ void kv_append_f16(u16* __restrict__ k_cache, u16* __restrict__ v_cache,
                                         const float* __restrict__ k, const float* __restrict__ v,
                                         const int* __restrict__ cells, int n_embd_kv) {
    append((F16*)k_cache, (F16*)v_cache, k, v, cells, n_embd_kv);
}

extern "C" __global__ void kv_append_bf16(u16* __restrict__ k_cache, u16* __restrict__ v_cache,
                                          const float* __restrict__ k, const float* __restrict__ v,
                                          const int* __restrict__ cells, int n_embd_kv) {
    append((Bf16*)k_cache, (Bf16*)v_cache, k, v, cells, n_embd_kv);
}
