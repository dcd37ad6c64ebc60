// What the library exports beside the driver's functions, for driver_*.cpp, src/engine/gpu/simt.rs and tests.
#pragma once
#include <cstddef>
#include <cstdint>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace simt {

// A launch, and how it is run: `order` of threads (0 forward, 1 reverse, 2 random by `seed`), OS threads that share the blocks.
struct Launch {
    unsigned grid[3], block[3];
    unsigned dynamic;  // bytes of dynamic shared memory
    unsigned order;
    uint64_t seed;
    unsigned threads;
};

// What a launch did to device memory (checked flavour): bytes that it touched, and bytes of all its accesses together.
struct Counts {
    const char* kernel;
    uint64_t threads;  // of a block
    uint64_t touched_read, touched_written, accessed_read, accessed_written;
};

// Device memory in all, and dynamic shared memory that a block can have: what an sm_12x part offers (sm_90 has 227 KiB).
constexpr size_t TOTAL_MEMORY = size_t(16) << 30, MAX_DYNAMIC = 99 * 1024;

}  // namespace simt

// Null where there is no room.
EXPORT void* simt_alloc(size_t size);
// 0, or 1 if there is no such buffer.
EXPORT int simt_free(void* address);
EXPORT int simt_live_buffers();
EXPORT size_t simt_free_memory();
// 0 if [address, address + size) lies in one buffer. The bytes count as written if the host is about to write them.
EXPORT int simt_host_access(void* address, size_t size, int write);
// Copies within device memory; 1 if either is not in one buffer.
EXPORT int simt_device_copy(void* to, const void* from, size_t size);
// A letter for each parameter of a kernel (entry.h), null if there is no such kernel.
EXPORT const char* simt_signature(const char* name);
// Runs a grid to its end. 0, or 1 with what is wrong in `error`.
EXPORT int simt_launch(const char* name, const simt::Launch* launch, void* const* args, char* error, size_t error_size);
// Seconds of processor time after which a thread that lets no other thread of its block run is taken for one that never will.
EXPORT void simt_set_watchdog(double seconds);
// How what the calling thread launches through the driver is run from now on.
EXPORT void simt_set_schedule(unsigned order, uint64_t seed, unsigned threads);
// Forgets the counts of earlier launches and from now on keeps those of every launch, or (0) of none.
EXPORT void simt_keep_counts(int keep);
// The oldest counts that were kept, which are then forgotten; 0 if there are none.
EXPORT int simt_next_counts(simt::Counts* counts);
