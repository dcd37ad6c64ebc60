// Signals that a kernel raises: the handler leaves the block as if the thread had reported the error itself.
#include <sched.h>
#include <ucontext.h>

#include <mutex>

#include "runtime.h"

namespace simt {

constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, STOP_SIGNAL};
static struct sigaction old_actions[std::size(SIGNALS)];
static std::atomic<bool> installed{false};

// True if the block can be left where it is now.
static bool may_leave(const Block& b, int signal) { return signal != STOP_SIGNAL || (b.stop == Stop::Spins && !b.busy); }

static void on_signal(int signal, siginfo_t* info, void* context) {
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const uintptr_t sp = uintptr_t(registers[REG_RSP]);
    for (const auto& entry : all_workers) {
        Worker* worker = entry;
        if (!worker) break;
        if (!in_arena(worker, sp)) continue;
        Block& b = worker->block;
        if (!may_leave(b, signal)) return;
        b.place.pc = uintptr_t(registers[REG_RIP]) + 1;
        b.fault_address = uintptr_t(info->si_addr);
        b.fault_signal = signal;
        b.fault_is_write = registers[REG_ERR] & 2;
        b.culprit = fiber_in_slot(sp);
        registers[REG_RIP] = greg_t(&simt_leave);
        registers[REG_RDI] = greg_t(b.main_sp);
        return;
    }
    // Not a kernel's: whoever handled it before, another library of these kernels or the host program, handles it.
    while (!installed) sched_yield();
    const size_t i = std::find(std::begin(SIGNALS), std::end(SIGNALS), signal) - std::begin(SIGNALS);
    const struct sigaction& old = old_actions[i];
    if (old.sa_flags & SA_SIGINFO) old.sa_sigaction(signal, info, context);
    else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) old.sa_handler(signal);
    else if (signal != STOP_SIGNAL) sigaction(signal, &old, nullptr);  // the default action, once this returns
}

void install_handlers() {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action {};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
        for (size_t i = 0; i < std::size(SIGNALS); i++) sigaction(SIGNALS[i], &action, &old_actions[i]);
        installed = true;
    });
}

}  // namespace simt
