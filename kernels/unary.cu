// Functions of single elements.
//
//   silu:           y_i = x_i / (1 + exp(-x_i))
//   sigmoid:        y_i = 1 / (1 + exp(-x_i))
//   exp:            y_i = exp(x_i)
//   softplus_bias:  y_rh = softplus(alpha_rh + dt_h),  softplus(x) = x > 20 ? x : ln(1 + exp(x))
//   gates:          gate_rh = softplus(alpha_rh + dt_h) a_h;  beta_rh = sigmoid(raw_beta_rh)
//
//   y, x         [n], f32
//   alpha, raw_beta, gate, beta, y of softplus_bias  [rows, n_heads], n values in all;  dt, a  [n_heads]
//   grid  one thread for each element, any block size
//   oracle  src/ops/unary.rs; gates: the bits of softplus_bias and mul_row, and of sigmoid
#include "common.cuh"

extern "C" __global__ void silu_f32(float* __restrict__ y, const float* __restrict__ x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = silu(x[i]);
}

extern "C" __global__ void sigmoid_f32(float* __restrict__ y, const float* __restrict__ x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = sigmoid(x[i]);
}

extern "C" __global__ void exp_f32(float* __restrict__ y, const float* __restrict__ x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = expf(x[i]);
}

// Above this, ggml takes softplus(x) to be x.
#define SOFTPLUS_LINEAR 20.0f

__device__ __forceinline__ float softplus(float x) { return x > SOFTPLUS_LINEAR ? x : logf(1.0f + expf(x)); }

extern "C" __global__ void softplus_bias_f32(float* __restrict__ y, const float* __restrict__ alpha, const float* __restrict__ dt, int n,
                                             int n_heads) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = softplus(alpha[i] + dt[i % n_heads]);
}

extern "C" __global__ void gates_f32(float* __restrict__ gate, float* __restrict__ beta, const float* __restrict__ alpha,
                                     const float* __restrict__ raw_beta, const float* __restrict__ dt, const float* __restrict__ a, int n,
                                     int n_heads) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int head = i % n_heads;
    gate[i] = softplus(alpha[i] + dt[head]) * a[head];
    beta[i] = sigmoid(raw_beta[i]);
}
