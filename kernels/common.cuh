// What all kernels share: 16-bit conversions without a toolkit header, sums over a warp and a block.
//
// Kernels are compiled by NVRTC without any include path, and by a C++ compiler for the emulator (kernels/simt, which
// defines SIMT). What needs PTX has its twin for the emulator here, so that no kernel file needs an #ifdef. Both compilers leave
// a * b + c as it is written (--fmad=false, -ffp-contract=off): write fmaf where one rounding is meant.
#pragma once

#define WARP 32
#define ALL_LANES 0xffffffffu

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

// f16 and bf16 by their bits.
#ifdef SIMT
__device__ __forceinline__ float f16_to_f32(u16 bits) { return __half2float(__ushort_as_half(bits)); }
__device__ __forceinline__ u16 f32_to_f16(float x) { return __half_as_ushort(__float2half_rn(x)); }
#else
__device__ __forceinline__ float f16_to_f32(u16 bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
__device__ __forceinline__ u16 f32_to_f16(float x) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#endif

__device__ __forceinline__ float bf16_to_f32(u16 bits) { return __uint_as_float((u32)bits << 16); }
// To the nearest, ties to even; a NaN stays one.
__device__ __forceinline__ u16 f32_to_bf16(float x) {
    const u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (u16)(bits >> 16 | 64u);
    return (u16)((bits + (0x7fffu + (bits >> 16 & 1u))) >> 16);
}

// The sum over the lanes of a warp, in every lane: a butterfly, the same tree in each of them.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes >>= 1) x += __shfl_xor_sync(ALL_LANES, x, lanes);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes >>= 1) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, lanes));
    return x;
}

// The sum over a block of whole warps, in every thread. `partial` holds a float for each warp of the block; it may be used again
// once the caller has passed a barrier of its own.
__device__ __forceinline__ float block_sum(float x, float* partial) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, n_warps = blockDim.x / WARP;
    x = warp_sum(x);
    if (lane == 0) partial[warp] = x;
    __syncthreads();
    return warp_sum(lane < n_warps ? partial[lane] : 0.0f);
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

// What is smaller than every number (NVRTC has no INFINITY without a header).
#define MINUS_INFINITY __uint_as_float(0xff800000u)

// (x & mask) | bits in one instruction, which the compiler does not make of two constants.
#ifdef SIMT
__device__ __forceinline__ u32 and_or(u32 x, u32 mask, u32 bits) { return (x & mask) | bits; }
#else
__device__ __forceinline__ u32 and_or(u32 x, u32 mask, u32 bits) {
    u32 y;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(y) : "r"(x), "r"(mask), "r"(bits));
    return y;
}
#endif
