// A gated value and its fold.
//
//   y = silu(gate) up;  folded = H (s . y)
//
//   y, folded, gate, up  [rows, n], f32; y may be null
//   signs, H, grid, shared, wide  as fold.cu
//   oracle the kernels swiglu and fold one after the other, bit for bit
#include "wht.cuh"

extern __shared__ float smem[];

extern "C" __global__ void __launch_bounds__(1024)
swiglu_fold_f32(float* __restrict__ y, float* __restrict__ folded, const float* __restrict__ gate, const float* __restrict__ up,
                const i8* __restrict__ signs, int n, int log_block, int wide, float scale) {
    const int row = blockIdx.x * n, part = blockIdx.y * blockDim.x * PER_THREAD;
    const int first = part + threadIdx.x / WARP * CHUNK;
    float v[PER_THREAD], u[PER_THREAD];
    load_chunk(v, gate + row, first, n, wide);
    load_chunk(u, up + row, first, n, wide);
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) v[k] = silu(v[k]) * u[k];
    if (y) store_chunk(y + row, v, first, n, wide);
    apply_signs(v, signs, first, n, wide);
    const int layout = wht(v, smem, log_block, scale);
    store_wht(folded + row, v, part, n, layout, log_block, wide);
}
