// ldmatrix and mma.sync, carried out by the last lane for its whole warp, with the layouts that kernels/mma.cuh describes.
#include "simt.h"
//
#include "runtime.h"

#undef assert

namespace simt {

constexpr unsigned LANES = 32, ROWS = 8, ROW_BYTES = 16;  // of one 8x8 matrix of 16-bit elements

// What a lane receives of a matrix, from the rows that 8 lanes have named.
static uint32_t fragment(const uint16_t* const rows[ROWS], unsigned lane, bool transposed) {
    const unsigned major = lane / 4, minor = 2 * (lane % 4);
    const uint16_t low = transposed ? rows[minor][major] : rows[major][minor];
    const uint16_t high = transposed ? rows[minor + 1][major] : rows[major][minor + 1];
    return uint32_t(high) << 16 | low;
}

static void ldmatrix(Warp& w, unsigned n_matrices, bool transposed, Site site) {
    const Place place{0, site};
    const auto operands = [&](unsigned lane) { return reinterpret_cast<LdmatrixOperands*>(w.value[lane]); };
    for (unsigned lane = 0; lane < n_matrices * ROWS; lane++) {
        const uintptr_t row = uintptr_t(operands(lane)->row);
        if (row % ROW_BYTES) fail_at(w.fiber[lane], place, "misaligned row of ldmatrix at address 0x%zx", size_t(row));
        if (const std::string fault = shared_fault(*w.fiber[lane]->block, row, ROW_BYTES); !fault.empty())
            fail_at(w.fiber[lane], place, "out-of-bounds row of ldmatrix: it %s", fault.c_str());
    }
    for (unsigned m = 0; m < n_matrices; m++) {
        const uint16_t* rows[ROWS];
        for (unsigned i = 0; i < ROWS; i++) rows[i] = static_cast<const uint16_t*>(operands(m * ROWS + i)->row);
        for (unsigned lane = 0; lane < LANES; lane++) {
            const unsigned major = lane / 4, minor = 2 * (lane % 4);
            // The lane that receives a value is the one that reads it.
            for (unsigned i = 0; CHECKED && i < 2; i++) {
                const uint16_t* element = transposed ? &rows[minor + i][major] : &rows[major][minor + i];
                check_access(w.fiber[lane], uintptr_t(element), sizeof *element, Access::Read, place);
            }
            operands(lane)->to[m] = fragment(rows, lane, transposed);
        }
    }
}

static float f16(uint16_t bits) { return __half2float({bits}); }
static float bf16(uint16_t bits) { return __uint_as_float(uint32_t(bits) << 16); }

// d = a b + c with a [16, 8 words], b [8 columns, 8 words]: 32-bit words of four s8 or two 16-bit elements, which lie in the
// fragments of all types alike. `dot` adds the products of one word of each to a sum.
template <class T, class Sum, class Dot> static void mma(Warp& w, Dot dot) {
    uint32_t a[16][8], b[8][8];
    const auto operands = [&](unsigned lane) { return reinterpret_cast<MmaOperands*>(w.value[lane]); };
    for (unsigned lane = 0; lane < LANES; lane++) {
        const unsigned group = lane / 4, in_group = lane % 4;
        for (unsigned i = 0; i < 4; i++) a[group + i % 2 * 8][in_group + i / 2 * 4] = operands(lane)->a[i];
        for (unsigned i = 0; i < 2; i++) b[group][in_group + i * 4] = operands(lane)->b[i];
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        const unsigned group = lane / 4, in_group = lane % 4;
        for (unsigned i = 0; i < 4; i++) {
            const unsigned row = group + i / 2 * 8, column = in_group * 2 + i % 2;
            Sum sum = Sum(from_bits<T>(operands(lane)->c[i]));
            for (unsigned k = 0; k < 8; k++) sum = dot(sum, a[row][k], b[column][k]);
            operands(lane)->d[i] = uint32_t(to_bits(T(sum)));
        }
    }
}

// A GPU adds up in an order and with roundings that nothing documents; here the sum is rounded once.
template <class Convert> static void mma_float(Warp& w, Convert convert) {
    mma<float, double>(w, [=](double sum, uint32_t a, uint32_t b) {
        sum += double(convert(uint16_t(a))) * double(convert(uint16_t(b)));
        return sum + double(convert(uint16_t(a >> 16))) * double(convert(uint16_t(b >> 16)));
    });
}

static uint32_t dot_s8(uint32_t sum, uint32_t a, uint32_t b) { return sum + uint32_t(__dp4a(int(a), int(b), 0)); }  // it wraps

void matrix_operation(Warp& w, Op op, Site site) {
    const Busy busy(*w.fiber[__builtin_ctz(w.exist)]->block);
    switch (op) {
        case Op::Ldmatrix1: return ldmatrix(w, 1, false, site);
        case Op::Ldmatrix2: return ldmatrix(w, 2, false, site);
        case Op::Ldmatrix4: return ldmatrix(w, 4, false, site);
        case Op::Ldmatrix1Trans: return ldmatrix(w, 1, true, site);
        case Op::Ldmatrix2Trans: return ldmatrix(w, 2, true, site);
        case Op::Ldmatrix4Trans: return ldmatrix(w, 4, true, site);
        case Op::MmaS8: return mma<uint32_t, uint32_t>(w, dot_s8);
        case Op::MmaF16: return mma_float(w, f16);
        case Op::MmaBf16: return mma_float(w, bf16);
        default: return;
    }
}

}  // namespace simt
