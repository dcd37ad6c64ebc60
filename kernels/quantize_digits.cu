// Activations as integers of 31 bits in four digits, which tensor cores multiply exactly.
//
//   x_i = scale * X_i,  X_i = sum_j digit_j 256^(3 - j),  digits signed; scale a power of two such that |X_i| <= 2^30 in a group of 128
//
//   What is rounded is below 2^-31 of the largest element of its group; elements above 2^-7 of that are not rounded at all.
//
//   digits  [ceil(n_tokens / 2), n_in / 128, 2, 32, 16], s8; sums  [.., .., 8]: minus the sum of a digit over its group; scales [.., .., 2]
//   x  [n_tokens, n_in], f32
//   grid  (n_in / 128, ceil(n_tokens / 2)) blocks of two warps, one for each token of a pair; n_in  a multiple of 128
//   oracle  the formula
//
// Column c = 4 (token % 2) + j of an operand b (mma.cuh) holds digit j. The lane that holds row r of A and k-word t takes elements
// 32 t + 16 w + 4 i + s of a group (kernels/mul_mat_vec_digits.cu says why): byte i of word s of the 16 bytes of lane 4 c + t in half w.
// An element that is not finite makes the scale NaN.
#include "common.cuh"

#define GROUP 128

extern "C" __global__ void __launch_bounds__(64) quantize_digits_f32(
    u32* __restrict__ digits, int* __restrict__ sums, float* __restrict__ scales, const float* __restrict__ x, int n_in, int n_tokens) {
    const int lane = threadIdx.x % WARP, of_pair = threadIdx.x / WARP, token = 2 * blockIdx.y + of_pair;
    const int t = lane / 8, w = lane / 4 % 2, s = lane % 4;
    const long long group = (long long)blockIdx.y * gridDim.x + blockIdx.x;
    float v[4] = {};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (token < n_tokens) v[i] = x[(long long)token * n_in + blockIdx.x * GROUP + 32 * t + 16 * w + 4 * i + s];
    }
    const float amax = warp_max(fmaxf(fmaxf(fabsf(v[0]), fabsf(v[1])), fmaxf(fabsf(v[2]), fabsf(v[3]))));
    const float not_finite = warp_sum(0.0f * v[0] + 0.0f * v[1] + 0.0f * v[2] + 0.0f * v[3]); // 0, or NaN
    // amax < 2^e; the factor 2^(30 - e) and its inverse are normal numbers.
    const int e = max((int)(__float_as_uint(amax) >> 23) - 126, -96);
    const float factor = __uint_as_float((u32)(157 - e) << 23), scale = __uint_as_float((u32)(97 + e) << 23);
    int X[4];
#pragma unroll
    for (int i = 0; i < 4; i++) X[i] = not_finite == 0.0f ? __float2int_rn(v[i] * factor) : 0;
#pragma unroll
    for (int j = 3; j >= 0; j--) {
        u32 word = 0;
        int sum = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int digit = (signed char)(X[i] & 255);
            X[i] = (X[i] - digit) >> 8;
            word |= ((u32)digit & 255u) << 8 * i;
            sum += digit;
        }
        const int column = 4 * of_pair + j;
        digits[(group * 2 + w) * 128 + (4 * column + t) * 4 + s] = word;
        sum = __reduce_add_sync(ALL_LANES, sum);
        if (lane == 0) sums[group * 8 + column] = -sum;
    }
    if (lane == 0) scales[group * 2 + of_pair] = scale + not_finite;
}
