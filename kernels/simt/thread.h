// Who a CUDA thread is: its fiber, found from the stack pointer.
#pragma once
#include <cstddef>
#include <cstdint>

namespace simt {

struct Dim3 {
    unsigned x = 1, y = 1, z = 1;
};

// What blockIdx, blockDim and gridDim read.
struct BlockDims {
    Dim3 block_idx, block_dim, grid_dim;
};

struct Warp;
struct Block;  // derives from BlockDims

struct Fiber {
    Dim3 tid;
    unsigned linear, lane;
    Warp* warp;
    Block* block;
    void* sp;  // while another fiber runs
};

// Each fiber has a stack in a slot of this size, aligned to it: no register and no thread-local variable is needed to find it.
constexpr uintptr_t SLOT_BITS = 17, SLOT = uintptr_t(1) << SLOT_BITS;

// The Fiber lies near the top of its slot, at an offset that differs from slot to slot: otherwise what is used most of all fibers
// would fall into the same few lines of the processor's cache.
inline Fiber* fiber_in_slot(uintptr_t any_address_in_slot) {
    const uintptr_t slot = any_address_in_slot >> SLOT_BITS;
    return reinterpret_cast<Fiber*>(((slot + 1) << SLOT_BITS) - 128 - ((slot & 255) << 6));
}

inline __attribute__((always_inline)) Fiber* self() {
    uintptr_t sp;
#if defined(__x86_64__)
    asm("mov %%rsp, %0" : "=r"(sp));
#else
#error "the simt engine runs on x86-64 Linux only; build.rs leaves it out of builds for anything else"
#endif
    return fiber_in_slot(sp);
}

inline const BlockDims& dims() { return *reinterpret_cast<const BlockDims*>(self()->block); }

}  // namespace simt
