// What is wrong, in words: who did it, where, and for threads that wait for each other who waits where.
#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>

#include "runtime.h"

namespace simt {

// Abandons the fibers of the block as they are: kernels own nothing.
[[noreturn]] static void leave(Fiber* culprit, const Place& place, const char* format, va_list args) {
    Block& b = *culprit->block;
    b.busy = true;
    char text[900];
    vsnprintf(text, sizeof text, format, args);
    b.error = text;
    b.culprit = culprit;
    b.place = place;
    simt_leave(b.main_sp);
}

void fail(const char* format, ...) {
    va_list args;
    va_start(args, format);
    leave(self(), {}, format, args);
}

void fail_at(Fiber* culprit, const Place& place, const char* format, ...) {
    va_list args;
    va_start(args, format);
    leave(culprit, place, format, args);
}

const char* base_name(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

template <class... A> static std::string text(const char* format, A... args) {
    char buffer[400];
    snprintf(buffer, sizeof buffer, format, args...);
    return buffer;
}

static std::string waiting(const Block& b) {
    std::string all;
    for (unsigned i = 0; i < b.nwarps; i++) {
        const Warp& w = b.warps[i];
        unsigned in_operations = 0;
        for (unsigned k = 0; k < w.npending; k++) {
            const Pending& p = w.pending[k];
            all += text(" [warp %u lanes %08x in a warp operation of mask %08x at %s:%d]", i, p.arrived, p.mask,
                        base_name(p.site.file), p.site.line);
            in_operations |= p.arrived;
        }
        const unsigned in_barrier = b.arrived ? w.exist & ~in_operations & ~w.done & ~w.ready : 0;
        if (in_barrier)
            all += text(" [warp %u lanes %08x in __syncthreads at %s:%d]", i, in_barrier, base_name(b.barrier.file),
                        b.barrier.line);
        if (w.done) all += text(" [warp %u lanes %08x exited]", i, w.done);
        if (all.size() > 600) return all + " ...";
    }
    return all;
}

std::string stuck(const Block& b) { return "threads wait for each other forever:" + waiting(b); }

static std::string spins() { return text("spins: lets no other thread of its block run for %.3g s", watchdog_seconds()); }

void fail_stopped(Fiber* culprit, const Place& place) {
    if (culprit->block->stop == Stop::Spins) fail_at(culprit, place, "%s", spins().c_str());
    fail_at(culprit, place, "runs without an end: its block has taken more than %.3g s", ENDLESS * watchdog_seconds());
}

// The line of machine code, and where what it belongs to was inlined; empty where nothing is known.
static std::string source_of(uintptr_t pc) {
    Dl_info info;
    if (!pc || !dladdr(reinterpret_cast<void*>(pc), &info) || !info.dli_fname) return "";
    std::string lines[2];  // innermost, outermost
    const size_t offset = pc - 1 - uintptr_t(info.dli_fbase);
    const std::string command = text("addr2line -i -e '%s' 0x%zx 2>/dev/null", info.dli_fname, offset);
    if (FILE* pipe = popen(command.c_str(), "r")) {
        char line[400];
        for (int i = 0; fgets(line, sizeof line, pipe); i = 1) {
            line[strcspn(line, "\n(")] = 0;
            while (line[0] && line[strlen(line) - 1] == ' ') line[strlen(line) - 1] = 0;
            lines[i] = base_name(line);
        }
        pclose(pipe);
    }
    if (lines[0].empty() || lines[0][0] == '?') return "";
    return " at " + lines[0] + (lines[1].empty() ? "" : ", inlined at " + lines[1]);
}

static std::string who(const Fiber* f) {
    const Dim3 &b = f->block->block_idx, &t = f->tid;
    return text("block (%u,%u,%u) thread (%u,%u,%u)", b.x, b.y, b.z, t.x, t.y, t.z);
}

std::string error_of(const Block& b) {
    std::string what = b.error;
    const bool on_stack = in_arena(worker_of(const_cast<Block*>(&b)), b.fault_address);
    if (b.fault_signal == STOP_SIGNAL) what = spins();
    else if (b.fault_signal == SIGFPE) what = "integer division by zero";
    else if (b.fault_signal && on_stack) what = "stack overflow: too much local memory";
    else if (b.fault_signal)
        what = (b.fault_is_write ? "out-of-bounds write: " : "out-of-bounds read: ") + describe(b.fault_address);
    if (!b.culprit) return what;
    const Site& site = b.place.site;
    const std::string where = site.file ? text(" at %s:%d", base_name(site.file), site.line) : source_of(b.place.pc);
    return who(b.culprit) + where + ": " + what;
}

}  // namespace simt

extern "C" void simt_assert(const char* condition, const char* file, int line) {
    simt::fail("assertion failed: %s at %s:%d", condition, simt::base_name(file), line);
}
