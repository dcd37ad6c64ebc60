// The rotation of the first n_rot elements of each head, and the norm of a head in front of it.
//
//   (x_i, x_i+half) -> (x_i cos - x_i+half sin, x_i sin + x_i+half cos),  half = n_rot / 2,  i in 0 .. half; the rest passes
//   qk_norm_rope:  x <- x / sqrt(mean(x^2) + eps) weight over the head, then the rotation
//
//   y          [n_tokens, n_head, head_dim], f32
//   x          head h of token t begins at t token_stride + h head_stride (in floats)
//   positions  [n_tokens], i32: rows of the table
//   table      [n_positions, half] of (cos, sin) pairs, f32; 8-byte aligned
//   weight     [head_dim]
//   grid       one warp for each head of each token, 128 threads; qk_norm_rope: head_dim <= 256, dynamic shared memory of
//              4 head_dim floats
//   wide       heads are read 16 bytes at a time: head_dim and strides are multiples of 4, x and weight lie on 16 bytes
//   oracle     src/ops/rope.rs, src/ops/norm.rs; the rotation bit-equal: products rounded, no fmaf
#include "rope.cuh"

extern "C" __global__ void rope_f32(float* __restrict__ y, const float* __restrict__ x, const int* __restrict__ positions,
                                    const float* __restrict__ table, int n_tokens, int n_head, int head_dim, int n_rot,
                                    int token_stride, int head_stride) {
    const int row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (row >= n_tokens * n_head) return;
    const int t = row / n_head, h = row % n_head;
    const float2* turns = (const float2*)table + (size_t)positions[t] * (n_rot / 2);
    x += (size_t)t * token_stride + (size_t)h * head_stride;
    y += (size_t)row * head_dim;
    rotate_head(x, turns, head_dim, n_rot, [=](int i, float value) { y[i] = value; });
}

extern __shared__ float smem[];

extern "C" __global__ void qk_norm_rope_f32(float* __restrict__ y, const float* __restrict__ x,
                                            const float* __restrict__ weight, const int* __restrict__ positions,
                                            const float* __restrict__ table, int n_tokens, int n_head, int head_dim,
                                            int n_rot, int token_stride, int head_stride, int wide, float eps) {
    const int row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (row >= n_tokens * n_head) return;
    const int t = row / n_head, h = row % n_head;
    const float2* turns = (const float2*)table + (size_t)positions[t] * (n_rot / 2);
    float* normed = smem + threadIdx.x / WARP * head_dim;
    x += (size_t)t * token_stride + (size_t)h * head_stride;
    y += (size_t)row * head_dim;
    norm_head(normed, x, weight, head_dim, wide, eps);
    rotate_head(normed, turns, head_dim, n_rot, [=](int i, float value) { y[i] = value; });
}
