// Stacks of matrices, element by element, and what is done along their rows.
//
//   cont:      y_nij = x_nij, 0 from row x_rows on
//   add:       y_nij = a_nij + b_nij;  sub: a_nij - b_nij;  mul: a_nij b_nij
//   tri:       y_nij = x_nij below the diagonal (diagonal: and on it), else 0
//   cumsum:    y_rj = x_r0 + .. + x_rj
//
//   y        [n, rows, columns], packed, `total` values, f32; of tri rows = columns = size; of cumsum [rows, size]
//   x, a, b  element (n, i, j) lies at n stride_n + i stride_i + j stride_j; a stride of 0 repeats what is there once. Of tri and cumsum as y
//   grid     one thread for each element, of cumsum for each row, any block size
//   oracle   the operators of f32: each is one rounding; cumsum adds up in order
#include "common.cuh"

// Where element i of y lies in a strided operand.
struct Strides {
    int n, i, j;
    __device__ __forceinline__ int at(int i_packed, int rows, int columns) const {
        const int row = i_packed / columns;
        return row / rows * n + row % rows * i + i_packed % columns * j;
    }
};

extern "C" __global__ void cont_f32(float* __restrict__ y, const float* __restrict__ x, int total, int rows, int columns, int x_rows, int x_n,
                                    int x_i, int x_j) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const Strides strides = {x_n, x_i, x_j};
    y[i] = i / columns % rows < x_rows ? x[strides.at(i, rows, columns)] : 0.0f;
}

template <class F>
__device__ __forceinline__ void each(float* y, const float* a, const float* b, int total, int rows, int columns, Strides of_a, Strides of_b, F f) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] = f(a[of_a.at(i, rows, columns)], b[of_b.at(i, rows, columns)]);
}

extern "C" __global__ void add_matrices_f32(float* __restrict__ y, const float* __restrict__ a, const float* __restrict__ b, int total, int rows,
                                            int columns, int a_n, int a_i, int a_j, int b_n, int b_i, int b_j) {
    each(y, a, b, total, rows, columns, {a_n, a_i, a_j}, {b_n, b_i, b_j}, [](float a, float b) { return a + b; });
}

extern "C" __global__ void sub_matrices_f32(float* __restrict__ y, const float* __restrict__ a, const float* __restrict__ b, int total, int rows,
                                            int columns, int a_n, int a_i, int a_j, int b_n, int b_i, int b_j) {
    each(y, a, b, total, rows, columns, {a_n, a_i, a_j}, {b_n, b_i, b_j}, [](float a, float b) { return a - b; });
}

extern "C" __global__ void mul_matrices_f32(float* __restrict__ y, const float* __restrict__ a, const float* __restrict__ b, int total, int rows,
                                            int columns, int a_n, int a_i, int a_j, int b_n, int b_i, int b_j) {
    each(y, a, b, total, rows, columns, {a_n, a_i, a_j}, {b_n, b_i, b_j}, [](float a, float b) { return a * b; });
}

extern "C" __global__ void tri_f32(float* __restrict__ y, const float* __restrict__ x, int total, int size, int diagonal) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] = i % size < i / size % size + diagonal ? x[i] : 0.0f;
}

extern "C" __global__ void cumsum_f32(float* __restrict__ y, const float* __restrict__ x, int rows, int size) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int j = 0; j < size; j++) {
        // The first is copied: 0 + -0 would be another 0.
        sum = j == 0 ? x[(size_t)row * size] : sum + x[(size_t)row * size + j];
        y[(size_t)row * size + j] = sum;
    }
}
