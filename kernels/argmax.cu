// The index of the largest value of each row, of equal ones the lowest; -1 if one of them is a NaN.
//
//   argmax_parts:  best_rp = the best candidate among values p part .. (p + 1) part of row r
//   argmax:        id_r = the index of the best of them
//
//   x     [rows, n], f32;  best  [rows, parts], candidates as candidate.cuh has them;  id  [rows], i32
//   grid  argmax_parts: (parts, rows) of 256 threads, part is a multiple of 4;  argmax: one warp for each row
//   wide  16 bytes at a time: n is a multiple of 4, x lies on 16 bytes
//   oracle  the loop over a row, exact
#include "candidate.cuh"
#include "four.cuh"

extern "C" __global__ void __launch_bounds__(256)
argmax_parts_f32(u64* __restrict__ best, const float* __restrict__ x, int n, int part, int wide) {
    __shared__ u64 of_warps[256 / WARP];
    const float* row = x + (size_t)blockIdx.y * n;
    const int begin = blockIdx.x * part, end = min(begin + part, n);
    u64 found = 0;
    for (int i = begin + threadIdx.x * 4; i < end; i += blockDim.x * 4) {
        float v[4];
        load4(v, row, i, end, wide);
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (i + j < end) found = max(found, candidate(v[j], i + j));
    }
    found = warp_best(found);
    if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = found;
    __syncthreads();
    if (threadIdx.x >= WARP) return;
    found = warp_best(threadIdx.x < blockDim.x / WARP ? of_warps[threadIdx.x] : 0);
    if (threadIdx.x == 0) best[blockIdx.y * gridDim.x + blockIdx.x] = found;
}

extern "C" __global__ void __launch_bounds__(32) argmax_f32(int* __restrict__ id, const u64* __restrict__ best, int parts) {
    u64 found = 0;
    for (int p = threadIdx.x; p < parts; p += WARP) found = max(found, best[blockIdx.x * parts + p]);
    found = warp_best(found);
    if (threadIdx.x == 0) id[blockIdx.x] = is_nan(found) ? -1 : index_of(found);
}
