// Functions of single elements.
//
//   silu:  y_i = x_i / (1 + exp(-x_i))
//
//   y, x  [n], f32
//   grid  one thread for each element, any block size
//   oracle  src/ops/unary.rs
#include "common.cuh"

extern "C" __global__ void silu_f32(float* __restrict__ y, const float* __restrict__ x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = silu(x[i]);
}
