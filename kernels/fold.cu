// The transform in front of a folded weight, and its inverse behind a folded table.
//
//   fold:    y = H (s . P(x))     P from tiled heads (k + n_k r) to grouped ones (k rep + r), or nothing
//   unfold:  y = s . (H x)
//
//   y, x   [rows, n], f32; of unfold they may be one buffer
//   signs  [n], i8, negative or not; may be null
//   H      blocks of 2^log_block values, 2 to 8192, which divide n; scale 1 / sqrt(block), or 1
//   grid   (rows, parts of a row); threads: whole warps, a multiple of block / 8; a part is 8 values per thread
//   shared 32 bytes per thread for blocks of more than 256 values, else none
//   wide   16 bytes at a time: n and head_dim are multiples of 4, y and x lie on 16 bytes, signs on 4
//   oracle src/model/transform.rs, bit for bit
#include "wht.cuh"

extern __shared__ float smem[];

extern "C" __global__ void __launch_bounds__(1024)
fold_f32(float* __restrict__ y, const float* __restrict__ x, const i8* __restrict__ signs, int n, int log_block, int n_k, int rep, int head_dim,
         int wide, float scale) {
    const int first = blockIdx.y * blockDim.x * PER_THREAD;
    const float* from = x + blockIdx.x * n;
    float v[PER_THREAD];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = first + threadIdx.x / WARP * CHUNK + in_chunk(half);
        float* four = v + 4 * half;
        if (wide || n_k == 0) {
            load4(four, from + in_tiled(i, n_k, rep, head_dim) - i, i, n, wide);
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) four[j] = i + j < n ? from[in_tiled(i + j, n_k, rep, head_dim)] : 0.0f;
        }
    }
    apply_signs(v, signs, first + threadIdx.x / WARP * CHUNK, n, wide);
    const int layout = wht(v, smem, log_block, scale);
    store_wht(y + blockIdx.x * n, v, first, n, layout, log_block, wide);
}

extern "C" __global__ void __launch_bounds__(1024)
unfold_f32(float* y, const float* x, const i8* __restrict__ signs, int n, int log_block, int wide, float scale) {
    const int first = blockIdx.y * blockDim.x * PER_THREAD;
    const int row = blockIdx.x * n;
    float v[PER_THREAD];
    load_chunk(v, x + row, first + threadIdx.x / WARP * CHUNK, n, wide);
    const int layout = wht(v, smem, log_block, scale);
    // A thread block reads all of its values before the barrier, or each thread writes those that it has read.
    apply_signs_behind(v, signs, first, n, layout, log_block, wide);
    store_wht(y + row, v, first, n, layout, log_block, wide);
}
