// Activations in eight bits: a scale and a sum for each 32, as ggml's products take them.
//
//   d = max |x_i| / 127,  codes_i = round(x_i / d), half away from zero,  s = sum x_i of what was not rounded
//
//   codes  [n], s8; scales  [n / 32], d in the lower and s in the upper half of a word, both f16; x  [n], f32
//   grid  one thread for each element, blocks of whole warps; n  a multiple of 32
//   oracle  src/ops/exact/rounding/cuda.rs (mmvq); ggml-cuda's quantize_q8_1, with quotients that are rounded correctly
#include "common.cuh"

extern "C" __global__ void quantize_q8_1_f32(signed char* __restrict__ codes, u32* __restrict__ scales, const float* __restrict__ x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return; // a whole warp
    const float value = x[i], amax = warp_max(fabsf(value)), sum = warp_sum(value);
    const float d = amax / 127.0f;
    codes[i] = amax == 0.0f ? 0 : (signed char)roundf(value / d);
    if (i % 32 == 0) scales[i / 32] = f32_to_f16(d) | (u32)f32_to_f16(sum) << 16;
}
