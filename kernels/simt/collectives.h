// What kernels call in the runtime: barriers, operations of a warp, asynchronous copies.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace simt {

// A line of a kernel file.
struct Site {
    const char* file;
    int line;
};

// What the lanes of a warp do together.
enum class Op : int {
    Sync, Shuffle, Ballot,
    Add, Min, Max, MinU, MaxU, And, Or, Xor,
    Ldmatrix1, Ldmatrix2, Ldmatrix4, Ldmatrix1Trans, Ldmatrix2Trans, Ldmatrix4Trans,
    MmaS8, MmaF16, MmaBf16,
};

// How the predicates that threads bring to a barrier are counted.
enum class Count : int { Nothing, True, False };

extern "C" {
int simt_syncthreads(Count count, int predicate, const char* file, int line);
// `value` is the lane's contribution; for the operations on matrices, the address of its operands.
uint64_t simt_collective(Op op, unsigned mask, uint64_t value, int source_lane, const char* file, int line);
void simt_cp_async(void* to, const void* from, const char* file, int line);
void simt_cp_async_commit();
void simt_cp_async_wait(unsigned groups_left);
[[noreturn]] void simt_assert(const char* condition, const char* file, int line);
// For an atomic operation that watched code performs itself.
void simt_atomic_access(void* address, size_t size);
}

template <class T> uint64_t to_bits(T value) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "a shuffle takes at most 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T> T from_bits(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace simt
