// The gated norm of the delta net's heads and its fold.
//
//   y = (rms_norm(o) w) silu(z) for each head;  folded = H (s . P(y)), P from tiled heads (k + n_k r) to grouped ones (k rep + r)
//
//   y, folded, o, z  [rows, n], f32, n = n_head head_dim, all but folded in the order of o's heads; y may be null
//   w      [head_dim], a power of two from 4 to 256
//   n_k    0 for heads that stay where they are
//   signs, H, grid, shared  as fold.cu
//   wide   16 bytes at a time: f32 buffers lie on 16 bytes, signs on 4
//   oracle the kernels gated_norm and fold one after the other, bit for bit
#include "wht.cuh"

extern __shared__ float smem[];

// The sums of squares of the heads that values 0 .. 3 and 4 .. 7 of a thread belong to. Aligned groups of head_dim / 4 lanes hold a head;
// of a row of its own the other lanes would hold zeros, so the tree is that of row.cuh.
__device__ __forceinline__ void head_sums(float* sums, const float* v, int head_dim) {
    if (head_dim == CHUNK) {
        sums[0] = sums[1] = warp_sum(add_squares<PER_THREAD>(0.0f, v));
        return;
    }
    sums[0] = add_squares<4>(0.0f, v);
    sums[1] = add_squares<4>(0.0f, v + 4);
    for (int lanes = head_dim / 8; lanes > 0; lanes >>= 1) {
        sums[0] += __shfl_xor_sync(ALL_LANES, sums[0], lanes);
        sums[1] += __shfl_xor_sync(ALL_LANES, sums[1], lanes);
    }
}

extern "C" __global__ void __launch_bounds__(1024)
gated_norm_fold_f32(float* __restrict__ y, float* __restrict__ folded, const float* __restrict__ o, const float* __restrict__ z,
                    const float* __restrict__ w, const i8* __restrict__ signs, int n, int log_block, int n_k, int rep, int head_dim, int wide,
                    float scale, float eps) {
    const int row = blockIdx.x * n, part = blockIdx.y * blockDim.x * PER_THREAD;
    const int first = part + threadIdx.x / WARP * CHUNK;
    float v[PER_THREAD], gate[PER_THREAD], weight[PER_THREAD], sums[2];
    int shift[2];  // from where values go to where they come from
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = first + in_chunk(half), in_head = i & (head_dim - 1);
        shift[half] = row + in_tiled(i, n_k, rep, head_dim) - i;
        load4(v + 4 * half, o + shift[half], i, n, wide);
        load4(gate + 4 * half, z + shift[half], i, n, wide);
        load4(weight + 4 * half, w, in_head, head_dim, wide);
    }
    head_sums(sums, v, head_dim);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float by = rms_scale(sums[half], head_dim, eps);
#pragma unroll
        for (int k = 4 * half; k < 4 * half + 4; k++) v[k] = v[k] * by * weight[k] * silu(gate[k]);
        if (y) store4(y + shift[half], v + 4 * half, first + in_chunk(half), n, wide);
    }
    apply_signs(v, signs, first, n, wide);
    const int layout = wht(v, smem, log_block, scale);
    store_wht(folded + row, v, part, n, layout, log_block, wide);
}
