// A value and its index as one number that can be compared: the larger value is the larger number, of equal ones the one that comes first.
//
//   bits 63 .. 32  the value's bits in an order that unsigned numbers have: negative ones inverted, the sign of others set; -0 is 0
//   bits 31 .. 0   ~index
//
// A NaN is larger than everything, so that it is not overlooked. 0 is smaller than every candidate.
#pragma once
#include "common.cuh"

typedef unsigned long long u64;

#define NAN_KEY 0xffffffffu

__device__ __forceinline__ u64 candidate(float x, int index) {
    const u32 bits = __float_as_uint(x + 0.0f);  // -0 + 0 is 0
    const u32 key = x != x ? NAN_KEY : bits >> 31 ? ~bits : bits | 0x80000000u;
    return (u64)key << 32 | ~(u32)index;
}

__device__ __forceinline__ bool is_nan(u64 candidate) { return (u32)(candidate >> 32) == NAN_KEY; }
__device__ __forceinline__ int index_of(u64 candidate) { return (int)~(u32)candidate; }

// The best of a warp, in every lane.
__device__ __forceinline__ u64 warp_best(u64 best) {
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes >>= 1) best = max(best, __shfl_xor_sync(ALL_LANES, best, lanes));
    return best;
}
