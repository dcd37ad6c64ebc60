// Up to four products in one launch, of matrices that read the same activations.
#pragma once
#include "common.cuh"

// One of the matrices of a launch, and the block's place in it.
struct Weights {
    float* y;
    const u8* w;
    int n_out, block;
    float scale;
    const float* residual;
};

__device__ __forceinline__ Weights pick(int rows, float* y0, float* y1, float* y2, float* y3, const u8* w0, const u8* w1, const u8* w2,
                                        const u8* w3, const float* residual, int n0, int n1, int n2, int n3, float s0, float s1,
                                        float s2, float s3, int has_residual) {
    int block = blockIdx.x;
    const int b0 = (n0 + rows - 1) / rows, b1 = (n1 + rows - 1) / rows, b2 = (n2 + rows - 1) / rows;
    if (block < b0) return {y0, w0, n0, block, s0, has_residual ? residual : 0};
    block -= b0;
    if (block < b1) return {y1, w1, n1, block, s1, 0};
    block -= b1;
    if (block < b2) return {y2, w2, n2, block, s2, 0};
    return {y3, w3, n3, block - b2, s3, 0};
}

__device__ __forceinline__ void store(const Weights& m, int row, int token, float sum) {
    const long long to = (long long)token * m.n_out + row;
    m.y[to] = m.residual ? m.scale * sum + m.residual[to] : m.scale * sum;
}
