// The k largest values of each row with their indices, the largest first, of equal ones the lowest index first. A NaN comes before all.
//
//   top_k_first:  the k best candidates among each 2048 values of a row
//   top_k_merge:  the k best among each 2048 candidates, as often as there are more than 2048
//   top_k:        the k best of up to 2048 candidates, as values and indices
//
//   x       [rows, n], f32;  candidates  [rows, count], as candidate.cuh has them;  to  [rows, ceil(count / 2048), k]
//   values  [rows, k], f32;  ids  [rows, k], i32
//   grid    (groups of 2048, rows) of 256 threads; k <= 64
//   oracle  a stable sort, exact
#include "candidate.cuh"

#define GROUP 2048

// Sorts the first `size` items, a power of two, the largest first (bitonic). Begins and ends with a barrier.
__device__ __forceinline__ void sort_items(u64* items, int size) {
    for (int run = 2; run <= size; run <<= 1) {
        for (int stride = run >> 1; stride > 0; stride >>= 1) {
            __syncthreads();
            for (int pair = threadIdx.x; pair < size / 2; pair += blockDim.x) {
                const int low = (pair & ~(stride - 1)) * 2 + (pair & (stride - 1)), high = low + stride;
                const u64 a = items[low], b = items[high];
                // Runs are sorted downwards and upwards in turn.
                if ((a < b) == ((low & run) == 0)) items[low] = b, items[high] = a;
            }
        }
    }
    __syncthreads();
}

// The smallest power of two that is at least n and 2.
__device__ __forceinline__ int power_of_two(int n) {
    int size = 2;
    while (size < n) size <<= 1;
    return size;
}

// Sorts the calling block's group of a row of `count` items, item i of which is `get(i)`.
template <class Get> __device__ __forceinline__ void sort_group(u64* items, int count, Get get) {
    const int begin = blockIdx.x * GROUP, n = min(count - begin, GROUP), size = power_of_two(n);
    for (int i = threadIdx.x; i < size; i += blockDim.x) items[i] = i < n ? get(begin + i) : 0;
    sort_items(items, size);
}

// The best k of a group; 0 where it has fewer.
__device__ __forceinline__ void store_best(u64* to, const u64* items, int count, int k) {
    const int n = min(count - (int)blockIdx.x * GROUP, GROUP);
    for (int i = threadIdx.x; i < k; i += blockDim.x) to[(blockIdx.y * gridDim.x + blockIdx.x) * k + i] = i < n ? items[i] : 0;
}

extern "C" __global__ void __launch_bounds__(256) top_k_first_f32(u64* __restrict__ to, const float* __restrict__ x, int n, int k) {
    __shared__ u64 items[GROUP];
    const float* row = x + (size_t)blockIdx.y * n;
    sort_group(items, n, [=](int i) { return candidate(row[i], i); });
    store_best(to, items, n, k);
}

extern "C" __global__ void __launch_bounds__(256)
top_k_merge_f32(u64* __restrict__ to, const u64* __restrict__ candidates, int count, int k) {
    __shared__ u64 items[GROUP];
    const u64* row = candidates + blockIdx.y * count;
    sort_group(items, count, [=](int i) { return row[i]; });
    store_best(to, items, count, k);
}

extern "C" __global__ void __launch_bounds__(256)
top_k_f32(float* __restrict__ values, int* __restrict__ ids, const u64* __restrict__ candidates, const float* __restrict__ x, int count, int n,
          int k) {
    __shared__ u64 items[GROUP];
    const u64* row = candidates + blockIdx.y * count;
    sort_group(items, count, [=](int i) { return row[i]; });
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
        const int id = index_of(items[i]);
        ids[blockIdx.y * k + i] = id;
        values[blockIdx.y * k + i] = x[(size_t)blockIdx.y * n + id];
    }
}
