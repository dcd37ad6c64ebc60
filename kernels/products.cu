// Products of small matrices, pair by pair of two stacks.
//
//   products:      y_nij = sum_c a_njc b_nic                  MUL_MAT of a and b: rows meet rows
//   sum_products:  y_ni = sum_c a_nic b_nc                    SUM_ROWS of MUL: products rounded to f32, added up in f64, rounded once
//
//   y     [n, rows, columns], of sum_products [n, rows], packed, f32
//   a     [n, columns, size];  b  [n, rows, size]; element (n, i, c) lies at n stride_n + i stride_i + c stride_c, a stride of 0 repeats
//         of sum_products a [n, rows, size] and b [n, size], packed
//   grid  products: x matrices, y tiles of TILE rows, z tiles of TILE columns, 256 threads
//         sum_products: a warp for each of n rows, any number of whole warps in a block
//   oracle  src/ops/gated_delta_net/matrices.rs (products), Number::sum_in_f64
#include "common.cuh"

#define TILE 32
#define THREADS 256
// Rows of a tile are a float longer, so that a column lies in different banks.
#define PITCH (TILE + 1)

// tile[i][c] = x(row + i, first + c), 0 beyond. Neighbouring threads read along whatever lies packed.
__device__ __forceinline__ void load_tile(float* tile, const float* x, int row, int rows, int first, int size, int stride_i, int stride_c) {
#pragma unroll
    for (int e = threadIdx.x; e < TILE * TILE; e += THREADS) {
        const int i = stride_c == 1 ? e / TILE : e % TILE, c = stride_c == 1 ? e % TILE : e / TILE;
        const int is_there = row + i < rows && first + c < size;
        tile[i * PITCH + c] = is_there ? x[(row + i) * stride_i + (first + c) * stride_c] : 0.0f;
    }
}

// Thread (i, j) of 8 x 32 has column j of the tile and its rows i, i + 8, ..
extern "C" __global__ void products_f32(float* __restrict__ y, const float* __restrict__ a, const float* __restrict__ b, int rows, int columns,
                                        int size, int a_n, int a_i, int a_c, int b_n, int b_i, int b_c) {
    __shared__ float of_a[TILE * PITCH], of_b[TILE * PITCH];
    const int n = blockIdx.x, row = blockIdx.y * TILE, column = blockIdx.z * TILE;
    const int i = threadIdx.x / TILE, j = threadIdx.x % TILE;
    a += (size_t)n * a_n;
    b += (size_t)n * b_n;
    float sums[TILE * TILE / THREADS] = {};
    for (int first = 0; first < size; first += TILE) {
        load_tile(of_a, a, column, columns, first, size, a_i, a_c);
        load_tile(of_b, b, row, rows, first, size, b_i, b_c);
        __syncthreads();
#pragma unroll 8
        for (int c = 0; c < TILE; c++) {
            const float of_column = of_a[j * PITCH + c];
#pragma unroll
            for (int r = 0; r < TILE * TILE / THREADS; r++) sums[r] = fmaf(of_column, of_b[(i + r * THREADS / TILE) * PITCH + c], sums[r]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < TILE * TILE / THREADS; r++) {
        const int at = row + i + r * THREADS / TILE;
        if (at < rows && column + j < columns) y[((size_t)n * rows + at) * columns + column + j] = sums[r];
    }
}

extern "C" __global__ void sum_products_f32(float* __restrict__ y, const float* __restrict__ a, const float* __restrict__ b, int n_rows, int rows,
                                            int size) {
    const int row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (row >= n_rows) return;
    a += (size_t)row * size;
    b += (size_t)(row / rows) * size;
    double sum = 0.0;
    for (int c = lane; c < size; c += WARP) sum += (double)(a[c] * b[c]);
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes >>= 1) sum += __shfl_xor_sync(ALL_LANES, sum, lanes);
    if (lane == 0) y[row] = (float)sum;
}
