// Gated values.
//
//   swiglu:       y_i = silu(gate_i) up_i
//   sigmoid_mul:  y_i = x_i sigmoid(gate_i), the gate inside rows of (query, gate) pairs of heads
//   gated_norm:   y_rhi = (rms_norm(o_rh)_i w_i) silu(z_rhi)
//
//   swiglu       y, gate, up  [n], f32
//   sigmoid_mul  y, x  [rows, n_head, head_dim], n values in all;  q_full  [rows, n_head, 2, head_dim], the gates second
//   gated_norm   y, o, z  [rows, n], a row for each head, n <= 256;  w  [n]
//   grid         swiglu, sigmoid_mul: one thread for each four elements, any block size;  gated_norm: one warp for each row, any number of
//                whole warps in a block
//   wide         16 bytes at a time: all buffers lie on 16 bytes; head_dim of sigmoid_mul and n of gated_norm are multiples of 4
//   oracle       src/ops/glu.rs, unary.rs, norm.rs; the bits of the plain kernels one after the other
#include "row.cuh"

extern "C" __global__ void swiglu_f32(float* __restrict__ y, const float* __restrict__ gate, const float* __restrict__ up, int n, int wide) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    const int full = wide && i + 4 <= n;
    float g[4], u[4];
    load4(g, gate, i, n, full);
    load4(u, up, i, n, full);
#pragma unroll
    for (int j = 0; j < 4; j++) g[j] = silu(g[j]) * u[j];
    store4(y, g, i, n, full);
}

extern "C" __global__ void sigmoid_mul_f32(float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ q_full, int n,
                                           int head_dim, int wide) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    float v[4], gate[4];
    load4(v, x, i, n, wide);
    if (wide) {
        // Value i of head h has its gate h + 1 heads further on.
        load4(gate, q_full + (i / head_dim + 1) * head_dim, i, n, wide);
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++) gate[j] = i + j < n ? q_full[((i + j) / head_dim + 1) * head_dim + i + j] : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] *= sigmoid(gate[j]);
    store4(y, v, i, n, wide);
}

extern "C" __global__ void gated_norm_f32(float* __restrict__ y, const float* __restrict__ o, const float* __restrict__ z,
                                          const float* __restrict__ w, int rows, int n, int wide, float eps) {
    const int row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (row >= rows) return;
    float v[PER_THREAD], weight[PER_THREAD], gate[PER_THREAD];
    load_chunk(v, o + row * n, 0, n, wide);
    load_chunk(weight, w, 0, n, wide);
    load_chunk(gate, z + row * n, 0, n, wide);
    const float scale = rms_scale(warp_sum(add_squares<PER_THREAD>(0.0f, v)), n, eps);
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) v[k] = v[k] * scale * weight[k] * silu(gate[k]);
    store_chunk(y + row * n, v, 0, n, wide);
}
