// Elements of a cache of keys and values: f32, f16 or bf16.
#pragma once
#include "common.cuh"

// Types of their own, so that kernels are templates over what a cell holds.
struct F16 { u16 bits; };
struct Bf16 { u16 bits; };

__device__ __forceinline__ float of_cell(float x) { return x; }
__device__ __forceinline__ float of_cell(F16 x) { return f16_to_f32(x.bits); }
__device__ __forceinline__ float of_cell(Bf16 x) { return bf16_to_f32(x.bits); }

template <class T> __device__ __forceinline__ T to_cell(float x);
template <> __device__ __forceinline__ float to_cell<float>(float x) { return x; }
template <> __device__ __forceinline__ F16 to_cell<F16>(float x) { return {f32_to_f16(x)}; }
template <> __device__ __forceinline__ Bf16 to_cell<Bf16>(float x) { return {f32_to_bf16(x)}; }

// N neighbouring elements, N even, from an address that is a multiple of min(16, N * size) bytes.
template <int N>
__device__ __forceinline__ void load_cells(float (&to)[N], const float* from) {
    if constexpr (N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const float4 x = *(const float4*)(from + i);
            to[i] = x.x, to[i + 1] = x.y, to[i + 2] = x.z, to[i + 3] = x.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) to[i] = from[i];
    }
}
__device__ __forceinline__ float low_half(u32 pair, F16) { return f16_to_f32((u16)pair); }
__device__ __forceinline__ float high_half(u32 pair, F16) { return f16_to_f32((u16)(pair >> 16)); }
__device__ __forceinline__ float low_half(u32 pair, Bf16) { return bf16_to_f32((u16)pair); }
__device__ __forceinline__ float high_half(u32 pair, Bf16) { return bf16_to_f32((u16)(pair >> 16)); }
template <int N, class T>
__device__ __forceinline__ void load_cells(float (&to)[N], const T* from) {
    if constexpr (N % 8 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 8) {
            const uint4 x = *(const uint4*)(from + i);
            to[i] = low_half(x.x, T()), to[i + 1] = high_half(x.x, T());
            to[i + 2] = low_half(x.y, T()), to[i + 3] = high_half(x.y, T());
            to[i + 4] = low_half(x.z, T()), to[i + 5] = high_half(x.z, T());
            to[i + 6] = low_half(x.w, T()), to[i + 7] = high_half(x.w, T());
        }
    } else if constexpr (N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const uint2 x = *(const uint2*)(from + i);
            to[i] = low_half(x.x, T()), to[i + 1] = high_half(x.x, T());
            to[i + 2] = low_half(x.y, T()), to[i + 3] = high_half(x.y, T());
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) to[i] = of_cell(from[i]);
    }
}
