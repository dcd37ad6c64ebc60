// A head by one warp: its norm, and its rotation.
#pragma once
#include "row.cuh"

// normed = x / sqrt(mean(x^2) + eps) weight, a head of up to 256 values, in shared memory of this warp.
__device__ __forceinline__ void norm_head(float* normed, const float* x, const float* weight, int head_dim, int wide, float eps) {
    float values[PER_THREAD], weights[PER_THREAD];
    load_chunk(values, x, 0, head_dim, wide);
    load_chunk(weights, weight, 0, head_dim, wide);
    const float scale = rms_scale(warp_sum(add_squares<PER_THREAD>(0.0f, values)), head_dim, eps);
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) values[i] = values[i] * scale * weights[i];
    store_chunk(normed, values, 0, head_dim, wide);
    __syncwarp();
}

// put(i, value) for each element of the head once it is rotated; `turns` the (cos, sin) of its position. No fmaf.
template <class Put>
__device__ __forceinline__ void rotate_head(const float* x, const float2* turns, int head_dim, int n_rot, Put put) {
    const int lane = threadIdx.x % WARP, half = n_rot / 2;
    for (int i = lane; i < half; i += WARP) {
        const float a = x[i], b = x[i + half];
        const float2 turn = turns[i];
        put(i, a * turn.x - b * turn.y);
        put(i + half, a * turn.y + b * turn.x);
    }
    for (int i = n_rot + lane; i < head_dim; i += WARP) put(i, x[i]);
}
