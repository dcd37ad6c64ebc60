// Attention of many tokens of each sequence: tiles of queries against tiles of cells, scores never in device memory.
//
//   y[s][t][h] = sum_j p_j v[cell(j)][kh],  p = softmax_j(scale q[s][t][h] . k[cell(j)][kh]),  j in 0 .. n_past[s] + t + 1
//   cell(j) = cells[first[s] + j] if is_listed, else first[s] + j:  the cells of sequence s in the order of their positions
//
//   y, q           [n_seqs, n_tokens, n_head, head_dim], f32; G = n_head / n_head_kv, kh = h / G
//   k, v           [n_cells, n_head_kv, head_dim], f32, or f16 or bf16 by their bits; the new tokens' are in it
//   n_past, first  [n_seqs], i32;  cells i32, any pointer if not is_listed
//   grid           x: ceil(n_tokens G / ROWS); y: kv heads; z: sequences. 256 threads; dynamic shared memory:
//                  ROWS head_dim + CELLS (head_dim + PAD) + ROWS (CELLS + 1) + ROWS floats
//   align          16 bytes; head_dim 32, 64, 128 or 256
//   oracle         src/ops/mul_mat.rs (dot), src/ops/soft_max.rs
//
// A row is a token and one of the G heads that read a kv head: r = t G + g, so short prompts fill tiles too.
#include "cache.cuh"

#define THREADS 256
#define ROWS 32
#define CELLS 32  // of a tile: a lane each
#define PAD 4     // floats behind each key, so that neighbouring ones begin in other banks

extern __shared__ float smem[];

template <int HD, class T>
__device__ __forceinline__ void attend(float* y, const float* q, const T* k, const T* v, const int* n_past, const int* first,
                                       const int* cells, int n_tokens, int n_head, int n_head_kv, int is_listed, float scale) {
    constexpr int COLUMNS = HD / 4 < WARP ? HD / 4 : WARP;  // threads side by side in a row of y, four elements each,
    constexpr int REPEAT = HD / 4 / COLUMNS;                // this many times
    constexpr int MINE = ROWS * COLUMNS / THREADS;          // rows of y for a thread
    constexpr int STRIDE = HD + PAD;
    const int kv_head = blockIdx.y, s = blockIdx.z, group = n_head / n_head_kv, n_rows = n_tokens * group;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, row_0 = blockIdx.x * ROWS;
    const int past = n_past[s], origin = first[s];
    const int end = past + min(row_0 + ROWS - 1, n_rows - 1) / group + 1;  // cells that the block's last row sees
    float* queries = smem;                        // [ROWS, HD]
    float* tile = queries + ROWS * HD;            // [CELLS, STRIDE]: keys, then values
    float* scores = tile + CELLS * STRIDE;        // [ROWS, CELLS + 1]
    float* rescale = scores + ROWS * (CELLS + 1); // [ROWS]
    // Where row r begins in q and y.
    auto row = [&](int r) {
        return (((size_t)s * n_tokens + r / group) * n_head + kv_head * group + r % group) * HD;
    };
    auto load_tile = [&](const T* cache, int j_0) {
        for (int i = threadIdx.x; i < CELLS * HD / 4; i += THREADS) {
            const int c = i / (HD / 4), at = i % (HD / 4) * 4, j = j_0 + c;
            float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            if (j < end) {
                const int cell = is_listed ? cells[origin + j] : origin + j;
                load_cells(x, cache + ((size_t)cell * n_head_kv + kv_head) * HD + at);
            }
            *(float4*)(tile + c * STRIDE + at) = make_float4(x[0], x[1], x[2], x[3]);
        }
    };
    for (int i = threadIdx.x; i < ROWS * HD / 4; i += THREADS) {
        const int r = i / (HD / 4), at = i % (HD / 4) * 4;
        const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        *(float4*)(queries + r * HD + at) = row_0 + r < n_rows ? *(const float4*)(q + row(row_0 + r) + at) : zero;
    }

    constexpr int OF_WARP = ROWS / (THREADS / WARP);  // rows whose softmax a warp keeps
    float largest[OF_WARP], denominator[OF_WARP], sums[MINE][REPEAT][4];
#pragma unroll
    for (int i = 0; i < OF_WARP; i++) largest[i] = MINUS_INFINITY, denominator[i] = 0.0f;
#pragma unroll
    for (int m = 0; m < MINE; m++)
#pragma unroll
        for (int i = 0; i < REPEAT; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) sums[m][i][j] = 0.0f;
    const int column = threadIdx.x % COLUMNS, mine = threadIdx.x / COLUMNS * MINE;
    const int score_row = threadIdx.x / 16 * 2, score_cell = threadIdx.x % 16;

    for (int j_0 = 0; j_0 < end; j_0 += CELLS) {
        __syncthreads();
        load_tile(k, j_0);
        __syncthreads();
        float products[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
#pragma unroll 4
        for (int i = 0; i < HD; i += 4) {
            float a[2][4], b[2][4];
#pragma unroll
            for (int u = 0; u < 2; u++) {
                load_cells(a[u], queries + (score_row + u) * HD + i);
                load_cells(b[u], tile + (score_cell + 16 * u) * STRIDE + i);
            }
#pragma unroll
            for (int u = 0; u < 2; u++)
#pragma unroll
                for (int w = 0; w < 2; w++)
#pragma unroll
                    for (int x = 0; x < 4; x++) products[u][w] = fmaf(a[u][x], b[w][x], products[u][w]);
        }
#pragma unroll
        for (int u = 0; u < 2; u++)
#pragma unroll
            for (int w = 0; w < 2; w++)
                scores[(score_row + u) * (CELLS + 1) + score_cell + 16 * w] = products[u][w] * scale;
        __syncthreads();
        load_tile(v, j_0);
#pragma unroll
        for (int i = 0; i < OF_WARP; i++) {
            const int r = warp * OF_WARP + i;
            float* score = scores + r * (CELLS + 1) + lane;
            const float x = j_0 + lane <= past + (row_0 + r) / group ? *score : MINUS_INFINITY;
            const float now = fmaxf(largest[i], warp_max(x));
            // A row that has seen nothing yet has nothing to rescale; the first tile holds a cell for every row.
            const float weight = expf(x - now), factor = expf(largest[i] - now);
            *score = weight;
            if (lane == 0) rescale[r] = factor;
            denominator[i] = fmaf(denominator[i], factor, warp_sum(weight));
            largest[i] = now;
        }
        __syncthreads();
#pragma unroll
        for (int m = 0; m < MINE; m++) {
            const float factor = rescale[mine + m];
#pragma unroll
            for (int i = 0; i < REPEAT; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) sums[m][i][j] *= factor;
        }
#pragma unroll 4
        for (int c = 0; c < CELLS; c++) {
            float value[REPEAT][4];
#pragma unroll
            for (int i = 0; i < REPEAT; i++) load_cells(value[i], tile + c * STRIDE + (i * COLUMNS + column) * 4);
#pragma unroll
            for (int m = 0; m < MINE; m++) {
                const float weight = scores[(mine + m) * (CELLS + 1) + c];
#pragma unroll
                for (int i = 0; i < REPEAT; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++) sums[m][i][j] = fmaf(weight, value[i][j], sums[m][i][j]);
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < OF_WARP; i++)
        if (lane == 0) rescale[warp * OF_WARP + i] = denominator[i];
    __syncthreads();
#pragma unroll
    for (int m = 0; m < MINE; m++) {
        if (row_0 + mine + m >= n_rows) break;
        const float sum = rescale[mine + m];
        float* to = y + row(row_0 + mine + m) + column * 4;
#pragma unroll
        for (int i = 0; i < REPEAT; i++)
            *(float4*)(to + i * COLUMNS * 4) =
                make_float4(sums[m][i][0] / sum, sums[m][i][1] / sum, sums[m][i][2] / sum, sums[m][i][3] / sum);
    }
}

template <class T>
__device__ __forceinline__ void attend_any(float* y, const float* q, const T* k, const T* v, const int* n_past, const int* first,
                                           const int* cells, int n_tokens, int n_head, int n_head_kv, int head_dim, int is_listed,
                                           float scale) {
    switch (head_dim) {
        case 32: attend<32>(y, q, k, v, n_past, first, cells, n_tokens, n_head, n_head_kv, is_listed, scale); break;
        case 64: attend<64>(y, q, k, v, n_past, first, cells, n_tokens, n_head, n_head_kv, is_listed, scale); break;
        case 128: attend<128>(y, q, k, v, n_past, first, cells, n_tokens, n_head, n_head_kv, is_listed, scale); break;
        case 256: attend<256>(y, q, k, v, n_past, first, cells, n_tokens, n_head, n_head_kv, is_listed, scale); break;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
flash_attn_prefill_f32(float* __restrict__ y, const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                       const int* __restrict__ n_past, const int* __restrict__ first, const int* __restrict__ cells, int n_tokens,
                       int n_head, int n_head_kv, int head_dim, int is_listed, float scale) {
    attend_any(y, q, k, v, n_past, first, cells, n_tokens, n_head, n_head_kv, head_dim, is_listed, scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
flash_attn_prefill_f16(float* __restrict__ y, const float* __restrict__ q, const u16* __restrict__ k, const u16* __restrict__ v,
                       const int* __restrict__ n_past, const int* __restrict__ first, const int* __restrict__ cells, int n_tokens,
                       int n_head, int n_head_kv, int head_dim, int is_listed, float scale) {
    attend_any(y, q, (const F16*)k, (const F16*)v, n_past, first, cells, n_tokens, n_head, n_head_kv, head_dim, is_listed, scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
flash_attn_prefill_bf16(float* __restrict__ y, const float* __restrict__ q, const u16* __restrict__ k, const u16* __restrict__ v,
                        const int* __restrict__ n_past, const int* __restrict__ first, const int* __restrict__ cells, int n_tokens,
                        int n_head, int n_head_kv, int head_dim, int is_listed, float scale) {
    attend_any(y, q, (const Bf16*)k, (const Bf16*)v, n_past, first, cells, n_tokens, n_head, n_head_kv, head_dim, is_listed, scale);
}
