// Correct kernels: products of a [16, k] by b [8 columns, k], with fragments read by their documented layout, or by ldmatrix.
//
// a and b are words of 32 bits, [16, n_words] and [8, n_words]; c is [16, 8]. One warp, n_words a multiple of 8.
#include "../../kernels/mma.cuh"

__device__ void by_hand(u32 a[4], u32 b[2], const u32* from_a, const u32* from_b, int n_words, int k) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    a[0] = from_a[g * n_words + k + t];
    a[1] = from_a[(g + 8) * n_words + k + t];
    a[2] = from_a[g * n_words + k + t + 4];
    a[3] = from_a[(g + 8) * n_words + k + t + 4];
    b[0] = from_b[g * n_words + k + t];
    b[1] = from_b[g * n_words + k + t + 4];
}

// Rows of 8 words lie in shared memory one behind the other: those of a, then those of b.
__device__ void by_ldmatrix(u32 a[4], u32 b[2], u32* shared, const u32* from_a, const u32* from_b, int n_words, int k) {
    __syncthreads();
    for (int i = threadIdx.x; i < 24 * 2; i += 32) {
        const int row = i / 2, word = i % 2 * 4;
        const u32* from = row < 16 ? from_a + row * n_words : from_b + (row - 16) * n_words;
        cp_async_16(shared + row * 8 + word, from + k + word);
    }
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    const int lane = threadIdx.x;
    ldmatrix_x4(a, shared + lane % 16 * 8 + lane / 16 * 4);
    ldmatrix_x2(b, shared + (16 + lane % 8) * 8 + lane / 8 % 2 * 4);
}

template <class T> __device__ void store(T* out, const T d[4]) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 4; i++) out[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}

template <class T, class Mma>
__device__ __forceinline__ void product(T* out, const u32* a, const u32* b, int n_words, int with_ldmatrix, Mma mma) {
    __shared__ __align__(16) u32 shared[24 * 8];
    T d[4] = {};
    for (int k = 0; k < n_words; k += 8) {
        u32 fa[4], fb[2];
        if (with_ldmatrix) by_ldmatrix(fa, fb, shared, a, b, n_words, k);
        else by_hand(fa, fb, a, b, n_words, k);
        mma(d, fa, fb);
    }
    store(out, d);
}

extern "C" __global__ void product_s8(int* out, const u32* a, const u32* b, int n_words, int with_ldmatrix) {
    const auto mma = [](int* d, const u32* fa, const u32* fb) { mma_m16n8k32_s8(d, fa, fb, d); };
    product(out, a, b, n_words, with_ldmatrix, mma);
}
extern "C" __global__ void product_f16(float* out, const u32* a, const u32* b, int n_words, int with_ldmatrix) {
    const auto mma = [](float* d, const u32* fa, const u32* fb) { mma_m16n8k16_f16(d, fa, fb, d); };
    product(out, a, b, n_words, with_ldmatrix, mma);
}
extern "C" __global__ void product_bf16(float* out, const u32* a, const u32* b, int n_words, int with_ldmatrix) {
    const auto mma = [](float* d, const u32* fa, const u32* fb) { mma_m16n8k16_bf16(d, fa, fb, d); };
    product(out, a, b, n_words, with_ldmatrix, mma);
}

// The same with b as it often lies: [16 rows along k, 8 columns] of 16-bit elements, whose fragment is a transposed load.
extern "C" __global__ void product_f16_trans(float* out, const u32* a, const u32* b) {
    __shared__ __align__(16) u32 shared[16 * 4];
    for (int i = threadIdx.x; i < 16 * 4; i += 32) shared[i] = b[i];
    __syncthreads();
    u32 fa[4], fb[2], unused[2];
    by_hand(fa, unused, a, a, 8, 0);
    ldmatrix_x2_trans(fb, shared + threadIdx.x % 16 * 4);
    float d[4] = {};
    mma_m16n8k16_f16(d, fa, fb, d);
    store(out, d);
}

// Four matrices of 8 rows, transposed; what each lane receives.
extern "C" __global__ void transposed(u32* out, const u32* x) {
    __shared__ __align__(16) u32 shared[32 * 4];
    for (int i = threadIdx.x; i < 32 * 4; i += 32) shared[i] = x[i];
    __syncthreads();
    u32 r[4];
    ldmatrix_x4_trans(r, shared + threadIdx.x * 4);
    for (int m = 0; m < 4; m++) out[threadIdx.x * 4 + m] = r[m];
}

// Two tiles of shared memory: one is copied while the other is used.
extern "C" __global__ void pipeline(float* out, const float* x, int n_tiles) {
    __shared__ __align__(16) float tile[2][128];
    const int i = threadIdx.x;
    float sum = 0.0f;
    cp_async_16(&tile[0][i * 4], x + i * 4);
    cp_async_commit();
    for (int n = 0; n < n_tiles; n++) {
        if (n + 1 < n_tiles) cp_async_16(&tile[(n + 1) % 2][i * 4], x + (n + 1) * 128 + i * 4);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();
        for (int k = 0; k < 4; k++) sum += tile[n % 2][127 - (i * 4 + k)];
        __syncthreads();
    }
    out[i] = sum;
}
