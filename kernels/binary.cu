// Functions of two values, element by element.
//
//   add:      y_i = a_i + b_i
//   mul:      y_i = a_i b_i
//   mul_row:  y_ri = x_ri w_i
//   scale:    y_i = x_i s
//
//   y, a, b, x  [n] (mul_row: [rows, n] with `total` values), f32;  w [n];  y may be a, b or x
//   grid   one thread for each four elements, any block size
//   wide   16 bytes at a time: all buffers lie on 16 bytes; of mul_row n is a multiple of 4 as well. `total` may be any number
//   oracle the operators of f32: each is one rounding
#include "four.cuh"

// y is written where x and b have been read by the same thread, so they may be one buffer: no __restrict__.
template <class F>
__device__ __forceinline__ void each(float* y, const float* a, const float* b, int n, int wide, F f) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    const int full = wide && i + 4 <= n;
    float left[4], right[4];
    load4(left, a, i, n, full);
    if (b) load4(right, b, i, n, full);
#pragma unroll
    for (int j = 0; j < 4; j++) left[j] = f(left[j], b ? right[j] : 0.0f);
    store4(y, left, i, n, full);
}

extern "C" __global__ void add_f32(float* y, const float* a, const float* b, int n, int wide) {
    each(y, a, b, n, wide, [](float a, float b) { return a + b; });
}

extern "C" __global__ void mul_f32(float* y, const float* a, const float* b, int n, int wide) {
    each(y, a, b, n, wide, [](float a, float b) { return a * b; });
}

extern "C" __global__ void scale_f32(float* y, const float* x, int n, int wide, float s) {
    each(y, x, (const float*)0, n, wide, [=](float x, float) { return x * s; });
}

extern "C" __global__ void mul_row_f32(float* y, const float* x, const float* __restrict__ w, int total, int n, int wide) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    float v[4];
    load4(v, x, i, total, wide);
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] *= w[(i + j) % n];
    store4(y, v, i, total, wide);
}
