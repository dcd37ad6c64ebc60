// One token of each sequence through the delta net in one launch: convolution, norms, gates and recurrence.
//
//   qkv <- silu(conv(qkv));  q, k <- l2 norm of each head;  gate = softplus(alpha + dt) a;  beta = sigmoid(raw_beta)
//   S <- exp(gate) S;  delta = (v - S k) beta;  S <- S + delta k^T;  o = (S q) scale
//
//   o            [n_seqs, n_v, d], f32, d the number in the kernel's name
//   states       [n_slots, n_v, d, d], v-major; slots: one i32 for each sequence, no slot twice; in place
//   conv_states  [n_slots, channels, d_conv - 1], channels = (2 n_k + n_v) d: read from slots `from`, left in slots `to`
//   qkv          [n_seqs, channels]: the heads of q, of k, of v
//   w            [channels, d_conv]
//   alpha, raw_beta  [n_seqs, n_v];  dt, a  [n_v]
//   is_blocked   v head h reads k head h / (n_v / n_k), else h % n_k
//   is_inside    norm of a head: (x / sqrt(mean(x^2) + eps)) norm_scale, else x / max(sqrt(sum(x^2)), eps)
//   grid         x: d LANES / threads; y: v heads; z: sequences. min(256, d LANES) threads, LANES as in delta_net.cuh
//   align        states 16 bytes
//   oracle       the bits of ssm_conv_silu, l2 norm, gates and gated_delta_net one after the other
//
// Several blocks read the old columns of a k head and one leaves the new ones, so no slot may be in both lists: a sequence has two
// and takes turns.
#include "delta_net.cuh"
#include "row.cuh"

#define SOFTPLUS_LINEAR 20.0f  // above this, ggml takes softplus(x) to be x

// silu(conv) of one channel; `past` its d_conv - 1 old columns.
__device__ __forceinline__ float convolved(const float* past, float now, const float* w, int d_conv) {
    float sum = 0.0f;
    for (int j = 0; j < d_conv - 1; j++) sum += past[j] * w[j];
    sum += now * w[d_conv - 1];
    return silu(sum);
}

__device__ __forceinline__ void leave(float* left, const float* past, float now, int d_conv) {
    for (int j = 0; j < d_conv - 2; j++) left[j] = past[j + 1];
    left[d_conv - 2] = now;
}

// What a head is multiplied with: each warp adds up the squares by itself, in the order of row.cuh.
template <int D>
__device__ __forceinline__ float head_scale(const float* head, int is_inside, float eps) {
    float values[PER_THREAD];
    load_chunk(values, head, 0, D, 1);
    const float squares = warp_sum(add_squares<PER_THREAD>(0.0f, values));
    return is_inside ? rms_scale(squares, D, eps) : 1.0f / fmaxf(sqrtf(squares), eps);
}

template <int D>
__device__ __forceinline__ void step(float* o, float* states, float* conv_states, const int* slots, const int* from, const int* to,
                                     const float* qkv, const float* w, const float* alpha, const float* raw_beta, const float* dt,
                                     const float* a, int n_k, int n_v, int d_conv, int is_blocked, int is_inside, float eps,
                                     float norm_scale, float scale) {
    using L = DeltaRow<D>;
    __shared__ __align__(16) float heads[2][D];  // q, k
    const int head = blockIdx.y, s = blockIdx.z, lane = threadIdx.x % L::LANES;
    const int j = blockIdx.x * (blockDim.x / L::LANES) + threadIdx.x / L::LANES;
    const int rep = n_v / n_k, k_head = is_blocked ? head / rep : head % n_k;
    const bool is_first = is_blocked ? head % rep == 0 : head < n_k;  // of the v heads that share the k head
    const int channels = (2 * n_k + n_v) * D, n_past = d_conv - 1;
    const float* old = conv_states + (size_t)from[s] * channels * n_past;
    float* left = conv_states + (size_t)to[s] * channels * n_past;
    qkv += (size_t)s * channels;

    // The state is on its way while the rest is computed.
    float row_s[L::PER], q[L::PER], k[L::PER];
    float* at = states + (((size_t)slots[s] * n_v + head) * D + j) * D;
    L::load(row_s, at, lane);
    const float gate_in = alpha[s * n_v + head] + dt[head];
    const float gate = (gate_in > SOFTPLUS_LINEAR ? gate_in : logf(1.0f + expf(gate_in))) * a[head];
    const float beta = sigmoid(raw_beta[s * n_v + head]);

    for (int i = threadIdx.x; i < 2 * D; i += blockDim.x) {
        const int channel = (i < D ? k_head * D : (n_k + k_head) * D - D) + i;
        const float now = qkv[channel];
        (&heads[0][0])[i] = convolved(old + channel * n_past, now, w + channel * d_conv, d_conv);
        if (is_first && blockIdx.x == 0) leave(left + channel * n_past, old + channel * n_past, now, d_conv);
    }
    const int channel = (2 * n_k + head) * D + j;
    const float now = qkv[channel];
    const float v = convolved(old + channel * n_past, now, w + channel * d_conv, d_conv);
    if (lane == 0) leave(left + channel * n_past, old + channel * n_past, now, d_conv);
    __syncthreads();
    L::load(q, heads[0], lane);
    L::load(k, heads[1], lane);
    const float q_by = head_scale<D>(heads[0], is_inside, eps), k_by = head_scale<D>(heads[1], is_inside, eps);
#pragma unroll
    for (int i = 0; i < L::PER; i++) {
        q[i] *= q_by;
        k[i] *= k_by;
        if (is_inside) {
            q[i] *= norm_scale;
            k[i] *= norm_scale;
        }
    }
    const float out = L::step(row_s, q, k, v, expf(gate), beta) * scale;
    if (lane == 0) o[((size_t)s * n_v + head) * D + j] = out;
    L::store(at, row_s, lane);
}

extern "C" __global__ void __launch_bounds__(256, 2)
delta_net_step_d8_f32(float* __restrict__ o, float* __restrict__ states, float* conv_states, const int* __restrict__ slots,
                      const int* __restrict__ from, const int* __restrict__ to, const float* __restrict__ qkv,
                      const float* __restrict__ w, const float* __restrict__ alpha, const float* __restrict__ raw_beta,
                      const float* __restrict__ dt, const float* __restrict__ a,
                      int n_k, int n_v, int d_conv, int is_blocked, int is_inside, float eps, float norm_scale, float scale) {
    step<8>(o, states, conv_states, slots, from, to, qkv, w, alpha, raw_beta, dt, a, n_k, n_v, d_conv, is_blocked, is_inside, eps,
            norm_scale, scale);
}

extern "C" __global__ void __launch_bounds__(256, 2)
delta_net_step_d16_f32(float* __restrict__ o, float* __restrict__ states, float* conv_states, const int* __restrict__ slots,
                       const int* __restrict__ from, const int* __restrict__ to, const float* __restrict__ qkv,
                       const float* __restrict__ w, const float* __restrict__ alpha, const float* __restrict__ raw_beta,
                       const float* __restrict__ dt, const float* __restrict__ a,
                       int n_k, int n_v, int d_conv, int is_blocked, int is_inside, float eps, float norm_scale, float scale) {
    step<16>(o, states, conv_states, slots, from, to, qkv, w, alpha, raw_beta, dt, a, n_k, n_v, d_conv, is_blocked, is_inside, eps,
            norm_scale, scale);
}

extern "C" __global__ void __launch_bounds__(256, 2)
delta_net_step_d32_f32(float* __restrict__ o, float* __restrict__ states, float* conv_states, const int* __restrict__ slots,
                       const int* __restrict__ from, const int* __restrict__ to, const float* __restrict__ qkv,
                       const float* __restrict__ w, const float* __restrict__ alpha, const float* __restrict__ raw_beta,
                       const float* __restrict__ dt, const float* __restrict__ a,
                       int n_k, int n_v, int d_conv, int is_blocked, int is_inside, float eps, float norm_scale, float scale) {
    step<32>(o, states, conv_states, slots, from, to, qkv, w, alpha, raw_beta, dt, a, n_k, n_v, d_conv, is_blocked, is_inside, eps,
            norm_scale, scale);
}

extern "C" __global__ void __launch_bounds__(256, 2)
delta_net_step_d64_f32(float* __restrict__ o, float* __restrict__ states, float* conv_states, const int* __restrict__ slots,
                       const int* __restrict__ from, const int* __restrict__ to, const float* __restrict__ qkv,
                       const float* __restrict__ w, const float* __restrict__ alpha, const float* __restrict__ raw_beta,
                       const float* __restrict__ dt, const float* __restrict__ a,
                       int n_k, int n_v, int d_conv, int is_blocked, int is_inside, float eps, float norm_scale, float scale) {
    step<64>(o, states, conv_states, slots, from, to, qkv, w, alpha, raw_beta, dt, a, n_k, n_v, d_conv, is_blocked, is_inside, eps,
            norm_scale, scale);
}

extern "C" __global__ void __launch_bounds__(256, 2)
delta_net_step_d128_f32(float* __restrict__ o, float* __restrict__ states, float* conv_states, const int* __restrict__ slots,
                        const int* __restrict__ from, const int* __restrict__ to, const float* __restrict__ qkv,
                        const float* __restrict__ w, const float* __restrict__ alpha, const float* __restrict__ raw_beta,
                        const float* __restrict__ dt, const float* __restrict__ a,
                        int n_k, int n_v, int d_conv, int is_blocked, int is_inside, float eps, float norm_scale, float scale) {
    step<128>(o, states, conv_states, slots, from, to, qkv, w, alpha, raw_beta, dt, a, n_k, n_v, d_conv, is_blocked, is_inside, eps,
            norm_scale, scale);
}
