// What the splits of decode attention left, combined, gated and folded.
//
//   x_i = sum_s f_s sums_si / sum_s f_s denominator_s,  f_s = exp(largest_s - max_s largest_s)   s: the splits of head i / head_dim
//   y_i = x_i sigmoid(gate_i), the gate inside rows of (query, gate) pairs of heads;  folded = H (signs . y)
//
//   y, folded  [rows, n], f32, n = n_head head_dim; y may be null
//   scratch    of flash_attn_decode.cu for as many tokens and splits, on 16 bytes; splits without cells are not read
//   q_full     [rows, n_head, 2, head_dim], the gates second; head_dim is 32, 64, 128 or 256
//   n_kv       [rows], i32, in device memory
//   signs, H   as fold.cu, for blocks of up to 4096 values
//   grid       (rows, parts of a row of `part` values); part: a multiple of 256 and of the block of H; threads: whole warps, and at least
//              part / 8; as many as part / 4 have four values each of what is combined
//   shared     32 bytes per thread
//   wide       16 bytes at a time: f32 buffers lie on 16 bytes, signs on 4
//   oracle     the kernels flash_attn_combine, sigmoid_mul and fold one after the other, bit for bit
#include "splits.cuh"
#include "wht.cuh"

#define BATCH 8  // splits whose sums are on their way at a time; the lanes of a head are a multiple

extern __shared__ float smem[];

// Four neighbouring values of a head; `sums` and `numbers` are those of its first split. As many lanes as have values of the head, or
// the warp, take the factors of one split each and pass them on. All lanes of a warp must call it.
__device__ __forceinline__ void combine(float* v, const float* sums, const float* numbers, int used, int head_dim) {
    const int lanes = min(WARP, head_dim / 4), lane = threadIdx.x % lanes, first_lane = threadIdx.x % WARP - lane;
    float largest = MINUS_INFINITY, denominator = 0.0f;
    for (int split = lane; split < used; split += lanes) largest = fmaxf(largest, numbers[split * 2]);
    for (int by = lanes / 2; by > 0; by >>= 1) largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, by));
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] = 0.0f;
    for (int begin = 0; begin < used; begin += lanes) {
        const int own = begin + lane, n = min(lanes, used - begin);
        float own_factor = 0.0f, own_denominator = 0.0f;
        if (own < used) own_factor = expf(numbers[own * 2] - largest), own_denominator = numbers[own * 2 + 1];
        for (int split = 0; split < n; split += BATCH) {
            float4 four[BATCH];
#pragma unroll
            for (int u = 0; u < BATCH; u++)
                four[u] = split + u < n ? *(const float4*)(sums + (size_t)(begin + split + u) * head_dim) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            // Splits that are not there have a factor and a denominator of 0.
#pragma unroll
            for (int u = 0; u < BATCH; u++) {
                const float factor = __shfl_sync(ALL_LANES, own_factor, first_lane + split + u);
                const float of_split = __shfl_sync(ALL_LANES, own_denominator, first_lane + split + u);
                denominator = fmaf(of_split, factor, denominator);
                v[0] = fmaf(four[u].x, factor, v[0]);
                v[1] = fmaf(four[u].y, factor, v[1]);
                v[2] = fmaf(four[u].z, factor, v[2]);
                v[3] = fmaf(four[u].w, factor, v[3]);
            }
        }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] /= denominator;
}

extern "C" __global__ void __launch_bounds__(512)
attn_combine_fold_f32(float* __restrict__ y, float* __restrict__ folded, const float* __restrict__ scratch, const float* __restrict__ q_full,
                      const i8* __restrict__ signs, const int* __restrict__ n_kv, int n, int part, int log_block, int head_dim, int n_splits,
                      int wide, float scale) {
    const int t = blockIdx.x, first = blockIdx.y * part, end = min(first + part, n);
    const int used = splits_with_cells(n_kv[t], n_splits);
    const size_t row = (size_t)t * n;
    const float* numbers = scratch + (size_t)gridDim.x * n * n_splits;
    for (int at = 4 * threadIdx.x; at < part; at += 4 * blockDim.x) {
        const int i = min(first + at, n - 4);  // lanes behind the row help with its last head, and store nothing
        const int head = i / head_dim;
        const size_t split_0 = ((size_t)t * (n / head_dim) + head) * n_splits;
        float v[4], gate[4];
        // Value i of head h has its gate h + 1 heads further on.
        load4(gate, q_full + 2 * row + (head + 1) * head_dim, i, n, wide);
        combine(v, scratch + split_0 * head_dim + i % head_dim, numbers + split_0 * 2, used, head_dim);
#pragma unroll
        for (int j = 0; j < 4; j++) v[j] *= sigmoid(gate[j]);
        if (first + at >= n) continue;
        if (y) store4(y + row, v, i, n, wide);
        store4(smem, v, at, part, 1);
    }
    __syncthreads();
    // Threads behind the part transform zeros, which nobody stores.
    const int chunk = threadIdx.x / WARP * CHUNK;
    float v[PER_THREAD];
    load_chunk(v, smem, chunk, end - first, 1);
    apply_signs(v, signs, first + chunk, end, wide);
    // What a thread has read it alone overwrites before the next barrier.
    const int layout = wht(v, smem, log_block, scale);
    store_wht(folded + row, v, first, end, layout, log_block, wide);
}
