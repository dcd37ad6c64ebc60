// The Walsh-Hadamard transform in registers, and the signs and the order of heads that go with it.
//
//   y = H x for each block of 2^log_block values, 1 <= log_block <= 13: strides 1, 2, 4 .. in ascending order, low = a + b, high = a - b,
//   then times `scale`. The add tree of src/ops/fwht.rs, so the same bits.
//
//   Thread blocks transform 8 values per thread: whole warps, and a multiple of 2^log_block / 8 threads. A thread's values lie as
//   those of a chunk (row.cuh). Strides 1, 2 and 128 are between values of a thread, 4 .. 64 between lanes; from 256 on values are
//   exchanged over shared memory, three strides for each exchange: one barrier for blocks of up to 2048 values, two up to 8192.
#pragma once
#include "row.cuh"

typedef signed char i8;

// Where value k of the calling thread lies among the 8 blockDim.x values of the thread block.
//   log_stride 0: as in chunks; else its values are up to 8 of one transform, 2^log_stride apart, and as many of others as fill it up.
__device__ __forceinline__ int wht_at(int k, int log_stride, int log_block) {
    if (log_stride == 0) return threadIdx.x / WARP * CHUNK + in_chunk(k / 4) + k % 4;
    const int log_radix = min(3, log_block - log_stride), log_threads = log_block - 3;
    const int block = threadIdx.x >> log_threads, slot = threadIdx.x & ((1 << log_threads) - 1);
    const int group = slot + ((k >> log_radix) << log_threads), at = k & ((1 << log_radix) - 1);
    return (block << log_block) + ((group >> log_stride) << (log_stride + log_radix)) + (at << log_stride) + (group & ((1 << log_stride) - 1));
}

// Values k and k + STRIDE, for each k of the lower ones.
template <int STRIDE> __device__ __forceinline__ void wht_in_thread(float* v) {
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        if (k & STRIDE) continue;
        const float a = v[k], b = v[k + STRIDE];
        v[k] = a + b, v[k + STRIDE] = a - b;
    }
}

// Transforms the values of all threads; all of them must call it. `exchange`: 8 blockDim.x floats of shared memory, unused for blocks of
// up to 256. Returns the log_stride by which `wht_at` tells where the values lie now.
__device__ __forceinline__ int wht(float* v, float* exchange, int log_block, float scale) {
    wht_in_thread<1>(v);
    if (log_block > 1) wht_in_thread<2>(v);
#pragma unroll
    for (int log_lanes = 0; log_lanes < 5; log_lanes++) {
        if (log_block <= 2 + log_lanes) break;
        // a + b in the lower lane, a - b in the upper one: its own value is b. A product with 1 or -1 does not round.
        const float sign = threadIdx.x >> log_lanes & 1 ? -1.0f : 1.0f;
#pragma unroll
        for (int k = 0; k < PER_THREAD; k++) v[k] = fmaf(sign, v[k], __shfl_xor_sync(ALL_LANES, v[k], 1 << log_lanes));
    }
    if (log_block > 7) wht_in_thread<4>(v);
    int layout = 0;
    for (int log_stride = 8; log_stride < log_block; log_stride += 3) {
        // Who reads a value is alone with it until it is written back: a barrier between writing and reading is enough.
        if (layout == 0) {
            store_chunk(exchange, v, threadIdx.x / WARP * CHUNK, PER_THREAD * blockDim.x, 1);
        } else {
#pragma unroll
            for (int k = 0; k < PER_THREAD; k++) exchange[wht_at(k, layout, log_block)] = v[k];
        }
        __syncthreads();
        layout = log_stride;
#pragma unroll
        for (int k = 0; k < PER_THREAD; k++) v[k] = exchange[wht_at(k, layout, log_block)];
        wht_in_thread<1>(v);
        if (log_block - log_stride > 1) wht_in_thread<2>(v);
        if (log_block - log_stride > 2) wht_in_thread<4>(v);
    }
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) v[k] *= scale;
    return layout;
}

// y[first ..] = the values of all threads, where `wht` left them; nothing from n on.
__device__ __forceinline__ void store_wht(float* y, const float* v, int first, int n, int layout, int log_block, int wide) {
    if (layout == 0) {
        store_chunk(y, v, first + threadIdx.x / WARP * CHUNK, n, wide);
    } else {
#pragma unroll
        for (int k = 0; k < PER_THREAD; k++) {
            const int i = first + wht_at(k, layout, log_block);
            if (i < n) y[i] = v[k];
        }
    }
}

// Values i .. i + 3 of a row times their signs, one i8 for each value of a row of n; none of them: unchanged.
__device__ __forceinline__ void apply_signs4(float* v, const i8* signs, int i, int n, int wide) {
    if (!signs) return;
    if (wide) {
        if (i >= n) return;
        const int four = *(const int*)(signs + i);
#pragma unroll
        for (int j = 0; j < 4; j++) v[j] = four >> (8 * j + 7) & 1 ? -v[j] : v[j];
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (i + j < n && signs[i + j] < 0) v[j] = -v[j];
    }
}

// The values of the chunk that begins at `first` times their signs.
__device__ __forceinline__ void apply_signs(float* v, const i8* signs, int first, int n, int wide) {
    apply_signs4(v, signs, first + in_chunk(0), n, wide);
    apply_signs4(v + 4, signs, first + in_chunk(1), n, wide);
}

// Values where `wht` left them, of the part of a row that begins at `first`, times their signs.
__device__ __forceinline__ void apply_signs_behind(float* v, const i8* signs, int first, int n, int layout, int log_block, int wide) {
    if (!signs) return;
    if (layout == 0) {
        apply_signs(v, signs, first + threadIdx.x / WARP * CHUNK, n, wide);
    } else {
#pragma unroll
        for (int k = 0; k < PER_THREAD; k++) {
            const int i = first + wht_at(k, layout, log_block);
            if (i < n && signs[i] < 0) v[k] = -v[k];
        }
    }
}

// Where value i of a row of grouped heads (k rep + r) lies in one of tiled heads (k + n_k r). n_k 0: the order stays.
__device__ __forceinline__ int in_tiled(int i, int n_k, int rep, int head_dim) {
    if (n_k == 0) return i;
    const int head = i / head_dim;
    return i + (head / rep + n_k * (head % rep) - head) * head_dim;
}
