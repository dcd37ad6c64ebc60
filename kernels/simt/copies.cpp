// cp.async: a copy is carried out when its thread waits for it, as late as a GPU may.
//
// Until then its destination holds what it held before, and the checks know that it must not be touched. Other threads need a
// barrier behind the wait, as for any write.
#include "runtime.h"

namespace simt {

constexpr size_t BYTES = 16;

void forget_copies(Worker* worker) {
    if (!worker->any_copies) return;
    worker->copies.clear();
    worker->any_copies = false;
}

static Copies& copies_of(Fiber* f) {
    Worker* worker = worker_of(f->block);
    worker->any_copies = true;
    if (worker->copies.size() < MAX_THREADS) worker->copies.resize(MAX_THREADS);
    return worker->copies[f->linear];
}

}  // namespace simt

using namespace simt;

extern "C" void simt_cp_async(void* to, const void* from, const char* file, int line) {
    Fiber* f = self();
    const Busy busy(*f->block);
    const Place place{0, {file, line}};
    if ((uintptr_t(to) | uintptr_t(from)) % BYTES)
        fail_at(f, place, "misaligned cp.async from address 0x%zx to address 0x%zx", size_t(from), size_t(to));
    if (const std::string fault = shared_fault(*f->block, uintptr_t(to), BYTES); !fault.empty())
        fail_at(f, place, "out-of-bounds destination of cp.async: it %s", fault.c_str());
    check_access(f, uintptr_t(from), BYTES, Access::Read, place);
    check_access(f, uintptr_t(to), BYTES, Access::Write, place);
    mark_copying(f, to, BYTES);
    Copies& copies = copies_of(f);
    copies.queue.push_back({to, from, copies.n_groups, {file, line}});
}

extern "C" void simt_cp_async_commit() {
    Fiber* f = self();
    const Busy busy(*f->block);
    copies_of(f).n_groups++;
}

// Carries out what belongs to all groups but the last few. What was not committed belongs to a group still to come.
extern "C" void simt_cp_async_wait(unsigned groups_left) {
    Fiber* f = self();
    const Busy busy(*f->block);
    Copies& copies = copies_of(f);
    const auto waits = [&](const Copy& copy) { return copy.group + groups_left < copies.n_groups; };
    for (const Copy& copy : copies.queue) {
        if (!waits(copy)) continue;
        memcpy(copy.to, copy.from, BYTES);
        mark_copied(f, copy.to, BYTES);
    }
    copies.queue.erase(std::remove_if(copies.queue.begin(), copies.queue.end(), waits), copies.queue.end());
}
