// Formats of five trits a byte: PTQ1_0 and TQ1_0 (src/quant/trits.rs).
//
// A block has N words of long runs, N / 2 words of short ones, and a rest of four trits a byte. Piece p of a block takes word p of the
// long ones: 5 groups. Two pieces share a word of the short ones: the even one takes its trits 0, 1, 2, the odd one 3 and 4, and a
// group of the rest.
#pragma once
#include "formats.cuh"

// Four bytes as fixed-point fractions, two in each half word apart: each step brings a trit above them.
struct Trits {
    u32 even, odd;
    __device__ __forceinline__ void set(u32 word) { even = word & 0x00ff00ffu, odd = word >> 8 & 0x00ff00ffu; }
    // Leaves the first n trits out, by 3^n.
    __device__ __forceinline__ void skip(u32 power) {
        even = even * power & 0x00ff00ffu, odd = odd * power & 0x00ff00ffu;
    }
    __device__ __forceinline__ u32 next() {
        even *= 3u, odd *= 3u;
        const u32 trits = (even >> 8 & 0x00030003u) | (odd & 0x03000300u);
        even &= 0x00ff00ffu, odd &= 0x00ff00ffu;
        return trits;
    }
};

template <int N> struct FiveTrits : OneScale {
    static const int NEAR = 1;
    u32 words[3];
    bool is_odd;
    Trits trits;
    __device__ __forceinline__ static int at(int piece, int group) {
        const int p = piece % N, base = piece / N * N * PIECE;
        if (group < 5) return base + 4 * p + 4 * N * group;
        const int n = group - 5 + 3 * (p % 2);
        return base + (n < 5 ? 20 * N + 4 * (p / 2) + 2 * N * n : 30 * N + 4 * (p / 2));
    }
    __device__ __forceinline__ u32 codes(int group) {
        if (group == 0) trits.set(words[0]);
        if (group == 5) trits.set(words[1]), trits.skip(is_odd ? 27u : 1u);
        if (group == 7 && is_odd) return words[2];
        return trits.next();
    }
};

// 24 bytes of five trits, two of four, f16 d. Blocks are at addresses that are multiples of 4.
struct Ptq1_0 : FiveTrits<4> {
    static const int BLOCK = 128, BYTES = 28;
    __device__ __forceinline__ void load(const u8* row, int piece) {
        const u32* block = (const u32*)(row + (piece / 4) * BYTES);
        const int p = piece % 4;
        is_odd = p % 2;
        words[0] = __ldg(block + p), words[1] = __ldg(block + 4 + p / 2);
        const u32 rest = __ldg(block + 6);
        d = f16_to_f32((u16)(rest >> 16));
        // Elements 120 + h + 2 n: bytes h of trits n and n + 1.
        Trits both;
        both.set((rest & 0xffffu) | rest << 16);
        both.skip(p < 2 ? 1u : 9u);
        const u32 first = both.next(), second = both.next();
        words[2] = (first & 0xffffu) | second << 16;
    }
};

// 48 bytes of five trits, four of four, f16 d.
struct Tq1_0 : FiveTrits<8> {
    static const int BLOCK = 256, BYTES = 54;
    __device__ __forceinline__ void load(const u8* row, int piece) {
        const u8* block = row + (piece / 8) * BYTES;
        const int p = piece % 8;
        is_odd = p % 2;
        words[0] = u32_at(block + 4 * p), words[1] = u32_at(block + 32 + 4 * (p / 2));
        d = f16_at(block + 52);
        Trits rest;
        rest.set(u32_at(block + 48));
        rest.skip(p < 2 ? 1u : p < 4 ? 3u : p < 6 ? 9u : 27u);
        words[2] = rest.next();
    }
};
