// How the values of a row lie in registers, and the one order in which their squares are added.
//
//   A row is cut into chunks of 256 values, one for a warp: lane l holds values 4 l .. 4 l + 3 of each half of 128.
//   Warp w of the W = min(32, ceil(n / 256)) warps of a row has chunks w, w + W, w + 2 W.
//   sum of squares: a chain of fmaf over a thread's values in ascending order, a butterfly over the lanes, one over the warps.
//
// All kernels that norm a row keep to it, fused or not, so that they give the same bits.
#pragma once
#include "four.cuh"

#define PER_THREAD 8
#define CHUNK (WARP * PER_THREAD)
#define MAX_CHUNKS 3  // of a warp: rows of up to 32 * 3 * 256 values

// Where values 4 half .. 4 half + 3 of a lane lie in their chunk.
__device__ __forceinline__ int in_chunk(int half) { return half * (CHUNK / 2) + threadIdx.x % WARP * 4; }

// v = values of the chunk that begins at `first`; 0 from n on.
__device__ __forceinline__ void load_chunk(float* v, const float* x, int first, int n, int wide) {
    load4(v, x, first + in_chunk(0), n, wide);
    load4(v + 4, x, first + in_chunk(1), n, wide);
}

__device__ __forceinline__ void store_chunk(float* y, const float* v, int first, int n, int wide) {
    store4(y, v, first + in_chunk(0), n, wide);
    store4(y, v + 4, first + in_chunk(1), n, wide);
}

// sum + v_0^2 + v_1^2 ..
template <int N> __device__ __forceinline__ float add_squares(float sum, const float* v) {
#pragma unroll
    for (int k = 0; k < N; k++) sum = fmaf(v[k], v[k], sum);
    return sum;
}

// The sum over a row that `warps` warps share: one, or all of the block. `partial`: 32 floats of shared memory.
__device__ __forceinline__ float row_sum(float x, int warps, float* partial) {
    return warps == 1 ? warp_sum(x) : block_sum(x, partial);
}

// What a row of n values with this sum of squares is multiplied with.
__device__ __forceinline__ float rms_scale(float sum_of_squares, int n, float eps) {
    return 1.0f / sqrtf(sum_of_squares / (float)n + eps);
}
