// Four neighbouring values at a time.
//
// `wide` says that i, all sizes and strides are multiples of 4 and that the memory is aligned to 16 bytes; launchers decide it.
#pragma once
#include "common.cuh"

// v = x[i .. i+4]; 0 from n on.
__device__ __forceinline__ void load4(float* v, const float* x, int i, int n, int wide) {
    if (wide) {
        const float4 four = i < n ? *(const float4*)(x + i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++) v[j] = i + j < n ? x[i + j] : 0.0f;
    }
}

// y[i .. i+4] = v; nothing from n on.
__device__ __forceinline__ void store4(float* y, const float* v, int i, int n, int wide) {
    if (wide) {
        if (i < n) *(float4*)(y + i) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (i + j < n) y[i + j] = v[j];
    }
}
