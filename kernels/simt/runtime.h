// What the files of the runtime share: warps, blocks, the OS threads that run blocks, and who does what.
//
//   launch.cpp    a grid, block by block           warp.cpp      operations of a warp     memory.cpp   device memory, guards
//   schedule.h    which thread is next             barrier.cpp   __syncthreads            shared.cpp   shared memory
//   fiber.cpp     the switch of stacks             matrix.cpp    mma, ldmatrix            checks.cpp   each access (checked)
//   faults.cpp    signals, the way out of a block  copies.cpp    cp.async                 watchdog.cpp threads that spin
#pragma once
#include <signal.h>
#include <sys/types.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "api.h"
#include "collectives.h"
#include "thread.h"

// Nothing of this is reached from outside of the library, so no access need go through its table of addresses.
#pragma GCC visibility push(hidden)

namespace simt {

#ifdef SIMT_CHECKED
constexpr bool CHECKED = true;
#else
constexpr bool CHECKED = false;
#endif

enum Order : unsigned { Forward = 0, Reverse = 1, Random = 2 };

// An operation of a warp that not all lanes of its mask have reached.
struct Pending {
    unsigned mask, arrived;
    Op op;
    Site site;
};

struct Warp {
    unsigned index, exist, ready, done, started;  // sets of lanes, but for the index
    unsigned sync_tick;                           // the tick at which its lanes last saw each other's writes
    Fiber* fiber[32];
    uint64_t value[32], result[32];
    int source[32];
    Pending pending[32];  // one, unless masks differ
    unsigned npending;
};

// Why the watchdog stops a block.
enum class Stop : int { None, Spins, Endless };

// Where a thread did something: an address of machine code, or a line of source, or neither.
struct Place {
    uintptr_t pc = 0;  // behind the instruction
    Site site = {nullptr, 0};
};

struct Block : BlockDims {
    Warp warps[32];
    unsigned threads, nwarps, ready_warps, done, arrived, linear;
    unsigned first_tick, sync_tick;  // its beginning, its last barrier
    int counted, counted_result;     // by a barrier
    Site barrier;
    Order order;
    uint64_t rng;
    size_t dynamic;
    void (*call)(void* const*);
    void* const* args;
    void* main_sp;

    // What went wrong, set before the block is left.
    std::string error;
    Fiber* culprit;
    Place place;
    int fault_signal;
    uintptr_t fault_address;
    bool fault_is_write;

    // For the watchdog, which reads them from another OS thread: fibers picked, blocks begun. `busy` is set while the runtime
    // does what a signal must not leave half done.
    std::atomic<uint64_t> progress{0}, serial{0};
    std::atomic<Stop> stop{Stop::None};
    volatile bool busy = false;
};

// A cp.async that was not waited for.
struct Copy {
    void* to;
    const void* from;
    unsigned group;
    Site site;
};
struct Copies {
    std::vector<Copy> queue;
    unsigned n_groups = 0;
};

// Who last touched a byte, and when. The thread is linear in the launch, from 1; 0 is nobody.
struct Who {
    unsigned thread, tick;
};
// The thread of a byte that a cp.async is on its way to.
constexpr unsigned COPYING = ~0u;
struct Cell {
    Who write, read, read2;
};

// A buffer ends, rounded up to 16 bytes, right before pages that cannot be accessed, and begins behind such pages.
struct Buffer {
    size_t size;
    uintptr_t map;
    size_t map_size;
    Cell* cells;  // checked: one for each byte, and whether it was written
    unsigned char* init;
};

constexpr size_t MAX_THREADS = 1024;  // of a block

// An OS thread while it runs blocks.
struct Worker {
    uintptr_t arena = 0;                 // slots of stacks
    uintptr_t free_slots[MAX_THREADS];   // a stack: the slot used last is in the cache
    size_t n_free = 0, n_mapped = 0;     // slots below `n_mapped` can be accessed, but for their lowest page
    uintptr_t shared = 0;                // the OS thread's segment of shared memory
    Cell* shared_cells = nullptr;        // checked
    std::vector<Copies> copies;          // one for each thread of the block
    bool any_copies = false;
    Block block;

    // For the watchdog.
    std::atomic<bool> running{false};
    pid_t tid = 0;
    clockid_t clock = 0;
};

inline Worker* worker_of(Block* block) {
    return reinterpret_cast<Worker*>(reinterpret_cast<char*>(block) - __builtin_offsetof(Worker, block));
}
inline bool in_arena(const Worker* worker, uintptr_t address) { return address - worker->arena < MAX_THREADS * SLOT; }

// ---- fiber.cpp
extern "C" void simt_switch(void** save_sp, void* to_sp);
extern "C" [[noreturn]] void simt_leave(void* to_sp);
Fiber* fresh_fiber(Worker* worker);

// ---- errors.cpp
[[noreturn]] void fail(const char* format, ...);  // names the place in its text
[[noreturn]] void fail_at(Fiber* culprit, const Place& place, const char* format, ...);
[[noreturn]] void fail_stopped(Fiber* culprit, const Place& place);  // by the watchdog
std::string stuck(const Block& block);  // which threads wait where
std::string error_of(const Block& block);  // empty if nothing went wrong
const char* base_name(const char* path);

// ---- workers.cpp
constexpr size_t MAX_WORKERS = 256;
extern std::atomic<Worker*> all_workers[MAX_WORKERS];  // read by signal handlers, so without a lock; from the front
Worker* take_worker();                                 // null if there are too many
void return_worker(Worker* worker);

// ---- faults.cpp, watchdog.cpp
constexpr int STOP_SIGNAL = SIGURG;  // nothing happens where it is not handled
void install_handlers();
void start_watchdog();
double watchdog_seconds();
constexpr double ENDLESS = 10;  // times as long a whole block may take

// ---- memory.cpp
std::pair<uintptr_t, Buffer> buffer_around(uintptr_t address);  // its start; 0 if neither a buffer nor its guards are there
unsigned memory_changes();                                      // how often buffers came or went
std::string describe(uintptr_t address);
std::string overrun();  // what was written between the end of a buffer and its guard
Cell* zero_cells(size_t n);
void forget_accesses();

// ---- shared.cpp
void find_shared();
size_t shared_size();
uintptr_t shared_base();                    // of the calling OS thread
void fill_shared();                         // with poison
void fill_dynamic(size_t size);
bool dynamic_is_overrun(size_t size);
uintptr_t dynamic_base();
bool in_image(uintptr_t address, size_t size);  // constants and __device__ variables
std::string shared_fault(const Block& block, uintptr_t address, size_t size);  // empty if it lies in the block's shared memory

// ---- kernels.cpp
struct Kernel {
    const char *name, *signature;
    void (*call)(void* const*);
};
const Kernel* find_kernel(const char* name);

// ---- checks.cpp; in the fast flavour nothing happens
enum class Access { Read, Write, Atomic };
#ifdef SIMT_CHECKED
extern std::atomic<unsigned> ticks, launch_tick;  // advance at every synchronisation, block and launch
inline unsigned next_tick() { return ++ticks; }
void begin_checked_launch(Worker* worker);
void end_checked_launch(const char* kernel, unsigned threads);
void check_access(Fiber* fiber, uintptr_t address, size_t size, Access kind, const Place& place);
void mark_copying(Fiber* fiber, void* to, size_t size);
void mark_copied(Fiber* fiber, void* to, size_t size);
#else
inline unsigned next_tick() { return 0; }
inline void begin_checked_launch(Worker*) {}
inline void end_checked_launch(const char*, unsigned) {}
inline void check_access(Fiber*, uintptr_t, size_t, Access, const Place&) {}
inline void mark_copying(Fiber*, void*, size_t) {}
inline void mark_copied(Fiber*, void*, size_t) {}
#endif

// ---- matrix.cpp, copies.cpp
void matrix_operation(Warp& warp, Op op, Site site);
void forget_copies(Worker* worker);

// While it lives a signal of the watchdog only leaves its mark.
struct Busy {
    Block& block;
    explicit Busy(Block& b) : block(b) { block.busy = true; }
    ~Busy() { block.busy = false; }
};

}  // namespace simt

#pragma GCC visibility pop
