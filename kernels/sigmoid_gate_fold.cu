// The gated output of attention and its fold.
//
//   y_i = x_i sigmoid(gate_i), the gate inside rows of (query, gate) pairs of heads;  folded = H (s . y)
//
//   y, folded, x  [rows, n], f32, n = n_head head_dim; y may be null
//   q_full  [rows, n_head, 2, head_dim], the gates second; head_dim is a multiple of 4
//   signs, H, grid, shared  as fold.cu
//   wide    16 bytes at a time: f32 buffers lie on 16 bytes, signs on 4
//   oracle  the kernels sigmoid_mul and fold one after the other, bit for bit
#include "wht.cuh"

extern __shared__ float smem[];

extern "C" __global__ void __launch_bounds__(1024)
sigmoid_gate_fold_f32(float* __restrict__ y, float* __restrict__ folded, const float* __restrict__ x, const float* __restrict__ q_full,
                      const i8* __restrict__ signs, int n, int log_block, int head_dim, int wide, float scale) {
    const int row = blockIdx.x * n, part = blockIdx.y * blockDim.x * PER_THREAD;
    const int first = part + threadIdx.x / WARP * CHUNK;
    float v[PER_THREAD], gate[PER_THREAD];
    load_chunk(v, x + row, first, n, wide);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = first + in_chunk(half);
        // Value i of head h has its gate h + 1 heads further on.
        load4(gate + 4 * half, q_full + 2 * row + (i / head_dim + 1) * head_dim, i, n, wide);
    }
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) v[k] *= sigmoid(gate[k]);
    if (y) store_chunk(y + row, v, first, n, wide);
    apply_signs(v, signs, first, n, wide);
    const int layout = wht(v, smem, log_block, scale);
    store_wht(folded + row, v, part, n, layout, log_block, wide);
}
