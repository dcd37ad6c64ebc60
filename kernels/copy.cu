// Rows that are copied.
//
//   copy_rows:    y_r = row of n values that begins at x + r stride
//   gather_rows:  y_r = x_id(r); NaN if there is no such row
//
//   y    [rows, n], f32, packed
//   x    copy_rows: (rows - 1) stride + n values or more; gather_rows: [x_rows, n]
//   ids  [rows], i32
//   grid   one thread for each four elements of y, any block size
//   wide   16 bytes at a time: n and stride are multiples of 4, y and x lie on 16 bytes
//   oracle the values themselves; src/ops/get_rows.rs
#include "four.cuh"

extern "C" __global__ void copy_rows_f32(float* __restrict__ y, const float* __restrict__ x, int total, int n, int stride, int wide) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    float v[4];
    if (wide) {
        load4(v, x + i / n * (stride - n), i, total, wide);
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++) v[j] = i + j < total ? x[(i + j) / n * stride + (i + j) % n] : 0.0f;
    }
    store4(y, v, i, total, wide);
}

__device__ __forceinline__ float of_row(const float* x, const int* ids, int x_rows, int row, int i, int n) {
    const int id = ids[row];
    return id >= 0 && id < x_rows ? x[id * n + i] : __uint_as_float(0x7fc00000u);
}

extern "C" __global__ void gather_rows_f32(float* __restrict__ y, const float* __restrict__ x, const int* __restrict__ ids, int total, int n,
                                           int x_rows, int wide) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    float v[4];
    const int id = wide && i < total ? ids[i / n] : -1;
    if (id >= 0 && id < x_rows) {
        load4(v, x + id * n, i % n, n, wide);
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++) v[j] = i + j < total ? of_row(x, ids, x_rows, (i + j) / n, (i + j) % n, n) : 0.0f;
    }
    store4(y, v, i, total, wide);
}
