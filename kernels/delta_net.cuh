// A row of the delta net's state in the registers of a few lanes. Shared by every kernel of the recurrence, so that all of them add
// up in the same order.
#pragma once
#include "common.cuh"

// Row j of S [D, D] over LANES lanes: groups of VEC neighbouring elements, LANES groups side by side, REPEAT times.
template <int D>
struct DeltaRow {
    static constexpr int LANES = D <= 16 ? 4 : 8;
    static constexpr int PER = D / LANES;
    static constexpr int VEC = PER < 4 ? PER : 4;
    static constexpr int REPEAT = PER / VEC;

    static __device__ __forceinline__ void load(float (&x)[PER], const float* row, int lane) {
#pragma unroll
        for (int r = 0; r < REPEAT; r++) {
            const float* from = row + (r * LANES + lane) * VEC;
            if constexpr (VEC == 4) {
                const float4 y = *(const float4*)from;
                x[4 * r] = y.x, x[4 * r + 1] = y.y, x[4 * r + 2] = y.z, x[4 * r + 3] = y.w;
            } else {
                const float2 y = *(const float2*)from;
                x[0] = y.x, x[1] = y.y;
            }
        }
    }

    static __device__ __forceinline__ void store(float* row, const float (&x)[PER], int lane) {
#pragma unroll
        for (int r = 0; r < REPEAT; r++) {
            float* to = row + (r * LANES + lane) * VEC;
            if constexpr (VEC == 4) {
                *(float4*)to = make_float4(x[4 * r], x[4 * r + 1], x[4 * r + 2], x[4 * r + 3]);
            } else {
                *(float2*)to = make_float2(x[0], x[1]);
            }
        }
    }

    // The sum over the lanes of a row, in each of them.
    static __device__ __forceinline__ float sum(float x) {
#pragma unroll
        for (int lanes = LANES / 2; lanes > 0; lanes >>= 1) x += __shfl_xor_sync(ALL_LANES, x, lanes);
        return x;
    }

    // Four sums side by side, as far as there are four: a shorter chain of dependent additions.
    static __device__ __forceinline__ float dot(const float (&x)[PER], const float (&y)[PER]) {
        float sums[VEC];
#pragma unroll
        for (int i = 0; i < VEC; i++) sums[i] = x[i] * y[i];
#pragma unroll
        for (int i = VEC; i < PER; i++) sums[i % VEC] = fmaf(x[i], y[i], sums[i % VEC]);
        if constexpr (VEC == 4) return sum((sums[0] + sums[2]) + (sums[1] + sums[3]));
        return sum(sums[0] + sums[1]);
    }

    // One token: decays, predicts, corrects, reads. Returns S q for this row.
    static __device__ __forceinline__ float step(float (&s)[PER], const float (&q)[PER], const float (&k)[PER], float v,
                                                 float decay, float beta) {
#pragma unroll
        for (int i = 0; i < PER; i++) s[i] = s[i] * decay;
        const float delta = (v - dot(s, k)) * beta;
#pragma unroll
        for (int i = 0; i < PER; i++) s[i] = fmaf(k[i], delta, s[i]);
        return dot(s, q);
    }
};
