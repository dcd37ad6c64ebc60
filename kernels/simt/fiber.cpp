// The switch from one stack to another, and the life of a fiber: it becomes one thread after another, while they do not wait.
#include <sys/mman.h>

#include "schedule.h"

#if !defined(__x86_64__) || !defined(__linux__)
#error "the simt engine runs on x86-64 Linux only; build.rs leaves it out of builds for anything else"
#endif

// It ends with a `ret`, which the processor predicts better than a jump. Only what a call must preserve is saved.
asm(R"(
.text
.globl simt_switch
.hidden simt_switch
.type simt_switch,@function
simt_switch:                      # (void** save_sp, void* to_sp)
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rdi
.globl simt_leave
.hidden simt_leave
simt_leave:                       # (void* to_sp)
  mov %rdi, %rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
  ret
)");

namespace simt {

[[noreturn]] static void fiber_main() {
    Fiber* f = self();
    Block& b = *f->block;
    for (;;) {
        b.call(b.args);
        Warp& w = *f->warp;
        const unsigned me = 1u << f->lane;
        if (b.arrived) {
            const Site& at = b.barrier;
            fail("exits while %u thread(s) wait in __syncthreads at %s:%d", b.arrived, base_name(at.file), at.line);
        }
        for (unsigned k = 0; k < w.npending; k++) {
            const Pending& p = w.pending[k];
            if (!(p.mask & me)) continue;
            fail("exits while lanes %08x wait for it in a warp operation at %s:%d", p.arrived, base_name(p.site.file),
                 p.site.line);
        }
        w.done |= me;
        b.done++;
        Fiber* next = pick(b, &w, f);
        if (next == f) continue;  // it is another thread now, on the same stack
        if (!next && b.done != b.threads) fail("%s", stuck(b).c_str());
        Worker* worker = worker_of(&b);
        worker->free_slots[worker->n_free++] = uintptr_t(f);
        simt_leave(next ? next->sp : b.main_sp);
    }
}

// What simt_switch pops: six registers, then the address to return to.
static void* fresh_stack(Fiber* f) {
    void** sp = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(f) & ~uintptr_t(63));
    *--sp = nullptr;  // where fiber_main would return to: rsp is 8 mod 16 at its entry, as after a call
    *--sp = reinterpret_cast<void*>(&fiber_main);
    for (int i = 0; i < 6; i++) *--sp = nullptr;
    return sp;
}

// The lowest page of a slot stays inaccessible: a stack that overflows faults.
Fiber* fresh_fiber(Worker* worker) {
    const uintptr_t slot = worker->free_slots[--worker->n_free];
    if (slot >= worker->arena + worker->n_mapped * SLOT) {
        mprotect(reinterpret_cast<void*>(worker->arena + worker->n_mapped * SLOT + 4096), SLOT - 4096, PROT_READ | PROT_WRITE);
        worker->n_mapped++;
    }
    Fiber* f = fiber_in_slot(slot);
    f->sp = fresh_stack(f);
    return f;
}

}  // namespace simt
