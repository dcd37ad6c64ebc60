// The product of one token with PQ2_0 weights whose codes and scales lie apart: an experiment that only `lockstep bench` runs.
//
//   y[n] = sum_k d[n][k / 128] (q[n][k] - 1) x[k]
//
//   codes   [n_out, n_in / 4], two bits each as in PQ2_0, the first of a byte lowest
//   scales  [n_out, n_in / 128], f16 by its bits; x  [n_in]; y  [n_out]
//   grid  ceil(n_out / 32) blocks of 256 threads; shared memory  STAGE_BYTES
//   n_in  a multiple of 128; codes are aligned to 8 bytes, x to 16
//   oracle  mul_mat_vec_pq2_0_f32 of the same weights as a file has them, bit for bit
//
// It is mul_mat_vec.cu for one token with other loads: 34-byte blocks begin at even addresses and take 16-bit loads, codes alone take
// 64-bit loads. The difference between the two is what the layout of the file costs.
#include "formats.cuh"

#define WARPS 8
#define ROWS_OF_WARP 4
// As in mul_mat_vec.cu.
#define STAGE 1024
#define PADDED(four) ((four) + (four) / 8)
#define STAGE_BYTES (PADDED(STAGE) * 16)

extern __shared__ float smem[];

// 32 codes and their scale.
struct Piece {
    uint2 q;
    u16 d;
    __device__ __forceinline__ void load(const uint2* codes, const u16* scales, int piece) {
        q = codes[piece];
        d = scales[piece / 4];
    }
};

// Four codes minus one where they lie in the word: the code at bit 2 j is the code times 4^j.
__device__ __forceinline__ float4 factors(const Piece& piece, int group) {
    const u32 of = group < 4 ? piece.q.x : piece.q.y;
    const u32 word = group % 4 < 2 ? of : of >> 16;
    float v[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int bit = 2 * (4 * (group % 2) + j);
        v[j] = __uint_as_float((word & 3u << bit) | 0x4b000000u) - (8388608.0f + (float)(1 << bit));
    }
    return make_float4(v[0], v[1], v[2], v[3]);
}

extern "C" __global__ void __launch_bounds__(256) mul_mat_vec_split_f32(
    float* __restrict__ y, const u8* __restrict__ codes, const u16* __restrict__ scales, const float* __restrict__ x, int n_out, int n_in) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, n_pieces = n_in / PIECE, n_fours = n_in / 4;
    const int first = (blockIdx.x * WARPS + warp) * ROWS_OF_WARP;
    float4* const xs = (float4*)smem; // [PADDED(STAGE)]
    const uint2* of_codes[ROWS_OF_WARP];
    const u16* of_scales[ROWS_OF_WARP];
    Piece next[ROWS_OF_WARP];
    float sums[ROWS_OF_WARP];
#pragma unroll
    for (int r = 0; r < ROWS_OF_WARP; r++) {
        const long long row = min(first + r, n_out - 1); // a row that does not exist is not stored
        of_codes[r] = (const uint2*)(codes + row * (n_in / 4));
        of_scales[r] = scales + row * (n_in / 128);
        if (lane < n_pieces) next[r].load(of_codes[r], of_scales[r], lane);
        sums[r] = 0.0f;
    }
    for (int stage = 0; stage < n_fours; stage += STAGE) {
        __syncthreads();
        for (int four = threadIdx.x; four < STAGE; four += WARPS * WARP) {
            if (stage + four >= n_fours) continue;
            const float4 v = ((const float4*)x)[stage + four];
            const float scale = four % 2 ? 1.0f / 256.0f : 1.0f; // makes up for the place of a code in its word
            xs[PADDED(four)] = make_float4(v.x * scale, v.y * (scale / 4.0f), v.z * (scale / 16.0f), v.w * (scale / 64.0f));
        }
        __syncthreads();
        const int end = min(n_pieces, (stage + STAGE) / GROUPS);
        for (int piece = stage / GROUPS + lane; piece < end; piece += WARP) {
            Piece now[ROWS_OF_WARP];
            float parts[ROWS_OF_WARP];
#pragma unroll
            for (int r = 0; r < ROWS_OF_WARP; r++) {
                now[r] = next[r];
                if (piece + WARP < n_pieces) next[r].load(of_codes[r], of_scales[r], piece + WARP);
            }
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                const float4 v = xs[PADDED(GROUPS * piece + group - stage)];
#pragma unroll
                for (int r = 0; r < ROWS_OF_WARP; r++) {
                    const float4 w = factors(now[r], group);
                    float part = group == 0 ? w.x * v.x : fmaf(w.x, v.x, parts[r]);
                    part = fmaf(w.y, v.y, part);
                    part = fmaf(w.z, v.z, part);
                    parts[r] = fmaf(w.w, v.w, part);
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS_OF_WARP; r++) sums[r] = fmaf(f16_to_f32(now[r].d), parts[r], sums[r]);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS_OF_WARP; r++) {
        const float sum = warp_sum(sums[r]);
        if (lane == 0 && first + r < n_out) y[first + r] = sum;
    }
}
