// The causal depthwise convolution in front of the delta net, and the state it leaves behind.
//
//   conv_input[s][c] = state of sequence s, channel c (d_conv - 1 columns), then its n_tokens new ones
//   ssm_conv:  y[s][t][c] = sum_j conv_input[s][c][t + j] w[c][j]     products rounded, added oldest first (no fmaf)
//   ssm_conv_silu:  y = silu(ssm_conv), straight from the states and the new columns
//
//   states      [n_slots, channels, d_conv - 1], f32; slot lists hold one i32 for each sequence, no slot twice
//   qkv, y      [n_seqs, n_tokens, channels]
//   conv_input  [n_seqs, channels, d_conv - 1 + n_tokens]
//   w           [channels, d_conv], d_conv in 2..8
//   grid        x: 256 channels each; y: a token or column each (ssm_conv_silu: TOKENS of them); z: sequences. 256 threads
//   oracle      src/ops/ssm_conv.rs, bit-equal
//
// A state may be read from one slot and left in another (`from`, `to`); the same list for both works in place.
#include "common.cuh"

// Tokens that a thread of ssm_conv_silu walks over; MAX_TAPS bounds d_conv.
#define TOKENS 32
#define MAX_TAPS 8

extern "C" __global__ void conv_input_f32(float* __restrict__ conv_input, const float* __restrict__ states,
                                          const int* __restrict__ from, const float* __restrict__ qkv, int n_tokens,
                                          int channels, int d_conv) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y, s = blockIdx.z;
    if (c >= channels) return;
    const int n_past = d_conv - 1, t = column - n_past;
    const float x = t < 0 ? states[((size_t)from[s] * channels + c) * n_past + column]
                          : qkv[((size_t)s * n_tokens + t) * channels + c];
    conv_input[((size_t)s * channels + c) * (n_past + n_tokens) + column] = x;
}

extern "C" __global__ void ssm_conv_f32(float* __restrict__ y, const float* __restrict__ conv_input,
                                        const float* __restrict__ w, int n_tokens, int channels, int d_conv) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x, t = blockIdx.y, s = blockIdx.z;
    if (c >= channels) return;
    const float* x = conv_input + ((size_t)s * channels + c) * (d_conv - 1 + n_tokens) + t;
    float sum = 0.0f;
    for (int j = 0; j < d_conv; j++) sum += x[j] * w[c * d_conv + j];
    y[((size_t)s * n_tokens + t) * channels + c] = sum;
}

// The state behind the first n tokens: columns n .. n + d_conv - 1 of conv_input.
extern "C" __global__ void conv_state_f32(float* __restrict__ states, const int* __restrict__ to,
                                          const float* __restrict__ conv_input, int n, int n_tokens, int channels,
                                          int d_conv) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y, s = blockIdx.z, n_past = d_conv - 1;
    if (c >= channels) return;
    states[((size_t)to[s] * channels + c) * n_past + column] =
        conv_input[((size_t)s * channels + c) * (n_past + n_tokens) + n + column];
}

// One thread for a channel and TOKENS tokens; the last D_CONV - 1 columns stay in registers. `x` and `y` point to the channel in
// the first token of the sequence.
template <int D_CONV>
__device__ __forceinline__ void convolve(float* y, const float* x, const float* old, float* left, const float* w,
                                         int first, int n_tokens, int channels) {
    constexpr int PAST = D_CONV - 1;
    float taps[D_CONV], past[PAST];
#pragma unroll
    for (int j = 0; j < D_CONV; j++) taps[j] = w[j];
#pragma unroll
    for (int j = 0; j < PAST; j++) {
        const int t = first - PAST + j;
        past[j] = t < 0 ? old[t + PAST] : x[(size_t)t * channels];
    }
    // The threads of the first tokens alone read the old state, so they write the new one: nobody else has to wait.
    if (first == 0) {
        float state[PAST];
#pragma unroll
        for (int j = 0; j < PAST; j++) {
            const int t = n_tokens - PAST + j;
            state[j] = t < 0 ? old[t + PAST] : x[(size_t)t * channels];
        }
#pragma unroll
        for (int j = 0; j < PAST; j++) left[j] = state[j];
    }
    const int end = min(first + TOKENS, n_tokens);
#pragma unroll 4
    for (int t = first; t < end; t++) {
        const float now = x[(size_t)t * channels];
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < PAST; j++) sum += past[j] * taps[j];
        sum += now * taps[PAST];
        y[(size_t)t * channels] = silu(sum);
#pragma unroll
        for (int j = 0; j < PAST; j++) past[j] = j + 1 < PAST ? past[j + 1] : now;
    }
}

extern "C" __global__ void ssm_conv_silu_f32(float* __restrict__ y, float* states, const int* __restrict__ from,
                                             const int* __restrict__ to, const float* __restrict__ qkv,
                                             const float* __restrict__ w, int n_tokens, int channels, int d_conv) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x, s = blockIdx.z;
    if (c >= channels) return;
    const size_t at = (size_t)s * n_tokens * channels + c;
    const float* old = states + ((size_t)from[s] * channels + c) * (d_conv - 1);
    float* left = states + ((size_t)to[s] * channels + c) * (d_conv - 1);
    const int first = blockIdx.y * TOKENS;
    w += c * d_conv;
    switch (d_conv) {
        case 2: convolve<2>(y + at, qkv + at, old, left, w, first, n_tokens, channels); break;
        case 3: convolve<3>(y + at, qkv + at, old, left, w, first, n_tokens, channels); break;
        case 4: convolve<4>(y + at, qkv + at, old, left, w, first, n_tokens, channels); break;
        case 5: convolve<5>(y + at, qkv + at, old, left, w, first, n_tokens, channels); break;
        case 6: convolve<6>(y + at, qkv + at, old, left, w, first, n_tokens, channels); break;
        case 7: convolve<7>(y + at, qkv + at, old, left, w, first, n_tokens, channels); break;
        case MAX_TAPS: convolve<MAX_TAPS>(y + at, qkv + at, old, left, w, first, n_tokens, channels); break;
    }
}
