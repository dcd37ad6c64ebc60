// Planted bugs: threads that do not do together what they must do together, that never come to an end, that divide by zero.
//
// planted.rs says what the emulator must find of each, at the line that has "BUG <kernel>" in it.

typedef unsigned int u32;

extern "C" __global__ void bad_barrier_in_branch(float* out) {
    if (threadIdx.x < 40) __syncthreads();  // BUG bad_barrier_in_branch
    else out[threadIdx.x] = 1.0f;
}

extern "C" __global__ void bad_two_barriers(float* out) {
    if (threadIdx.x < 32) {
        __syncthreads();  // BUG bad_two_barriers
    } else {
        __syncthreads();  // BUG bad_two_barriers
    }
    out[threadIdx.x] = 1.0f;
}

extern "C" __global__ void bad_shuffle_in_branch(float* out) {
    float v = (float)threadIdx.x;
    if (threadIdx.x & 1) v += __shfl_xor_sync(0xffffffffu, v, 1);  // BUG bad_shuffle_in_branch
    out[threadIdx.x] = v;
}

extern "C" __global__ void bad_shuffle_mask(float* out) {
    out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1.0f, 0);  // BUG bad_shuffle_mask
}

extern "C" __global__ void bad_shuffle_against_barrier(float* out) {
    float v = 1.0f;
    if (threadIdx.x < 16) v = __shfl_sync(0xffffffffu, v, 0);  // BUG bad_shuffle_against_barrier
    else __syncthreads();
    out[threadIdx.x] = v;
}

extern "C" __global__ void bad_divide(int* out, int d) { out[threadIdx.x] = 100 / d; }  // BUG bad_divide

extern "C" __global__ void bad_assert(float* out, int n) {
    assert((int)blockDim.x <= n);  // BUG bad_assert
    out[threadIdx.x] = 1.0f;
}

// Waits for a flag that a thread sets which cannot run meanwhile: whichever comes first waits for the other.
extern "C" __global__ void bad_spin_on_flag(float* out, int* flags) {
    atomicExch(&flags[threadIdx.x], 1);
    while (atomicAdd(&flags[threadIdx.x ^ 1], 0) == 0) {}  // BUG bad_spin_on_flag
    out[threadIdx.x] = 1.0f;
}

// The flag is read in the ordinary way, which is a race as well.
extern "C" __global__ void bad_spin_on_volatile(float* out, volatile int* flags) {
    flags[threadIdx.x] = 1;
    while (flags[threadIdx.x ^ 1] == 0) {}  // BUG bad_spin_on_volatile
    out[threadIdx.x] = 1.0f;
}

// No memory is touched at all. What the compiler leaves of the loop belongs to either line.
extern "C" __global__ void bad_endless(float* out, u32 step) {  // BUG bad_endless
    u32 i = 1;
    while (i != 0) i += 2 * step;  // BUG bad_endless
    out[threadIdx.x] = (float)i;
}

// Others do run, and none comes to an end.
extern "C" __global__ void bad_endless_barriers(float* out, int n) {
    for (int i = 0; i < n; i += 0) __syncthreads();  // BUG bad_endless_barriers
    out[threadIdx.x] = 1.0f;
}

extern "C" __global__ void bad_endless_shuffles(float* out, int n) {
    float v = 1.0f;
    for (int i = 0; i < n; i += 0) v = __shfl_xor_sync(0xffffffffu, v, 1);  // BUG bad_endless_shuffles
    out[threadIdx.x] = v;
}
