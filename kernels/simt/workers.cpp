// OS threads that run blocks, each with its stacks; they are kept for the next launch.
#include <sys/mman.h>

#include <mutex>

#include "runtime.h"

namespace simt {

std::atomic<Worker*> all_workers[MAX_WORKERS];

static std::mutex workers_mutex;
static size_t n_workers;
static std::vector<Worker*>& idle_workers() {
    static auto* idle = new std::vector<Worker*>;
    return *idle;
}

Worker* take_worker() {
    std::lock_guard<std::mutex> lock(workers_mutex);
    if (!idle_workers().empty()) {
        Worker* worker = idle_workers().back();
        idle_workers().pop_back();
        return worker;
    }
    if (n_workers == MAX_WORKERS) return nullptr;
    const size_t size = (MAX_THREADS + 1) * SLOT;  // one more, to align the first
    void* arena = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) return nullptr;
    Worker* worker = new Worker;
    worker->arena = (uintptr_t(arena) + SLOT - 1) & ~(SLOT - 1);
    all_workers[n_workers++] = worker;
    return worker;
}

void return_worker(Worker* worker) {
    std::lock_guard<std::mutex> lock(workers_mutex);
    idle_workers().push_back(worker);
}

}  // namespace simt
