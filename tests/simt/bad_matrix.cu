// Planted bugs: loads of matrices, products by a warp, and asynchronous copies.
//
// planted.rs says what the emulator must find of each, at the line that has "BUG <kernel>" in it.
#include "../../kernels/mma.cuh"

__device__ void fill(float* smem, const float* x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) smem[i] = x[i];
    __syncthreads();
}

extern "C" __global__ void bad_ldmatrix_row(u32* out, const float* x) {
    extern __shared__ float smem[];
    fill(smem, x, 256);
    u32 r[4];
    ldmatrix_x4(r, smem + threadIdx.x * 4 + 1);  // BUG bad_ldmatrix_row
    out[threadIdx.x] = r[0];
}

// The last lane's row lies behind the shared memory of the launch.
extern "C" __global__ void bad_ldmatrix_past_end(u32* out, const float* x) {
    extern __shared__ float smem[];
    fill(smem, x, 128);
    u32 r[4];
    ldmatrix_x4(r, smem + (threadIdx.x + 1) * 4);  // BUG bad_ldmatrix_past_end
    out[threadIdx.x] = r[3];
}

extern "C" __global__ void bad_ldmatrix_uninitialised(u32* out, const float* x) {
    extern __shared__ float smem[];
    fill(smem, x, 127);
    u32 r[4];
    ldmatrix_x4(r, smem + threadIdx.x * 4);  // BUG bad_ldmatrix_uninitialised
    out[threadIdx.x] = r[3];
}

// Each lane writes a row, which others receive without any synchronisation.
extern "C" __global__ void bad_ldmatrix_no_sync(u32* out, const float* x) {
    extern __shared__ float smem[];
    for (int i = 0; i < 4; i++) smem[threadIdx.x * 4 + i] = x[threadIdx.x * 4 + i];
    u32 r[4];
    ldmatrix_x4(r, smem + threadIdx.x * 4);  // BUG bad_ldmatrix_no_sync
    out[threadIdx.x] = r[3];
}

extern "C" __global__ void bad_mma_in_branch(float* out) {
    const u32 a[4] = {}, b[2] = {};
    float c[4] = {};
    if (threadIdx.x < 16) mma_m16n8k16_f16(c, a, b, c);  // BUG bad_mma_in_branch
    out[threadIdx.x] = c[0];
}

// Half of the warp at one product, half at another.
extern "C" __global__ void bad_two_mmas(int* out) {
    const u32 a[4] = {}, b[2] = {};
    int c[4] = {};
    if (threadIdx.x < 16) mma_m16n8k32_s8(c, a, b, c);  // BUG bad_two_mmas
    else mma_m16n8k32_s8(c, a, b, c);                   // BUG bad_two_mmas
    out[threadIdx.x] = c[0];
}

extern "C" __global__ void bad_copy_no_wait(float* out, const float* x) {
    extern __shared__ float smem[];
    cp_async_16(smem + threadIdx.x * 4, x + threadIdx.x * 4);
    cp_async_commit();
    __syncthreads();
    out[threadIdx.x] = smem[threadIdx.x];  // BUG bad_copy_no_wait
}

// Waits for all groups but one, and there is only one.
extern "C" __global__ void bad_copy_wrong_wait(float* out, const float* x) {
    extern __shared__ float smem[];
    cp_async_16(smem + threadIdx.x * 4, x + threadIdx.x * 4);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    out[threadIdx.x] = smem[threadIdx.x];  // BUG bad_copy_wrong_wait
}

// The wait is for the thread's own copies; those of others need a barrier.
extern "C" __global__ void bad_copy_no_barrier(float* out, const float* x) {
    extern __shared__ float smem[];
    cp_async_16(smem + threadIdx.x * 4, x + threadIdx.x * 4);  // BUG bad_copy_no_barrier
    cp_async_commit();
    cp_async_wait<0>();
    out[threadIdx.x] = smem[127 - threadIdx.x];  // BUG bad_copy_no_barrier
}

// The second tile is copied over the first while others may still read that.
extern "C" __global__ void bad_copy_over_readers(float* out, const float* x) {
    extern __shared__ float smem[];
    float sum = 0.0f;
    for (int tile = 0; tile < 2; tile++) {
        cp_async_16(smem + threadIdx.x * 4, x + tile * 128 + threadIdx.x * 4);  // BUG bad_copy_over_readers
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
        sum += smem[127 - threadIdx.x];  // BUG bad_copy_over_readers
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void bad_copy_misaligned(float* out, const float* x) {
    extern __shared__ float smem[];
    cp_async_16(smem + threadIdx.x * 4, x + threadIdx.x * 4 + 1);  // BUG bad_copy_misaligned
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    out[threadIdx.x] = smem[threadIdx.x];
}

extern "C" __global__ void bad_copy_past_end(float* out, const float* x) {
    extern __shared__ float smem[];
    cp_async_16(smem + threadIdx.x * 4, x + (threadIdx.x + 1) * 4);  // BUG bad_copy_past_end
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    out[threadIdx.x] = smem[threadIdx.x];
}
