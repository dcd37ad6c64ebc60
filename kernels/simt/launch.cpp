// A launch: its blocks one after another, shared by the OS threads that were asked for.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <thread>

#include "schedule.h"

namespace simt {

static void prepare(Block& b, const Launch& l, const Kernel& kernel, void* const* args, unsigned linear) {
    b.grid_dim = {l.grid[0], l.grid[1], l.grid[2]};
    b.block_dim = {l.block[0], l.block[1], l.block[2]};
    b.block_idx = {linear % l.grid[0], linear / l.grid[0] % l.grid[1], linear / l.grid[0] / l.grid[1]};
    b.linear = linear;
    b.threads = l.block[0] * l.block[1] * l.block[2];
    b.nwarps = (b.threads + 31) / 32;
    b.ready_warps = b.nwarps == 32 ? ~0u : (1u << b.nwarps) - 1;
    b.done = b.arrived = 0;
    b.order = Order(l.order);
    b.rng = (l.seed + 1) * 0x9e3779b97f4a7c15u ^ (linear + 1) * 0xbf58476d1ce4e5b9u;
    b.dynamic = l.dynamic;
    b.call = kernel.call;
    b.args = args;
    b.fault_signal = 0;
    b.culprit = nullptr;
    b.place = {};
    b.error.clear();
    b.busy = false;
    b.stop.store(Stop::None, std::memory_order_relaxed);
    b.serial.store(b.serial.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    b.first_tick = b.sync_tick = next_tick();
    for (unsigned i = 0; i < b.nwarps; i++) {
        Warp& w = b.warps[i];
        const unsigned n = std::min(32u, b.threads - i * 32);
        w.index = i;
        w.exist = w.ready = n == 32 ? ~0u : (1u << n) - 1;
        w.done = w.started = w.npending = 0;
        w.sync_tick = b.sync_tick;
    }
}

// All stacks are free again, also those of a block that was left in the middle.
static void free_stacks(Worker* worker) {
    if (worker->n_free == MAX_THREADS) return;
    for (size_t i = 0; i < MAX_THREADS; i++) worker->free_slots[i] = worker->arena + (MAX_THREADS - 1 - i) * SLOT;
    worker->n_free = MAX_THREADS;
}

// What is wrong, or nothing.
static std::string run_block(Worker* worker, const Launch& l, const Kernel& kernel, void* const* args, unsigned linear) {
    Block& b = worker->block;
    prepare(b, l, kernel, args, linear);
    free_stacks(worker);
    forget_copies(worker);
    fill_dynamic(l.dynamic);
    Fiber* first = pick(b, &b.warps[0], nullptr);
    simt_switch(&b.main_sp, first->sp);
    std::string error = error_of(b);
    if (error.empty() && dynamic_is_overrun(l.dynamic)) error = "a thread wrote past the end of dynamic shared memory";
    return error;
}

// Why a grid cannot be launched, null if it can.
static const char* refused(const Launch& l) {
    const uint64_t threads = uint64_t(l.block[0]) * l.block[1] * l.block[2];
    const uint64_t plane = uint64_t(l.grid[0]) * l.grid[1];
    if (l.block[0] > MAX_THREADS || l.block[1] > MAX_THREADS || l.block[2] > 64 || threads == 0 || threads > MAX_THREADS)
        return "invalid block size";
    if (plane == 0 || l.grid[2] == 0) return "invalid grid size";
    if (l.grid[0] > 0x7fffffffu || l.grid[1] > 65535 || l.grid[2] > 65535) return "invalid grid size";
    // Threads of a launch are told apart by 32 bits, and 0 and COPYING are none.
    if (plane > COPYING || plane * l.grid[2] > COPYING || plane * l.grid[2] * threads >= COPYING)
        return "more threads than the emulator counts";
    if (l.dynamic > MAX_DYNAMIC) return "too much dynamic shared memory";
    return nullptr;
}

static std::string run_grid(const Launch& l, const Kernel& kernel, void* const* args) {
    const uint64_t blocks = uint64_t(l.grid[0]) * l.grid[1] * l.grid[2];
    std::atomic<uint64_t> next{0};
    std::mutex error_mutex;
    std::string error;
    const auto stop_with = [&](const std::string& what) {
        std::lock_guard<std::mutex> lock(error_mutex);
        if (error.empty()) error = what;
        next = blocks;
    };
    const auto work = [&] {
        Worker* worker = take_worker();
        if (!worker) return stop_with("the emulator has no room for another OS thread");
        worker->tid = pid_t(syscall(SYS_gettid));
        pthread_getcpuclockid(pthread_self(), &worker->clock);
        worker->shared = shared_base();
        fill_shared();
        begin_checked_launch(worker);
        worker->running = true;
        for (uint64_t i; (i = next++) < blocks;) {
            const uint64_t linear = l.order == Reverse ? blocks - 1 - i : i;
            if (const std::string what = run_block(worker, l, kernel, args, unsigned(linear)); !what.empty()) stop_with(what);
        }
        worker->running = false;
        return_worker(worker);
    };
    if (CHECKED) {  // the records of accesses have no locks
        static std::mutex one_at_a_time;
        std::lock_guard<std::mutex> lock(one_at_a_time);
        work();
        if (error.empty()) end_checked_launch(kernel.name, l.block[0] * l.block[1] * l.block[2]);
        return error;
    }
    std::vector<std::thread> others;
    for (unsigned i = 1; i < l.threads && i < blocks; i++)
        others.emplace_back([&] {
            std::vector<char> stack(64 * 1024);  // for signals; the threads of Rust programs have one already
            const stack_t on{stack.data(), 0, stack.size()}, off{nullptr, SS_DISABLE, 0};
            sigaltstack(&on, nullptr);
            work();
            sigaltstack(&off, nullptr);
        });
    work();
    for (auto& thread : others) thread.join();
    return error;
}

}  // namespace simt

using namespace simt;

EXPORT int simt_launch(const char* name, const Launch* launch, void* const* args, char* error, size_t error_size) {
    const auto say = [&](const std::string& what) {
        snprintf(error, error_size, "%s: %s", name, what.c_str());
        return 1;
    };
    const Kernel* kernel = find_kernel(name);
    if (!kernel) return say("no such kernel");
    if (const char* why = refused(*launch)) return say(why);
    static std::once_flag once;
    std::call_once(once, find_shared);
    install_handlers();
    start_watchdog();
    std::string what = run_grid(*launch, *kernel, args);
    if (what.empty()) what = overrun();
    return what.empty() ? 0 : say(what);
}
