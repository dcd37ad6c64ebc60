// Up to four products in one launch, of matrices that read the same activations; the first of them may be without blocks, and read others.
#pragma once
#include "common.cuh"

// One of the matrices of a launch, and the block's place in it.
struct Weights {
    float* y;
    const u8* w;
    int n_out, block;
    float scale;
    const float* residual;
    bool is_plain;
};

// Rows of a block of a matrix without blocks: one for each of its eight warps.
#define PLAIN_ROWS 8

__device__ __forceinline__ int blocks_of(int n, int rows, bool is_plain) {
    return is_plain ? (n + PLAIN_ROWS - 1) / PLAIN_ROWS : (n + rows - 1) / rows;
}

__device__ __forceinline__ Weights pick(int rows, float* y0, float* y1, float* y2, float* y3, const u8* w0, const u8* w1, const u8* w2,
                                        const u8* w3, const float* residual, int n0, int n1, int n2, int n3, float s0, float s1,
                                        float s2, float s3, int has_residual, int n_plain = 0) {
    int block = blockIdx.x;
    const bool p0 = n_plain > 0, p1 = n_plain > 1, p2 = n_plain > 2;
    const int b0 = blocks_of(n0, rows, p0), b1 = blocks_of(n1, rows, p1), b2 = blocks_of(n2, rows, p2);
    if (block < b0) return {y0, w0, n0, block, s0, has_residual ? residual : 0, p0};
    block -= b0;
    if (block < b1) return {y1, w1, n1, block, s1, 0, p1};
    block -= b1;
    if (block < b2) return {y2, w2, n2, block, s2, 0, p2};
    return {y3, w3, n3, block - b2, s3, 0, false}; // the last one is of the kernel's format
}

__device__ __forceinline__ void store(const Weights& m, int row, int token, float sum) {
    const long long to = (long long)token * m.n_out + row;
    m.y[to] = m.residual ? m.scale * sum + m.residual[to] : m.scale * sum;
}
