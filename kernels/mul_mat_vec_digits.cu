// Products of few tokens with two-bit weights, exact but for the sums over groups: by tensor cores, with activations in digits.
//
//   y[t][n] = scale * sum over groups of d_W scale_x sum_k (c[n][k] - 1) X[t][k] (+ residual[t][n])
//
//   W  [n_out, n_in] of PQ2_0, rows of blocks as in a file, one upon the other; digits, sums, scales of quantize_digits;
//   y, residual  [n_tokens, n_out], f32
//   Up to four matrices of one width share a launch, each with its y, rows and scale; the residual is the first one's.
//   grid  ceil(n_i / 16) blocks for each matrix, one upon the other, of n_warps warps
//   shared memory  STAGE_BYTES for each warp; twice that if there are more chunks of 1024 elements than warps
//   n_tokens  1..=8; n_in  a multiple of 1024; digits, sums, scales and W are aligned to 16 bytes
//   oracle  src/ops/mul_mat.rs
//
// A block makes 16 rows, its warps take chunks of 1024 columns in turn. A chunk is copied to shared memory as it lies, all of it at
// once; the bits of a word are then the operand: codes (q >> 2 s) & 3 of its four bytes are elements s, 4 + s, 8 + s, 12 + s, and a sum
// does not mind in which order it is made as long as the digits lie in it too. Sums of a digit over a group of 128 are integers.
#include "mma.cuh"
#include "products.cuh"

#define ROWS 16
#define GROUP 128
#define GROUPS_OF_CHUNK 8
#define CHUNK_BYTES (34 * GROUPS_OF_CHUNK)
#define STAGE_BYTES (ROWS * CHUNK_BYTES)
#define MAX_TOKENS 8

extern __shared__ float smem[]; // [n_warps][stages][STAGE_BYTES / 4], and at the end sums [n_warps][ROWS][MAX_TOKENS]

// The 272 bytes of a row are 17 copies: each half of the warp makes 16 of a row, and lanes 0 to 15 what is left of all rows. A row that
// does not exist is another one, and not stored.
__device__ __forceinline__ void copy_chunk(u8* stage, const u8* chunk, int row_bytes, int last_row) {
    const int lane = threadIdx.x % WARP, half = lane / ROWS, at = lane % ROWS * 16;
#pragma unroll
    for (int pair = 0; pair < ROWS / 2; pair++) {
        const int row = 2 * pair + half;
        cp_async_16(stage + row * CHUNK_BYTES + at, chunk + min(row, last_row) * row_bytes + at);
    }
    if (lane < ROWS) {
        cp_async_16(stage + lane * CHUNK_BYTES + 256, chunk + min(lane, last_row) * row_bytes + 256);
    }
    cp_async_commit();
}

// 32 codes of a row as words of operand a: quarter t of a block, bytes 2 + 8 t onwards. Blocks lie in pairs of 17 words.
__device__ __forceinline__ void codes_of(const u32* pair, bool is_odd, int t, u32 codes[8], float& d) {
    u32 q[2];
    if (is_odd) {
        d = f16_to_f32((u16)(pair[8] >> 16));
        q[0] = pair[9 + 2 * t], q[1] = pair[10 + 2 * t];
    } else {
        d = f16_to_f32((u16)pair[0]);
        const u32 middle = pair[2 * t + 1];
        q[0] = __funnelshift_r(pair[2 * t], middle, 16), q[1] = __funnelshift_r(middle, pair[2 * t + 2], 16);
    }
#pragma unroll
    for (int s = 0; s < 8; s++) codes[s] = q[s / 4] >> 2 * (s % 4) & 0x03030303u;
}

template <int PAIRS>
__device__ __forceinline__ void rows_times_pairs(const Weights& m, const u32* digits, const int* sums, const float* scales, int n_in, int n_tokens) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, n_warps = blockDim.x / WARP, g = lane / 4, t = lane % 4;
    const int n_groups = n_in / GROUP, n_chunks = n_groups / GROUPS_OF_CHUNK, row_bytes = n_groups * 34;
    const int stages = n_chunks > n_warps ? 2 : 1;
    u8* const mine = (u8*)smem + warp * stages * STAGE_BYTES;
    float acc[PAIRS][2] = {};
    const u8* const rows = m.w + (long long)m.block * ROWS * row_bytes;
    const int last_row = m.n_out - 1 - m.block * ROWS;
    if (warp < n_chunks) copy_chunk(mine, rows + warp * CHUNK_BYTES, row_bytes, last_row);
    int stage = 0;
    for (int chunk = warp; chunk < n_chunks; chunk += n_warps) {
        if (chunk + n_warps < n_chunks) {
            copy_chunk(mine + (stage ^ 1) * STAGE_BYTES, rows + (chunk + n_warps) * CHUNK_BYTES, row_bytes, last_row);
            cp_async_wait<1>();
        } else {
            cp_async_wait<0>();
        }
        __syncwarp();
        const u32* words = (const u32*)(mine + stage * STAGE_BYTES);
#pragma unroll 2
        for (int of_chunk = 0; of_chunk < GROUPS_OF_CHUNK; of_chunk++) {
            const int group = chunk * GROUPS_OF_CHUNK + of_chunk;
            u32 upper[8], lower[8];
            float d[2];
            const u32* pair = words + of_chunk / 2 * 17;
            codes_of(pair + g * (CHUNK_BYTES / 4), of_chunk % 2, t, upper, d[0]);
            codes_of(pair + (g + 8) * (CHUNK_BYTES / 4), of_chunk % 2, t, lower, d[1]);
#pragma unroll
            for (int p = 0; p < PAIRS; p++) {
                if (2 * p >= n_tokens) break;
                const int at = p * n_groups + group;
                uint4 b0 = make_uint4(0, 0, 0, 0), b1 = b0;
                if (2 * p + g / 4 < n_tokens) { // half of the columns are those of a second token
                    b0 = ((const uint4*)digits)[at * 64 + lane], b1 = ((const uint4*)digits)[at * 64 + 32 + lane];
                }
                const u32 b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
                const int2 zero = ((const int2*)sums)[at * 4 + t]; // codes count from 1
                int c[4] = {zero.x, zero.y, zero.x, zero.y};
#pragma unroll
                for (int s = 0; s < 8; s += 2) {
                    const u32 a[4] = {upper[s], lower[s], upper[s + 1], lower[s + 1]};
                    mma_m16n8k32_s8(c, a, b + s, c);
                }
                // Two digits, below 2^24; those of even t are worth 2^16 as much.
                const float scale = scales[at * 2 + t / 2] * (t % 2 ? 1.0f : 65536.0f);
                acc[p][0] = fmaf(d[0] * scale, (float)(c[0] * 256 + c[1]), acc[p][0]);
                acc[p][1] = fmaf(d[1] * scale, (float)(c[2] * 256 + c[3]), acc[p][1]);
            }
        }
        __syncwarp(); // the stage is free
        stage ^= 1;
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < PAIRS; p++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float sum = acc[p][r] + __shfl_xor_sync(ALL_LANES, acc[p][r], 1);
            if (t % 2 == 0) smem[(warp * ROWS + 8 * r + g) * MAX_TOKENS + 2 * p + t / 2] = sum;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < ROWS * n_tokens; i += blockDim.x) {
        const int row = i % ROWS, token = i / ROWS;
        if (m.block * ROWS + row >= m.n_out) continue;
        float sum = 0.0f;
        for (int of = 0; of < n_warps; of++) sum += smem[(of * ROWS + row) * MAX_TOKENS + token];
        store(m, m.block * ROWS + row, token, sum);
    }
}

// Up to two tokens.
extern "C" __global__ void __launch_bounds__(256, 4) mul_mat_vec_pq2_0_digits(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const u32* __restrict__ digits,
    const int* __restrict__ sums, const float* __restrict__ scales, const float* __restrict__ residual, int n0, int n1, int n2, int n3,
    int n_in, int n_tokens, float s0, float s1, float s2, float s3, int has_residual) {
    const Weights m = pick(ROWS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual);
    rows_times_pairs<1>(m, digits, sums, scales, n_in, n_tokens);
}

// Up to eight.
extern "C" __global__ void __launch_bounds__(256, 2) mul_mat_vec_pq2_0_digits_8(
    float* __restrict__ y0, float* __restrict__ y1, float* __restrict__ y2, float* __restrict__ y3, const u8* __restrict__ w0,
    const u8* __restrict__ w1, const u8* __restrict__ w2, const u8* __restrict__ w3, const u32* __restrict__ digits,
    const int* __restrict__ sums, const float* __restrict__ scales, const float* __restrict__ residual, int n0, int n1, int n2, int n3,
    int n_in, int n_tokens, float s0, float s1, float s2, float s3, int has_residual) {
    const Weights m = pick(ROWS, y0, y1, y2, y3, w0, w1, w2, w3, residual, n0, n1, n2, n3, s0, s1, s2, s3, has_residual);
    rows_times_pairs<4>(m, digits, sums, scales, n_in, n_tokens);
}
