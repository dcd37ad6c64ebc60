// Rows of a folded table, in the basis of the activations.
//
//   y[t] = signs . (H W[tokens[t]])
//
//   y  [n_tokens, n], f32; W  rows of n weights as in a file; tokens  [n_tokens], each the number of a row
//   signs, H  as unfold of fold.cu
//   grid   (n_tokens, parts of a row); threads: whole warps, a multiple of block / 8; a part is 8 values per thread
//   shared 32 bytes per thread
//   n  a multiple of the format's block; y and W lie on 16 bytes, signs on 4
//   oracle  the kernels get_rows and unfold one after the other, bit for bit
#include "trits.cuh"
#include "wht.cuh"

extern __shared__ float smem[];

template <class F>
__device__ __forceinline__ void get_row_unfold(float* y, const u8* w, const i8* signs, const int* tokens, int n, int log_block, float scale) {
    const int part = PER_THREAD * blockDim.x, first = blockIdx.y * part, end = min(first + part, n);
    const u8* row = w + tokens[blockIdx.x] * (long long)(n / F::BLOCK) * F::BYTES;
    for (int piece = first / PIECE + threadIdx.x; piece < end / PIECE; piece += blockDim.x) {
        F of_piece;
        of_piece.load(row, piece);
#pragma unroll
        for (int group = 0; group < GROUPS; group++) *(float4*)(smem + F::at(piece, group) - first) = values(of_piece, group);
    }
    __syncthreads();
    float v[PER_THREAD];
    load_chunk(v, smem, threadIdx.x / WARP * CHUNK, end - first, 1);
    // What a thread has read it alone overwrites before the next barrier.
    const int layout = wht(v, smem, log_block, scale);
    apply_signs_behind(v, signs, first, n, layout, log_block, 1);
    store_wht(y + (long long)blockIdx.x * n, v, first, n, layout, log_block, 1);
}

extern "C" __global__ void __launch_bounds__(1024)
get_rows_unfold_pq2_0_f32(float* __restrict__ y, const u8* __restrict__ w, const i8* __restrict__ signs, const int* __restrict__ tokens, int n,
                          int log_block, float scale) {
    get_row_unfold<Pq2_0>(y, w, signs, tokens, n, log_block, scale);
}

extern "C" __global__ void __launch_bounds__(1024)
get_rows_unfold_ptq1_0_f32(float* __restrict__ y, const u8* __restrict__ w, const i8* __restrict__ signs, const int* __restrict__ tokens, int n,
                           int log_block, float scale) {
    get_row_unfold<Ptq1_0>(y, w, signs, tokens, n, log_block, scale);
}
