// Triangular systems, one for each pair of matrices of two stacks.
//
//   X in A X = B, row after row:  x_ij = (b_ij - sum_t<i a_it x_tj) / a_ii, the sum in order, each product rounded
//
//   x, b  [n, size, columns];  a  [n, size, size], of which nothing above the diagonal is read; packed, f32
//   grid  x matrices, y columns by the block's threads; shared memory for a column of each thread: size * threads floats
//   oracle  src/ops/gated_delta_net/matrices.rs (solved), bit by bit
//
// A thread solves for one column, so that none waits for another; all of them read the same element of A.
#include "common.cuh"

extern "C" __global__ void solve_tri_f32(float* __restrict__ x, const float* __restrict__ a, const float* __restrict__ b, int size, int columns) {
    extern __shared__ float smem[];
    const int column = blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    a += (size_t)blockIdx.x * size * size;
    b += (size_t)blockIdx.x * size * columns + column;
    x += (size_t)blockIdx.x * size * columns + column;
    float* solved = smem + threadIdx.x;
    for (int i = 0; i < size; i++) {
        float sum = 0.0f;
        for (int t = 0; t < i; t++) sum += a[i * size + t] * solved[t * blockDim.x];
        const float value = (b[(size_t)i * columns] - sum) / a[i * size + i];
        solved[i * blockDim.x] = value;
        x[(size_t)i * columns] = value;
    }
}
