// Threads that spin: fibers are not preempted, so a thread that waits for another one without a barrier would hang forever.
//
// A thread of its own looks at every worker a few times per second. It counts the worker's processor time, so that a machine that
// is busy with something else makes no kernel look stuck.
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "runtime.h"

namespace simt {

static std::atomic<double> limit_seconds{20};

double watchdog_seconds() { return limit_seconds; }

// What was seen of a worker when it last began a block, and when a fiber of it was last picked.
struct Seen {
    uint64_t serial = 0, progress = 0;
    double block_began = 0, picked = 0, marked = 0;
};

static double processor_time(clockid_t clock) {
    timespec now{};
    return clock_gettime(clock, &now) ? 0 : double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

static void look_at(Worker& worker, Seen& seen) {
    if (!worker.running) return;
    Block& b = worker.block;
    const uint64_t serial = b.serial, progress = b.progress;
    const double now = processor_time(worker.clock), limit = limit_seconds;
    if (seen.serial != serial) seen = {serial, progress, now, now, 0};
    if (seen.progress != progress) {
        seen.progress = progress;
        seen.picked = now;
    }
    if (now - seen.picked > limit) {
        // First the mark alone: the checks, if the thread accesses memory, know the line better than what the signal interrupts.
        if (b.stop != Stop::Spins) {
            b.stop = Stop::Spins;
            seen.marked = now;
        } else if (now - seen.marked > limit / 4) {
            syscall(SYS_tgkill, getpid(), worker.tid, STOP_SIGNAL);
        }
    } else if (now - seen.block_began > ENDLESS * limit) {
        b.stop = Stop::Endless;  // the next thread that waits for others finds the mark
    }
    if (b.serial != serial) b.stop = Stop::None;  // the mark was meant for the block before
}

static void watch() {
    static Seen seen[MAX_WORKERS];
    for (;;) {
        std::this_thread::sleep_for(std::chrono::duration<double>(std::min(limit_seconds / 4, 0.25)));
        for (size_t i = 0; i < MAX_WORKERS && all_workers[i]; i++) look_at(*all_workers[i], seen[i]);
    }
}

// The thread takes no signals that are meant for the process.
void start_watchdog() {
    static std::once_flag once;
    std::call_once(once, [] {
        sigset_t all, old;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        std::thread(watch).detach();
        pthread_sigmask(SIG_SETMASK, &old, nullptr);
    });
}

}  // namespace simt

EXPORT void simt_set_watchdog(double seconds) { simt::limit_seconds = seconds; }
