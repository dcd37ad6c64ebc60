// Correct kernels: the vocabulary that the kernels of the engine do not use yet, or use where a mistake would not show.
#include "../../kernels/common.cuh"

extern "C" __global__ void sum_atomic(float* out, const float* x) { atomicAdd(out, x[blockIdx.x * blockDim.x + threadIdx.x]); }

// Each of the others, on words of their own.
extern "C" __global__ void atomics(int* out) {
    const int i = threadIdx.x;
    atomicMax(out + 0, i);
    atomicMin(out + 1, i);
    atomicOr(out + 2, 1 << i);
    atomicAnd(out + 3, ~(1 << i));
    atomicXor(out + 4, 1 << i);
    atomicSub(out + 5, i);
    for (int seen = 0;;) {  // the product of 1 + i % 2, by compare and swap
        const int old = atomicCAS(out + 6, seen, seen == 0 ? 1 + i % 2 : seen * (1 + i % 2));
        if (old == seen) break;
        seen = old;
    }
}

extern "C" __global__ void reverse_in_warp(float* out, const float* x) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    out[threadIdx.x] = s[31 - threadIdx.x];
}

extern "C" __global__ void votes(u32* out) {
    const int lane = threadIdx.x;
    u32* o = out + lane * 10;
    o[0] = __ballot_sync(ALL_LANES, lane % 3 == 0);
    o[1] = __reduce_add_sync(lane < 16 ? 0x0000ffffu : 0xffff0000u, lane);  // two groups of lanes at once
    o[2] = __reduce_max_sync(ALL_LANES, -lane);
    o[3] = __reduce_min_sync(ALL_LANES, -lane);
    o[4] = __reduce_max_sync(ALL_LANES, (u32)lane + 5u);
    o[5] = __reduce_or_sync(ALL_LANES, lane == 7 ? 0x80u : 1u);
    o[6] = __any_sync(ALL_LANES, lane == 31) << 1 | __all_sync(ALL_LANES, lane < 31);
    o[7] = __syncthreads_count(lane < 5);
    o[8] = __syncthreads_or(lane == 40);
    o[9] = __syncthreads_and(lane < 32);
}

extern "C" __global__ void shuffles(int* out) {
    const int lane = threadIdx.x;
    int* o = out + lane * 6;
    o[0] = __shfl_up_sync(ALL_LANES, lane, 3);
    o[1] = __shfl_down_sync(ALL_LANES, lane, 3);
    o[2] = __shfl_sync(ALL_LANES, lane, 2, 8);
    o[3] = __shfl_xor_sync(ALL_LANES, lane, 5);
    o[4] = __shfl_down_sync(ALL_LANES, lane, 1, 4);
    o[5] = (int)__shfl_xor_sync(ALL_LANES, (double)lane, 16);
}

extern "C" __global__ void grid_3d(u32* out) {
    const u32 t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const u32 b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    out[b * blockDim.x * blockDim.y * blockDim.z + t] = b * 1000 + t;
}

template <class T> __device__ T block_max(T v) {
    __shared__ T best[32];
    for (int o = 16; o > 0; o >>= 1) v = max(v, __shfl_xor_sync(ALL_LANES, v, o));
    if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = v;
    __syncthreads();
    v = best[threadIdx.x % (blockDim.x / 32)];
    for (int o = 16; o > 0; o >>= 1) v = max(v, __shfl_xor_sync(ALL_LANES, v, o));
    return v;
}
extern "C" __global__ void templates(float* f, int* i) {
    const float a = block_max<float>((float)(threadIdx.x * 37 % 101));
    const int b = block_max<int>((int)(threadIdx.x * 53 % 103));
    if (threadIdx.x == 0) {
        *f = a;
        *i = b;
    }
}

__constant__ float powers[4] = {1.0f, 2.0f, 4.0f, 8.0f};
extern "C" __global__ void constants(float* out) { out[threadIdx.x] = powers[threadIdx.x & 3]; }

// f16 of every pattern to f32 and back; bf16 of the same bits.
extern "C" __global__ void halves(u32* out) {
    const u32 bits = blockIdx.x * blockDim.x + threadIdx.x;
    const u16 f16 = f32_to_f16(f16_to_f32((u16)bits)), bf16 = f32_to_bf16(bf16_to_f32((u16)bits));
    out[bits] = (u32)bf16 << 16 | f16;
}

extern "C" __global__ void integers(int* out) {
    const int i = threadIdx.x;
    int* o = out + i * 8;
    o[0] = __dp4a(0x01ff807f, 0x02030405, i);  // 1*2 + -1*3 + -128*4 + 127*5
    o[1] = __popc(i);
    o[2] = __clz(i);
    o[3] = __ffs(i);
    o[4] = (int)__byte_perm(0x03020100u, 0x07060504u, 0x7520u);
    o[5] = __mulhi(1 << 30, i);
    o[6] = (int)__funnelshift_r(0x80000000u, 1u, 31);
    o[7] = (int)__brev((u32)i);
}

// More threads and barriers than one warp, in a block whose last warp is not whole.
extern "C" __global__ void rotate(float* data, int steps) {
    extern __shared__ float smem[];
    const int n = blockDim.x, i = threadIdx.x;
    smem[i] = data[i];
    for (int s = 0; s < steps; s++) {
        __syncthreads();
        const float v = smem[(i + 1) % n];
        __syncthreads();
        smem[i] = v;
    }
    data[i] = smem[i];
}

// Needs long, but others of the block do run meanwhile.
extern "C" __global__ void slow(float* out, int n) {
    float v = 0.0f;
    for (int i = 0; i < n; i++) {
        v += 1.0f;
        __syncthreads();
    }
    out[threadIdx.x] = v;
}
