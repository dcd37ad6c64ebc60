// Rows of a table of weights.
//
//   y[t] = W[tokens[t]], decoded
//
//   y  [n_tokens, n_in], f32; W  rows of n_in weights as in a file; tokens  [n_tokens], each the number of a row
//   grid  (n_tokens, ceil(n_in / 32 / 128)) blocks of 128 threads; (n_tokens, ceil(n_in / 128)) for bf16, f16, f32
//   n_in  a multiple of the format's block (of 1 for bf16, f16, f32); y and W are aligned to 16 bytes
//   oracle  src/ops/get_rows.rs, bit by bit
#include "trits.cuh"

template <class F> __device__ __forceinline__ void get_row(float* y, const u8* w, const int* tokens, int n_in) {
    const int piece = blockIdx.y * blockDim.x + threadIdx.x;
    if (piece >= n_in / PIECE) return;
    const long long row_bytes = (long long)(n_in / F::BLOCK) * F::BYTES;
    float* row = y + (long long)blockIdx.x * n_in;
    F of_piece;
    of_piece.load(w + tokens[blockIdx.x] * row_bytes, piece);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        *(float4*)(row + F::at(piece, group)) = values(of_piece, group);
    }
}

template <class E> __device__ __forceinline__ void get_plain_row(float* y, const u8* w, const int* tokens, int n_in) {
    const int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= n_in) return;
    const typename E::Bits* row = (const typename E::Bits*)w + (long long)tokens[blockIdx.x] * n_in;
    y[(long long)blockIdx.x * n_in + i] = E::value(row[i]);
}

extern "C" __global__ void get_rows_pq2_0_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_row<Pq2_0>(y, w, tokens, n_in);
}

extern "C" __global__ void get_rows_ptq1_0_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_row<Ptq1_0>(y, w, tokens, n_in);
}

extern "C" __global__ void get_rows_q2_0_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_row<Q2_0>(y, w, tokens, n_in);
}

extern "C" __global__ void get_rows_q1_0_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_row<Q1_0>(y, w, tokens, n_in);
}

extern "C" __global__ void get_rows_tq1_0_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_row<Tq1_0>(y, w, tokens, n_in);
}

extern "C" __global__ void get_rows_tq2_0_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_row<Tq2_0>(y, w, tokens, n_in);
}

extern "C" __global__ void get_rows_q8_0_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_row<Q8_0>(y, w, tokens, n_in);
}

extern "C" __global__ void get_rows_q4_0_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_row<Q4_0>(y, w, tokens, n_in);
}

extern "C" __global__ void get_rows_q4_k_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_row<Q4_K>(y, w, tokens, n_in);
}

extern "C" __global__ void get_rows_q6_k_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_row<Q6_K>(y, w, tokens, n_in);
}

extern "C" __global__ void get_rows_bf16_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_plain_row<Bf16>(y, w, tokens, n_in);
}

extern "C" __global__ void get_rows_f16_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_plain_row<F16>(y, w, tokens, n_in);
}

extern "C" __global__ void get_rows_f32_f32(float* __restrict__ y, const u8* __restrict__ w, const int* __restrict__ tokens, int n_in) {
    get_plain_row<F32>(y, w, tokens, n_in);
}
