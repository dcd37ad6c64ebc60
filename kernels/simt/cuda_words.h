// CUDA's keywords and built-in variables.
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__ static
// The one keyword that fits `__shared__ T a[N];` and `extern __shared__ T smem[];` alike: the library's thread-local segment is
// the shared memory of the block that an OS thread runs.
#define __shared__ thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __builtin_assume(condition) ((void)0)

#define threadIdx (simt::self()->tid)
#define blockIdx (simt::dims().block_idx)
#define blockDim (simt::dims().block_dim)
#define gridDim (simt::dims().grid_dim)
#define warpSize 32

#undef assert
#define assert(condition) ((condition) ? void(0) : simt::simt_assert(#condition, __FILE__, __LINE__))

#define SIMT_FN inline __attribute__((always_inline))
// The line that calls: the last two parameters of whatever threads do together.
#define SIMT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

SIMT_FN void __trap(SIMT_SITE) { simt::simt_assert("__trap()", file, line); }
