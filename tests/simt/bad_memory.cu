// Planted bugs: accesses out of bounds, misaligned, of memory that nothing was written to; races; threads that exit wrongly.
//
// planted.rs says what the emulator must find of each, at the line that has "BUG <kernel>" in it.

// A Walsh-Hadamard transform without the barrier between its stages.
extern "C" __global__ void bad_wht_no_sync(float* data) {
    extern __shared__ float smem[];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) smem[i] = data[i];
    __syncthreads();
    for (int h = 1; h < 1024; h <<= 1) {
        for (int p = threadIdx.x; p < 512; p += blockDim.x) {
            const int i = (p / h) * 2 * h + p % h;
            const float a = smem[i], b = smem[i + h];  // BUG bad_wht_no_sync
            smem[i] = a + b;                           // BUG bad_wht_no_sync
            smem[i + h] = a - b;                       // BUG bad_wht_no_sync
        }
    }
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) data[i] = smem[i] * 0.03125f;
}

// A sum over a block whose partial sums are read without a barrier.
extern "C" __global__ void bad_reduce_no_sync(float* out, const float* x) {
    __shared__ float part[32];
    float v = x[threadIdx.x];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;                               // BUG bad_reduce_no_sync
    v = (threadIdx.x & 31) < (blockDim.x >> 5) ? part[threadIdx.x & 31] : 0.0f;             // BUG bad_reduce_no_sync
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    if (threadIdx.x == 0) out[0] = v;
}

// Shared memory that is written again while others may still read it.
extern "C" __global__ void bad_reuse_no_sync(float* out, const float* x) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    const float a = s[threadIdx.x ^ 32];  // BUG bad_reuse_no_sync
    s[threadIdx.x] = a * 2.0f;            // BUG bad_reuse_no_sync
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void bad_no_syncwarp(float* out, const float* x) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];          // BUG bad_no_syncwarp
    out[threadIdx.x] = s[31 - threadIdx.x];   // BUG bad_no_syncwarp
}

extern "C" __global__ void bad_sum_without_atomic(float* out, const float* x) {
    out[0] += x[blockIdx.x * blockDim.x + threadIdx.x];  // BUG bad_sum_without_atomic
}

extern "C" __global__ void bad_write_past_end(float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) out[i] = 1.0f;  // BUG bad_write_past_end
}

extern "C" __global__ void bad_read_before_start(float* out, const float* x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i] + x[i - 1];  // BUG bad_read_before_start
}

// The product is beyond 2^31: the index becomes negative.
extern "C" __global__ void bad_index_overflow(float* out, int stride) {
    const int i = (int)(threadIdx.x * (unsigned)stride);
    out[i] = 1.0f;  // BUG bad_index_overflow
}

extern "C" __global__ void bad_misaligned(float* out, const float* x) {
    const float4 v = *reinterpret_cast<const float4*>(x + 1 + threadIdx.x);  // BUG bad_misaligned
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}

extern "C" __global__ void bad_uninitialised_shared(float* out) {
    __shared__ float s[64];
    if (threadIdx.x < 60) s[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];  // BUG bad_uninitialised_shared
}

extern "C" __global__ void bad_uninitialised_device(float* out, const float* x) {
    out[threadIdx.x] = x[threadIdx.x];  // BUG bad_uninitialised_device
}

extern "C" __global__ void bad_shared_index(float* out) {
    __shared__ float s[32];
    __shared__ float t[32];
    s[threadIdx.x] = 1.0f;  // BUG bad_shared_index
    t[threadIdx.x & 31] = 2.0f;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x & 31];
}

extern "C" __global__ void bad_dynamic_shared(float* out) {
    extern __shared__ float smem[];
    smem[threadIdx.x] = 1.0f;                  // BUG bad_dynamic_shared
    __syncthreads();
    out[threadIdx.x] = smem[threadIdx.x ^ 1];  // BUG bad_dynamic_shared
}

extern "C" __global__ void bad_big_local(float* out, int n) {
    float a[40000];
    for (int i = 0; i < n; i++) a[(i * 7919) % n] = (float)i;
    __syncthreads();
    out[threadIdx.x] = a[threadIdx.x];
}
