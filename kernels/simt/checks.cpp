// Checked flavour: each access of a kernel, by the hooks of the compiler's sanitizers (whose own libraries are not linked).
//
// For each byte of shared and device memory it is known who wrote it last and which two threads read it last, and when. An access
// conflicts with one of another thread if no barrier lies between them; that does not depend on the order in which threads run.
#include "runtime.h"

#ifdef SIMT_CHECKED

#include <deque>
#include <map>
#include <mutex>

namespace simt {

std::atomic<unsigned> ticks{1}, launch_tick{1};

// Launches are run one at a time, so what follows needs no locks.

static Counts counts;  // of the launch that runs
static bool keeps_counts;
static std::mutex kept_mutex;
static std::deque<Counts>& kept() {
    static auto* all = new std::deque<Counts>;
    return *all;
}

// Cells of each OS thread's segment of shared memory, by its address.
static std::map<uintptr_t, Cell*>& shared_cells() {
    static auto* all = new std::map<uintptr_t, Cell*>;
    return *all;
}

// Ticks start again before they run out of bits; nothing that was recorded before counts then.
constexpr unsigned LAST_TICK = 1u << 31;

void begin_checked_launch(Worker* worker) {
    Cell*& cells = shared_cells()[worker->shared];
    if (!cells) cells = zero_cells(shared_size());
    worker->shared_cells = cells;
    if (ticks > LAST_TICK) {
        forget_accesses();
        for (const auto& [base, of_thread] : shared_cells()) memset(of_thread, 0, shared_size() * sizeof(Cell));
        ticks = 1;
    }
    launch_tick = next_tick();
    counts = {};
}

void end_checked_launch(const char* kernel, unsigned threads) {
    std::lock_guard<std::mutex> lock(kept_mutex);
    if (!keeps_counts) return;
    counts.kernel = kernel;
    counts.threads = threads;
    kept().push_back(counts);
}

// Counts `n` bytes of device memory with one history, before the access is recorded in them.
static void count(const Cell& c, size_t n, Access kind) {
    const unsigned begin = launch_tick.load(std::memory_order_relaxed);
    const auto is_first = [&](const Who& last) { return !last.thread || last.tick < begin; };
    if (kind != Access::Write) {
        counts.accessed_read += n;
        if (is_first(c.read)) counts.touched_read += n;
    }
    if (kind != Access::Read) {
        counts.accessed_written += n;
        if (is_first(c.write)) counts.touched_written += n;
    }
}

// The few buffers that were touched last, as long as none came or went.
static std::pair<uintptr_t, Buffer> buffer_of(uintptr_t address) {
    static std::pair<uintptr_t, Buffer> recent[4];
    static unsigned seen, next;
    if (const unsigned now = memory_changes(); seen != now) {
        seen = now;
        std::fill(std::begin(recent), std::end(recent), std::pair<uintptr_t, Buffer>());
    }
    for (const auto& entry : recent)
        if (address - entry.first < entry.second.size) return entry;
    return recent[next++ % std::size(recent)] = buffer_around(address);
}

static unsigned number_of(const Fiber* f) { return f->block->linear * f->block->threads + f->linear + 1; }

// Whether another thread of this launch did what `r` records, with no synchronisation in between.
static bool conflicts(const Who& r, const Fiber* f, unsigned me, bool shared) {
    if (!r.thread || r.thread == me || r.tick < launch_tick.load(std::memory_order_relaxed)) return false;
    const Block& b = *f->block;
    const unsigned other = r.thread - 1;
    if (other / b.threads != b.linear) return !shared;  // of another block
    if (other % b.threads / 32 == f->warp->index) return r.tick >= f->warp->sync_tick;
    return r.tick >= b.sync_tick;
}

static std::string thread_name(const Block& b, unsigned number) {
    const unsigned thread = number - 1;
    return "block " + std::to_string(thread / b.threads) + " thread " + std::to_string(thread % b.threads);
}

// What is to be known of the bytes of an access.
struct Bytes {
    Cell* cells;
    unsigned char* init;  // null for shared memory, where the cells tell
    const char* memory;
};

static bool is_copying(const Cell& c, const Block& b) { return c.write.thread == COPYING && c.write.tick >= b.first_tick; }

static bool was_written(const Bytes& bytes, size_t i, const Block& b) {
    if (bytes.init) return bytes.init[i];
    const Who& write = bytes.cells[i].write;
    const bool is_recent = write.thread && write.tick >= launch_tick.load(std::memory_order_relaxed);
    return is_recent && (write.thread - 1) / b.threads == b.linear;
}

static void record_read(Cell& c, Fiber* f, unsigned me, unsigned now, bool shared) {
    const Who& last = c.read;
    const bool of_another = last.thread && last.thread != me;
    const bool of_another_warp = (last.thread - 1) / 32 != (me - 1) / 32;
    // The second place keeps a reader of another warp: a barrier of this warp alone does not order what that one read.
    if (of_another && (of_another_warp || !conflicts(c.read2, f, me, shared))) c.read2 = last;
    c.read = {me, now};
}

static const char* verb(Access kind) {
    return kind == Access::Read ? "read" : kind == Access::Write ? "write" : "atomic operation";
}

static void check_race(Fiber* f, const Who& other, unsigned me, const Bytes& bytes, Access kind, const char* did,
                       const Place& place) {
    if (!conflicts(other, f, me, !bytes.init)) return;
    fail_at(f, place, "data race: %s of %s memory %s by %s without synchronisation in between", verb(kind), bytes.memory, did,
            thread_name(*f->block, other.thread).c_str());
}

static void check_byte(Fiber* f, const Bytes& bytes, size_t i, uintptr_t address, Access kind, const Place& place) {
    const Block& b = *f->block;
    Cell& c = bytes.cells[i];
    const bool shared = !bytes.init;
    const unsigned me = number_of(f), now = ticks.load(std::memory_order_relaxed);
    if (shared && is_copying(c, b))
        fail_at(f, place, "%s of shared memory that a cp.async still writes: it was not waited for", verb(kind));
    if (kind != Access::Write && !was_written(bytes, i, b)) {
        const std::string which = shared ? "never written by this block" : describe(address + i);
        fail_at(f, place, "%s of uninitialised %s memory: %s", verb(kind), bytes.memory, which.c_str());
    }
    if (kind != Access::Atomic) {
        check_race(f, c.write, me, bytes, kind, "written", place);
        if (kind == Access::Write)
            for (const Who* read : {&c.read, &c.read2}) check_race(f, *read, me, bytes, kind, "read", place);
    }
    if (kind == Access::Write) {
        c.write = {me, now};
        if (bytes.init) bytes.init[i] = 1;
    }
    if (kind == Access::Read) record_read(c, f, me, now, shared);
}

// Mostly all bytes of an access have the same history, so that what is found for the first of them holds for all.
static bool are_alike(const Bytes& bytes, size_t n) {
    return !memcmp(bytes.cells, bytes.cells + 1, (n - 1) * sizeof(Cell))
        && (!bytes.init || !memcmp(bytes.init, bytes.init + 1, n - 1));
}
static void copy_record(const Bytes& bytes, size_t i) {
    bytes.cells[i] = bytes.cells[0];
    if (bytes.init) bytes.init[i] = bytes.init[0];
}

void check_access(Fiber* f, uintptr_t a, size_t n, Access kind, const Place& place) {
    if (n == 0) return;
    Block& b = *f->block;
    Worker* worker = worker_of(&b);
    if (a - uintptr_t(worker) < sizeof *worker) return;  // blockIdx and its like
    if (in_arena(worker, a)) {                           // local memory
        if (a >> SLOT_BITS != uintptr_t(f) >> SLOT_BITS) fail_at(f, place, "touches another thread's local memory");
        return;
    }
    Bytes bytes;
    if (a - worker->shared < shared_size()) {
        if (const std::string fault = shared_fault(b, a, n); !fault.empty())
            fail_at(f, place, "out-of-bounds %s of %zu bytes: it %s", verb(kind), n, fault.c_str());
        bytes = {worker->shared_cells + (a - worker->shared), nullptr, "shared"};
    } else {
        if (in_image(a, n)) return;
        const auto [start, buffer] = buffer_of(a);
        if (!start || a < start || a + n > start + buffer.size)
            fail_at(f, place, "out-of-bounds %s of %zu bytes: %s", verb(kind), n, describe(a).c_str());
        bytes = {buffer.cells + (a - start), buffer.init + (a - start), "device"};
    }
    const bool alike = are_alike(bytes, n);
    for (size_t i = 0; bytes.init && i < (alike ? 1 : n); i++) count(bytes.cells[i], alike ? n : 1, kind);
    check_byte(f, bytes, 0, a, kind, place);
    for (size_t i = 1; i < n; i++) {
        if (!alike) check_byte(f, bytes, i, a, kind, place);
        else copy_record(bytes, i);
    }
}

static Cell* shared_cells_at(Fiber* f, void* address) {
    Worker* worker = worker_of(f->block);
    return worker->shared_cells + (uintptr_t(address) - worker->shared);
}

void mark_copying(Fiber* f, void* to, size_t n) {
    for (Cell* c = shared_cells_at(f, to); n--; c++) c->write = {COPYING, ticks};
}

void mark_copied(Fiber* f, void* to, size_t n) {
    for (Cell* c = shared_cells_at(f, to); n--; c++) c->write = {number_of(f), ticks};
}

// What a hook does: a signal of the watchdog must not leave a check half done, its mark is looked for behind it.
static void watched(uintptr_t address, size_t n, Access kind, uintptr_t pc) {
    Fiber* f = self();
    if (address >> SLOT_BITS == uintptr_t(f) >> SLOT_BITS) return;  // its own local memory
    Block& b = *f->block;
    {
        const Busy busy(b);
        check_access(f, address, n, kind, {pc, {}});
    }
    if (b.stop.load(std::memory_order_relaxed) == Stop::Spins)
        fail_stopped(f, {pc, {}});
}

static void watched_aligned(uintptr_t address, size_t n, Access kind, uintptr_t pc) {
    if (address & (n - 1))
        fail_at(self(), {pc, {}}, "misaligned %s of %zu bytes at address 0x%zx", verb(kind), n, size_t(address));
    watched(address, n, kind, pc);
}

}  // namespace simt

using namespace simt;

#define PC uintptr_t(__builtin_return_address(0))
#define HOOKS(N)                                                                                                  \
    extern "C" void __tsan_read##N(void* p) { watched_aligned(uintptr_t(p), N, Access::Read, PC); }               \
    extern "C" void __tsan_write##N(void* p) { watched_aligned(uintptr_t(p), N, Access::Write, PC); }             \
    extern "C" void __tsan_unaligned_read##N(void* p) { watched(uintptr_t(p), N, Access::Read, PC); }             \
    extern "C" void __tsan_unaligned_write##N(void* p) { watched(uintptr_t(p), N, Access::Write, PC); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
extern "C" void __tsan_read_range(void* p, size_t n) { watched(uintptr_t(p), n, Access::Read, PC); }
extern "C" void __tsan_write_range(void* p, size_t n) { watched(uintptr_t(p), n, Access::Write, PC); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}

extern "C" void simt_atomic_access(void* p, size_t n) { watched_aligned(uintptr_t(p), n, Access::Atomic, PC); }

// The head of what the compiler hands over about an undefined operation.
struct UbsanSite {
    const char* file;
    unsigned line, column;
};
extern "C" void __ubsan_handle_out_of_bounds(UbsanSite* at, uintptr_t index) {
    fail_at(self(), {0, {at->file, int(at->line)}}, "array index %zd out of bounds", ssize_t(index));
}
extern "C" void __ubsan_handle_type_mismatch_v1(UbsanSite* at, uintptr_t address) {
    fail_at(self(), {0, {at->file, int(at->line)}}, "misaligned or null access to address 0x%zx", size_t(address));
}

EXPORT void simt_keep_counts(int keep) {
    std::lock_guard<std::mutex> lock(kept_mutex);
    kept().clear();
    keeps_counts = keep;
}

EXPORT int simt_next_counts(Counts* next) {
    std::lock_guard<std::mutex> lock(kept_mutex);
    if (kept().empty()) return 0;
    *next = kept().front();
    kept().pop_front();
    return 1;
}

#else

EXPORT void simt_keep_counts(int) {}
EXPORT int simt_next_counts(simt::Counts*) { return 0; }

#endif
