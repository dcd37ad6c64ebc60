// Attention of single tokens: scores, softmax and values in one pass over the cells, the cells spread over blocks.
//
//   y[t][h] = sum_j p_j v[cell(j)][kh],  p = softmax_j(scale q[t][h] . k[cell(j)][kh]),  j in 0 .. n_kv[t],  kh = h / G
//   cell(j) = cells[first[t] + j] if is_listed, else first[t] + j
//
//   y, q         [n_tokens, n_head, head_dim], f32; G = n_head / n_head_kv <= 8
//   k, v         [n_cells, n_head_kv, head_dim], f32, or f16 or bf16 by their bits
//   n_kv, first  [n_tokens], i32, in device memory: a recorded launch runs at any position
//   cells        i32; any pointer if not is_listed
//   scratch      [n_tokens, n_head, n_splits, head_dim], what each split adds up; then [n_tokens, n_head, n_splits, 2], its largest
//                score and its denominator, f32
//   grid         x: n_splits; y: kv heads; z: tokens. 256 threads; dynamic shared memory: shared_floats() below
//                combine: x: heads; y: tokens; head_dim threads
//   align        16 bytes; head_dim 32, 64, 128 or 256
//   oracle       src/ops/mul_mat.rs (dot), src/ops/soft_max.rs
//
// A block reads the keys and values of one kv head once for all G heads of q. How many cells a split takes depends on n_kv[t] and
// n_splits alone; blocks without cells leave, and combine looks at the others, in order. Nothing visible: NaN.
#include "cache.cuh"
#include "splits.cuh"

#define THREADS 256
#define MAX_GROUP 8      // heads of q for a kv head: one for each warp
#define BATCH 4          // cells that a warp scores at a time
#define VALUES 4         // elements of a value that a thread adds up

extern __shared__ float smem[];

// Four sums over the lanes of a warp; the lane gets the one of index lane / 8.
__device__ __forceinline__ float warp_sum_of_four(const float (&x)[BATCH]) {
    const int lane = threadIdx.x % WARP;
    const bool upper = lane & 16, odd = lane & 8;
    const float a = __shfl_xor_sync(ALL_LANES, upper ? x[0] : x[2], 16) + (upper ? x[2] : x[0]);
    const float b = __shfl_xor_sync(ALL_LANES, upper ? x[1] : x[3], 16) + (upper ? x[3] : x[1]);
    float sum = __shfl_xor_sync(ALL_LANES, odd ? a : b, 8) + (odd ? b : a);
#pragma unroll
    for (int lanes = 4; lanes > 0; lanes >>= 1) sum += __shfl_xor_sync(ALL_LANES, sum, lanes);
    return sum;
}

template <int HD, class T>
__device__ __forceinline__ void attend(float* scratch, const float* q, const T* k, const T* v, const int* n_kv, const int* first,
                                       const int* cells, int n_head, int n_head_kv, int is_listed, float scale) {
    constexpr int PER = HD / WARP;                                         // elements of a key for a lane,
    constexpr int VEC = PER * sizeof(T) < 16 ? PER : 16 / (int)sizeof(T);  // as many of them side by side as one load takes
    constexpr int GROUPS = THREADS * VALUES / HD;                          // of threads that share the cells of a tile
    const int split = blockIdx.x, n_splits = gridDim.x, kv_head = blockIdx.y, t = blockIdx.z;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, group = n_head / n_head_kv;
    const int visible = n_kv[t], size = cells_of_split(visible, n_splits), begin = split * size;
    if (begin >= visible) return;  // the whole block
    const int end = min(begin + size, visible), origin = first[t];
    auto row = [&](const T* cache, int j) {
        const int cell = is_listed ? cells[origin + j] : origin + j;
        return cache + ((size_t)cell * n_head_kv + kv_head) * HD;
    };
    float* queries = smem;                              // [group, HD]
    float* scores = queries + MAX_GROUP * HD;           // twice [TILE, MAX_GROUP]: scores, then weights
    float* rescale = scores + 2 * TILE * MAX_GROUP;     // twice [MAX_GROUP]
    float* partial = rescale + 2 * MAX_GROUP;           // [GROUPS, HD]
    for (int i = threadIdx.x; i < group * HD; i += THREADS) queries[i] = q[((size_t)t * n_head + kv_head * group) * HD + i];
    for (int i = threadIdx.x; i < 2 * TILE * MAX_GROUP; i += THREADS) scores[i] = 0.0f;  // heads that there are not are read as well
    __syncthreads();

    float sums[MAX_GROUP][VALUES];
#pragma unroll
    for (int g = 0; g < MAX_GROUP; g++)
#pragma unroll
        for (int i = 0; i < VALUES; i++) sums[g][i] = 0.0f;
    float largest = MINUS_INFINITY, denominator = 0.0f;  // of head `warp`
    const int at = threadIdx.x % (HD / VALUES) * VALUES, share = threadIdx.x / (HD / VALUES);
    // Scores of one tile and weights of another never lie in the same half: two barriers for each tile are enough.
    int half = 0;
    for (int tile = begin; tile < end; tile += TILE, half ^= 1) {
        float* tile_scores = scores + half * TILE * MAX_GROUP;
        float* tile_rescale = rescale + half * MAX_GROUP;
#pragma unroll
        for (int c = warp * BATCH; c < TILE; c += THREADS / WARP * BATCH) {
            float keys[BATCH][PER];
#pragma unroll
            for (int u = 0; u < BATCH; u++) {
                // Behind the end the last cell is scored again; its score is not looked at.
                const T* key = row(k, min(tile + c + u, end - 1));
#pragma unroll
                for (int r = 0; r < PER / VEC; r++)
                    load_cells(*(float(*)[VEC])(keys[u] + r * VEC), key + (r * WARP + lane) * VEC);
            }
            for (int g = 0; g < group; g++) {
                float products[BATCH] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
                for (int r = 0; r < PER / VEC; r++) {
                    float query[VEC];
                    load_cells(query, queries + g * HD + (r * WARP + lane) * VEC);
#pragma unroll
                    for (int u = 0; u < BATCH; u++)
#pragma unroll
                        for (int i = 0; i < VEC; i++) products[u] = fmaf(query[i], keys[u][r * VEC + i], products[u]);
                }
                const float score = warp_sum_of_four(products) * scale;
                if (lane % 8 == 0) tile_scores[(c + lane / 8) * MAX_GROUP + g] = score;
            }
        }
        __syncthreads();
        if (warp < group) {
            float x[TILE / WARP], now = largest, sum = 0.0f;
#pragma unroll
            for (int i = 0; i < TILE / WARP; i++) {
                const int c = i * WARP + lane;
                x[i] = tile + c < end ? tile_scores[c * MAX_GROUP + warp] : MINUS_INFINITY;
                now = fmaxf(now, x[i]);
            }
            now = warp_max(now);
#pragma unroll
            for (int i = 0; i < TILE / WARP; i++) {
                const float weight = expf(x[i] - now);
                sum += weight;
                tile_scores[(i * WARP + lane) * MAX_GROUP + warp] = weight;
            }
            const float factor = expf(largest - now);
            if (lane == 0) tile_rescale[warp] = factor;
            denominator = fmaf(denominator, factor, warp_sum(sum));
            largest = now;
        }
        __syncthreads();
#pragma unroll
        for (int g = 0; g < MAX_GROUP; g++)
            if (g < group)
#pragma unroll
                for (int i = 0; i < VALUES; i++) sums[g][i] *= tile_rescale[g];
        const int n = min(TILE, end - tile);
#pragma unroll 4
        for (int c = share; c < n; c += GROUPS) {
            float value[VALUES], weight[MAX_GROUP];
            load_cells(value, row(v, tile + c) + at);
            load_cells(weight, tile_scores + c * MAX_GROUP);
#pragma unroll
            for (int g = 0; g < MAX_GROUP; g++)
                if (g < group)
#pragma unroll
                    for (int i = 0; i < VALUES; i++) sums[g][i] = fmaf(weight[g], value[i], sums[g][i]);
        }
    }
    const size_t row_0 = ((size_t)t * n_head + kv_head * group) * n_splits + split;
    float* numbers = scratch + (size_t)gridDim.z * n_head * n_splits * HD;
    if (warp < group && lane == 0) {
        numbers[(row_0 + (size_t)warp * n_splits) * 2] = largest;
        numbers[(row_0 + (size_t)warp * n_splits) * 2 + 1] = denominator;
    }
#pragma unroll
    for (int g = 0; g < MAX_GROUP; g++) {
        if (g < group) {
            __syncthreads();
#pragma unroll
            for (int i = 0; i < VALUES; i++) partial[share * HD + at + i] = sums[g][i];
            __syncthreads();
            for (int i = threadIdx.x; i < HD; i += THREADS) {
                float sum = 0.0f;
#pragma unroll
                for (int j = 0; j < GROUPS; j++) sum += partial[j * HD + i];
                scratch[(row_0 + (size_t)g * n_splits) * HD + i] = sum;
            }
        }
    }
}

template <class T>
__device__ __forceinline__ void attend_any(float* scratch, const float* q, const T* k, const T* v, const int* n_kv, const int* first,
                                           const int* cells, int n_head, int n_head_kv, int head_dim, int is_listed, float scale) {
    switch (head_dim) {
        case 32: attend<32>(scratch, q, k, v, n_kv, first, cells, n_head, n_head_kv, is_listed, scale); break;
        case 64: attend<64>(scratch, q, k, v, n_kv, first, cells, n_head, n_head_kv, is_listed, scale); break;
        case 128: attend<128>(scratch, q, k, v, n_kv, first, cells, n_head, n_head_kv, is_listed, scale); break;
        case 256: attend<256>(scratch, q, k, v, n_kv, first, cells, n_head, n_head_kv, is_listed, scale); break;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
flash_attn_decode_f32(float* __restrict__ scratch, const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                      const int* __restrict__ n_kv, const int* __restrict__ first, const int* __restrict__ cells, int n_head,
                      int n_head_kv, int head_dim, int is_listed, float scale) {
    attend_any(scratch, q, k, v, n_kv, first, cells, n_head, n_head_kv, head_dim, is_listed, scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
flash_attn_decode_f16(float* __restrict__ scratch, const float* __restrict__ q, const u16* __restrict__ k, const u16* __restrict__ v,
                      const int* __restrict__ n_kv, const int* __restrict__ first, const int* __restrict__ cells, int n_head,
                      int n_head_kv, int head_dim, int is_listed, float scale) {
    attend_any(scratch, q, (const F16*)k, (const F16*)v, n_kv, first, cells, n_head, n_head_kv, head_dim, is_listed, scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
flash_attn_decode_bf16(float* __restrict__ scratch, const float* __restrict__ q, const u16* __restrict__ k, const u16* __restrict__ v,
                       const int* __restrict__ n_kv, const int* __restrict__ first, const int* __restrict__ cells, int n_head,
                       int n_head_kv, int head_dim, int is_listed, float scale) {
    attend_any(scratch, q, (const Bf16*)k, (const Bf16*)v, n_kv, first, cells, n_head, n_head_kv, head_dim, is_listed, scale);
}

extern "C" __global__ void flash_attn_combine_f32(float* __restrict__ y, const float* __restrict__ scratch,
                                                  const int* __restrict__ n_kv, int n_splits) {
    const int h = blockIdx.x, n_head = gridDim.x, t = blockIdx.y, head_dim = blockDim.x, i = threadIdx.x;
    const int used = splits_with_cells(n_kv[t], n_splits);
    const size_t row = (size_t)t * n_head + h;
    const float* sums = scratch + row * n_splits * head_dim + i;
    const float* numbers = scratch + (size_t)gridDim.y * n_head * n_splits * head_dim + row * n_splits * 2;
    float largest = MINUS_INFINITY, sum = 0.0f, denominator = 0.0f;
#pragma unroll 8
    for (int split = 0; split < used; split++) largest = fmaxf(largest, numbers[split * 2]);
#pragma unroll 8
    for (int split = 0; split < used; split++) {
        const float factor = expf(numbers[split * 2] - largest);
        denominator = fmaf(numbers[split * 2 + 1], factor, denominator);
        sum = fmaf(sums[(size_t)split * head_dim], factor, sum);
    }
    y[row * head_dim + i] = sum / denominator;
}
