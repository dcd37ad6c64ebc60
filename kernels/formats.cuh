// Block formats of weights: what src/quant decodes, in pieces that one thread takes.
//
// A piece is 32 elements of a row, in 8 groups of 4 neighbours. Each format has
//
//   BLOCK, BYTES      elements and bytes of a block
//   ZERO              a code of a group stands for (code - ZERO) times the scale of the group
//   RUN               so many groups, one upon the other, share a scale
//   NEAR              so many, one upon the other, lie in 32 aligned elements of the row
//   HAS_MIN           whether a minimum is taken off each value, shared as the scale is
//   load(row, piece)  the bytes of a piece, read from a row at any even address
//   at(piece, group)  where the group begins in the row, in elements: a multiple of 4
//   codes(group)      four codes, a byte each, below 128 (Q8_0: any); groups are asked for in ascending order
//   scale(run), min(run)
//
// Groups are numbered by constants once loops are unrolled, so that what depends on them costs nothing.
#pragma once
#include "common.cuh"

#define PIECE 32
#define GROUPS 8

// Rows of blocks lie at even addresses only.
__device__ __forceinline__ u32 u16_at(const u8* p) { return __ldg((const u16*)p); }
__device__ __forceinline__ u32 u32_at(const u8* p) { return u16_at(p) | u16_at(p + 2) << 16; }
__device__ __forceinline__ float f16_at(const u8* p) { return f16_to_f32(__ldg((const u16*)p)); }

// Byte j of a word as a float: an integer in the low bits of a float of 2^23.
__device__ __forceinline__ float byte_as_float(u32 word, int j, float zero) {
    return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7540u + j)) - (8388608.0f + zero);
}

// The four values of a group in units of its scale.
template <class F> __device__ __forceinline__ float4 levels(u32 codes) {
    const float zero = F::ZERO;
    return make_float4(byte_as_float(codes, 0, zero), byte_as_float(codes, 1, zero), byte_as_float(codes, 2, zero),
                       byte_as_float(codes, 3, zero));
}

// The four values of a group; every product and difference rounds as that of src/quant does.
template <class F> __device__ __forceinline__ float4 values(F& piece, int group) {
    float4 v = levels<F>(piece.codes(group));
    const float d = piece.scale(group / F::RUN);
    if (!F::HAS_MIN) return make_float4(v.x * d, v.y * d, v.z * d, v.w * d);
    const float min = piece.min(group / F::RUN); // the product is exact: six bits of scale, four of code, 11 of d
    return make_float4(fmaf(v.x, d, -min), fmaf(v.y, d, -min), fmaf(v.z, d, -min), fmaf(v.w, d, -min));
}

// Formats of which all 32 elements share a scale and lie side by side.
struct OneScale {
    static const int ZERO = 1, RUN = 8, NEAR = 8;
    static const bool HAS_MIN = false;
    float d;
    __device__ __forceinline__ static int at(int piece, int group) { return PIECE * piece + 4 * group; }
    __device__ __forceinline__ float scale(int) const { return d; }
    __device__ __forceinline__ float min(int) const { return 0.0f; }
};

// Four neighbouring two-bit codes, one to a byte.
__device__ __forceinline__ u32 spread_two_bits(u32 byte) {
    const u32 pairs = (byte | byte << 12) & 0x000f000fu;
    return (pairs | pairs << 6) & 0x03030303u;
}

// Two-bit codes, the elements of a byte side by side: f16 d, then qs.
template <int ELEMENTS> struct TwoBit : OneScale {
    static const int BLOCK = ELEMENTS, BYTES = 2 + ELEMENTS / 4;
    u32 q[2];
    __device__ __forceinline__ void load(const u8* row, int piece) {
        const u8* block = row + (piece / (BLOCK / PIECE)) * BYTES;
        const u8* qs = block + 2 + 8 * (piece % (BLOCK / PIECE));
        d = f16_at(block);
        q[0] = u32_at(qs), q[1] = u32_at(qs + 4);
    }
    __device__ __forceinline__ u32 codes(int group) const {
        return spread_two_bits(q[group / 4] >> 8 * (group % 4) & 255u);
    }
};
typedef TwoBit<128> Pq2_0;
typedef TwoBit<64> Q2_0;

// A sign for each element: f16 d, then a bit each. Code 0 is -1, code 2 is 1.
struct Q1_0 : OneScale {
    static const int BLOCK = 128, BYTES = 18;
    u32 q;
    __device__ __forceinline__ void load(const u8* row, int piece) {
        const u8* block = row + (piece / 4) * BYTES;
        d = f16_at(block);
        q = u32_at(block + 2 + 4 * (piece % 4));
    }
    __device__ __forceinline__ u32 codes(int group) const {
        const u32 bits = q >> 4 * group & 15u;
        const u32 pairs = (bits | bits << 14) & 0x00030003u;
        return (pairs << 1 | pairs << 8) & 0x02020202u;
    }
};

// Signed bytes: f16 d, then qs.
struct Q8_0 : OneScale {
    static const int BLOCK = 32, BYTES = 34, ZERO = 128;
    u32 q[8];
    __device__ __forceinline__ void load(const u8* row, int piece) {
        const u8* block = row + piece * BYTES;
        d = f16_at(block);
#pragma unroll
        for (int i = 0; i < 8; i++) q[i] = u32_at(block + 2 + 4 * i);
    }
    __device__ __forceinline__ u32 codes(int group) const { return q[group] ^ 0x80808080u; }
};

// Nibbles: f16 d, then qs, the low ones first.
struct Q4_0 : OneScale {
    static const int BLOCK = 32, BYTES = 18, ZERO = 8;
    u32 q[4];
    __device__ __forceinline__ void load(const u8* row, int piece) {
        const u8* block = row + piece * BYTES;
        d = f16_at(block);
#pragma unroll
        for (int i = 0; i < 4; i++) q[i] = u32_at(block + 2 + 4 * i);
    }
    __device__ __forceinline__ u32 codes(int group) const { return q[group % 4] >> 4 * (group / 4) & 0x0f0f0f0fu; }
};

// Two-bit codes, the elements of a byte 32 apart: qs, then f16 d. A piece takes eight bytes.
struct Tq2_0 : OneScale {
    static const int BLOCK = 256, BYTES = 66, NEAR = 2;
    u32 q[2];
    __device__ __forceinline__ void load(const u8* row, int piece) {
        const u8* block = row + (piece / 8) * BYTES;
        d = f16_at(block + 64);
        q[0] = u32_at(block + 8 * (piece % 8)), q[1] = u32_at(block + 8 * (piece % 8) + 4);
    }
    __device__ __forceinline__ static int at(int piece, int group) {
        return 128 * (piece / 4) + 8 * (piece % 4) + 32 * (group / 2) + 4 * (group % 2);
    }
    __device__ __forceinline__ u32 codes(int group) const { return q[group % 2] >> 2 * (group / 2) & 0x03030303u; }
};

// Nibbles with a scale and a minimum for 32 elements, the elements of a byte 32 apart. A piece takes 16 bytes.
struct Q4_K {
    static const int BLOCK = 256, BYTES = 144, ZERO = 0, RUN = 4, NEAR = 4;
    static const bool HAS_MIN = true;
    u32 q[4];
    float steps[2], depths[2];
    __device__ __forceinline__ void load(const u8* row, int piece) {
        const u8* block = row + (piece / 8) * BYTES;
        const float d = f16_at(block), dmin = f16_at(block + 2);
        const int pair = piece % 8 / 2;
        // Scales 2 pair and 2 pair + 1, packed as six_bit_scales.rs says: the upper four are split.
        const u32 low = u16_at(block + 4 + 2 * pair % 4), high = u16_at(block + 8 + 2 * pair % 4);
        const u32 tail = u16_at(block + 12 + 2 * pair % 4);
        const bool is_upper = pair >= 2;
        const u32 scales = is_upper ? (tail & 0x0f0fu) | (low >> 6 & 0x0303u) << 4 : low & 0x3f3fu;
        const u32 mins = is_upper ? (tail >> 4 & 0x0f0fu) | (high >> 6 & 0x0303u) << 4 : high & 0x3f3fu;
        steps[0] = d * (float)(scales & 255u), steps[1] = d * (float)(scales >> 8);
        depths[0] = dmin * (float)(mins & 255u), depths[1] = dmin * (float)(mins >> 8);
        const uint4 qs = __ldg((const uint4*)(block + 16 + 16 * (piece % 8))); // 144 bytes keep the alignment of the matrix
        q[0] = qs.x, q[1] = qs.y, q[2] = qs.z, q[3] = qs.w;
    }
    __device__ __forceinline__ static int at(int piece, int group) {
        return 64 * (piece / 2) + 16 * (piece % 2) + 32 * (group / 4) + 4 * (group % 4);
    }
    __device__ __forceinline__ u32 codes(int group) const { return q[group % 4] >> 4 * (group / 4) & 0x0f0f0f0fu; }
    __device__ __forceinline__ float scale(int run) const { return steps[run]; }
    __device__ __forceinline__ float min(int run) const { return depths[run]; }
};

// Six bits with a scale for 16 elements. A piece takes eight bytes of qh and what belongs to them.
struct Q6_K {
    static const int BLOCK = 256, BYTES = 210, ZERO = 32, RUN = 2, NEAR = 2;
    static const bool HAS_MIN = false;
    u32 low[4], high[2];
    float steps[4];
    __device__ __forceinline__ void load(const u8* row, int piece) {
        const u8* block = row + (piece / 8) * BYTES;
        const int half = piece % 8 / 4, first = 8 * (piece % 4);
        const u8* ql = block + 64 * half + first;
        const u8* qh = block + 128 + 32 * half + first;
        low[0] = u32_at(ql), low[1] = u32_at(ql + 4), low[2] = u32_at(ql + 32), low[3] = u32_at(ql + 36);
        high[0] = u32_at(qh), high[1] = u32_at(qh + 4);
        const float d = f16_at(block + 208);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            steps[i] = d * (float)__ldg((const signed char*)(block + 192 + 8 * half + 2 * i + first / 16));
        }
    }
    __device__ __forceinline__ static int at(int piece, int group) {
        return 128 * (piece / 4) + 8 * (piece % 4) + 32 * (group / 2) + 4 * (group % 2);
    }
    __device__ __forceinline__ u32 codes(int group) const {
        const int quarter = group / 2, word = group % 2;
        return (low[quarter % 2 * 2 + word] >> 4 * (quarter / 2) & 0x0f0f0f0fu) |
               (high[word] >> 2 * quarter & 0x03030303u) << 4;
    }
    __device__ __forceinline__ float scale(int run) const { return steps[run]; }
    __device__ __forceinline__ float min(int) const { return 0.0f; }
};

// Elements without blocks: 16 bytes of them, and one.
struct Bf16 {
    typedef u16 Bits;
    __device__ __forceinline__ static float value(u16 bits) { return bf16_to_f32(bits); }
    __device__ __forceinline__ static void values(uint4 bits, float* v) {
        const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < 4; i++) v[2 * i] = value((u16)words[i]), v[2 * i + 1] = value((u16)(words[i] >> 16));
    }
};
struct F16 {
    typedef u16 Bits;
    __device__ __forceinline__ static float value(u16 bits) { return f16_to_f32(bits); }
    __device__ __forceinline__ static void values(uint4 bits, float* v) {
        const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < 4; i++) v[2 * i] = value((u16)words[i]), v[2 * i + 1] = value((u16)(words[i] >> 16));
    }
};
struct F32 {
    typedef float Bits;
    __device__ __forceinline__ static float value(float x) { return x; }
    __device__ __forceinline__ static void values(uint4 bits, float* v) {
        v[0] = __uint_as_float(bits.x), v[1] = __uint_as_float(bits.y);
        v[2] = __uint_as_float(bits.z), v[3] = __uint_as_float(bits.w);
    }
};
