// A weighted norm and its fold, of a row or of the sum of two.
//
//   rms_norm_fold:      normed = (x / sqrt(mean(x^2) + eps)) w;  folded = H (s . normed)
//   add_rms_norm_fold:  sum = a + b, and the same of it
//
//   normed, folded, x, sum, a, b  [rows, n], f32; normed may be null
//   w      [n];  signs  [n], i8, negative or not; may be null
//   H      blocks of 2^log_block values, 2 to 8192, which divide n; scale 1 / sqrt(block), or 1
//   grid   one block of ceil(n / 256) warps for each row: n <= 8192, and every value stays in a register
//   shared 32 bytes per thread for blocks of more than 256 values, else none
//   wide   16 bytes at a time: n is a multiple of 4, f32 buffers lie on 16 bytes, signs on 4
//   oracle the kernels (add,) rms_norm_weighted and fold one after the other, bit for bit
#include "wht.cuh"

extern __shared__ float smem[];

// The row of the calling block, `v` its values.
__device__ __forceinline__ void norm_fold(float* normed, float* folded, float* v, const float* w, const i8* signs, int n, int log_block,
                                          int wide, float scale, float eps) {
    __shared__ float partial[WARP];
    const int row = blockIdx.x * n, first = threadIdx.x / WARP * CHUNK;
    float weight[PER_THREAD];
    load_chunk(weight, w, first, n, wide);  // on its way while the row is added up
    const float by = rms_scale(row_sum(add_squares<PER_THREAD>(0.0f, v), blockDim.x / WARP, partial), n, eps);
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) v[k] = v[k] * by * weight[k];
    if (normed) store_chunk(normed + row, v, first, n, wide);
    apply_signs(v, signs, first, n, wide);
    const int layout = wht(v, smem, log_block, scale);
    store_wht(folded + row, v, 0, n, layout, log_block, wide);
}

extern "C" __global__ void __launch_bounds__(1024)
rms_norm_fold_f32(float* __restrict__ normed, float* __restrict__ folded, const float* __restrict__ x, const float* __restrict__ w,
                  const i8* __restrict__ signs, int n, int log_block, int wide, float scale, float eps) {
    float v[PER_THREAD];
    load_chunk(v, x + blockIdx.x * n, threadIdx.x / WARP * CHUNK, n, wide);
    norm_fold(normed, folded, v, w, signs, n, log_block, wide, scale, eps);
}

extern "C" __global__ void __launch_bounds__(1024)
add_rms_norm_fold_f32(float* __restrict__ sum, float* __restrict__ normed, float* __restrict__ folded, const float* __restrict__ a,
                      const float* __restrict__ b, const float* __restrict__ w, const i8* __restrict__ signs, int n, int log_block, int wide,
                      float scale, float eps) {
    const int row = blockIdx.x * n, first = threadIdx.x / WARP * CHUNK;
    float v[PER_THREAD], right[PER_THREAD];
    load_chunk(v, a + row, first, n, wide);
    load_chunk(right, b + row, first, n, wide);
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) v[k] += right[k];
    store_chunk(sum + row, v, first, n, wide);
    norm_fold(normed, folded, v, w, signs, n, log_block, wide, scale, eps);
}
