// What kernels/mma.cuh calls: a lane hands the address of its operands to the operation of its warp (matrix.cpp).
#pragma once

namespace simt {

struct MmaOperands {
    uint32_t a[4], b[2], c[4], d[4];  // c and d: int or float by their bits
};

struct LdmatrixOperands {
    const void* row;
    uint32_t to[4];
};

template <class T>
SIMT_FN void mma(Op op, T d[4], const unsigned a[4], const unsigned b[2], const T c[4], const char* file, int line) {
    static_assert(sizeof(T) == 4, "int or float");
    MmaOperands lane;
    for (int i = 0; i < 4; i++) lane.a[i] = a[i];
    for (int i = 0; i < 2; i++) lane.b[i] = b[i];
    for (int i = 0; i < 4; i++) lane.c[i] = uint32_t(to_bits(c[i]));
    simt_collective(op, 0xffffffffu, uint64_t(&lane), 0, file, line);
    asm volatile("" ::: "memory");
    for (int i = 0; i < 4; i++) d[i] = from_bits<T>(lane.d[i]);
}

template <int N> SIMT_FN void ldmatrix(Op op, unsigned* to, const void* row, const char* file, int line) {
    LdmatrixOperands lane;
    lane.row = row;
    asm volatile("" ::: "memory");
    simt_collective(op, 0xffffffffu, uint64_t(&lane), 0, file, line);
    asm volatile("" ::: "memory");
    for (int i = 0; i < N; i++) to[i] = lane.to[i];
}

SIMT_FN void cp_async(void* to, const void* from, const char* file, int line) {
    (void)*static_cast<const volatile char*>(from);  // a source out of bounds faults here, not where the copy is carried out
    simt_cp_async(to, from, file, line);
}

SIMT_FN void cp_async_wait(unsigned groups_left) {
    asm volatile("" ::: "memory");
    simt_cp_async_wait(groups_left);
    asm volatile("" ::: "memory");
}

}  // namespace simt
