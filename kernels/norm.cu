// Norms of rows.
//
//   rms_norm:           y_i = x_i / sqrt(mean(x^2) + eps)
//   rms_norm_weighted:  y_i = (x_i / sqrt(mean(x^2) + eps)) w_i             two roundings, as of rms_norm and mul_row
//   l2_norm:            y_i = x_i / max(sqrt(sum(x^2)), eps)
//   l2_norm_inside:     y_i = (x_i / sqrt(mean(x^2) + eps / n)) / sqrt(n)   two roundings, as of ggml's rms_norm and scale
//
//   y  [rows, n], f32, packed
//   x  rms_norm: [rows, n]; l2_norm: row r begins at (r / per_token) x_stride + (r % per_token) n
//   w  [n]
//   grid   rows of up to 256 values: one warp for each (warps = 1), any number of whole warps in a block; longer ones: one block of
//          `warps` = min(32, ceil(n / 256)) warps for each. n <= 24576
//   wide   rows are read 16 bytes at a time: n and x_stride are multiples of 4, all buffers lie on 16 bytes
//   sums   row.cuh says in which order
//   oracle src/ops/norm.rs
#include "row.cuh"

// Handles the row of the calling warp: `scale(sum of squares)`, then `store(row, v, first)` for each chunk, with the values in v scaled.
template <class Scale, class Store>
__device__ __forceinline__ void norm_rows(const float* x, int rows, int per_token, int x_stride, int n, int warps, int wide, Scale scale,
                                          Store store) {
    __shared__ float partial[WARP];
    const int warp = threadIdx.x / WARP;
    const int row = warps == 1 ? blockIdx.x * (blockDim.x / WARP) + warp : blockIdx.x;
    if (row >= rows) return;  // only where each warp has a row of its own, and there is no barrier
    x += row / per_token * x_stride + row % per_token * n;
    const int begin = warps == 1 ? 0 : warp * CHUNK;
    float v[MAX_CHUNKS][PER_THREAD];
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < MAX_CHUNKS; c++) {
        const int first = begin + c * warps * CHUNK;
        if (first >= n) break;
        load_chunk(v[c], x, first, n, wide);
        sum = add_squares<PER_THREAD>(sum, v[c]);
    }
    const float by = scale(row_sum(sum, warps, partial));
#pragma unroll
    for (int c = 0; c < MAX_CHUNKS; c++) {
        const int first = begin + c * warps * CHUNK;
        if (first >= n) break;
#pragma unroll
        for (int k = 0; k < PER_THREAD; k++) v[c][k] *= by;
        store(row, v[c], first);
    }
}

extern "C" __global__ void __launch_bounds__(1024)
rms_norm_f32(float* __restrict__ y, const float* __restrict__ x, int rows, int n, int warps, int wide, float eps) {
    norm_rows(x, rows, 1, n, n, warps, wide, [=](float sum) { return rms_scale(sum, n, eps); },
              [=](int row, float* v, int first) { store_chunk(y + row * n, v, first, n, wide); });
}

extern "C" __global__ void __launch_bounds__(1024)
rms_norm_weighted_f32(float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ w, int rows, int n, int warps, int wide,
                      float eps) {
    norm_rows(x, rows, 1, n, n, warps, wide, [=](float sum) { return rms_scale(sum, n, eps); },
              [=](int row, float* v, int first) {
                  float weight[PER_THREAD];
                  load_chunk(weight, w, first, n, wide);
#pragma unroll
                  for (int k = 0; k < PER_THREAD; k++) v[k] *= weight[k];
                  store_chunk(y + row * n, v, first, n, wide);
              });
}

extern "C" __global__ void __launch_bounds__(1024)
l2_norm_f32(float* __restrict__ y, const float* __restrict__ x, int rows, int per_token, int x_stride, int n, int warps, int wide, float eps) {
    norm_rows(x, rows, per_token, x_stride, n, warps, wide, [=](float sum) { return 1.0f / fmaxf(sqrtf(sum), eps); },
              [=](int row, float* v, int first) { store_chunk(y + row * n, v, first, n, wide); });
}

// eps_n: eps / n; scale: 1 / sqrt(n)
extern "C" __global__ void __launch_bounds__(1024)
l2_norm_inside_f32(float* __restrict__ y, const float* __restrict__ x, int rows, int per_token, int x_stride, int n, int warps, int wide,
                   float eps_n, float scale) {
    norm_rows(x, rows, per_token, x_stride, n, warps, wide, [=](float sum) { return rms_scale(sum, n, eps_n); },
              [=](int row, float* v, int first) {
#pragma unroll
                  for (int k = 0; k < PER_THREAD; k++) v[k] *= scale;
                  store_chunk(y + row * n, v, first, n, wide);
              });
}
