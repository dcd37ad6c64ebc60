// simt.cpp - the runtime behind simt.h: fibers, barriers, warp collectives, device memory, checks.
//
// Built together with the kernels into one shared object, in two flavours:
//   fast     guard pages around device buffers, NaN poison in fresh device and shared memory
//   checked  (SIMT_CHECKED) kernels are compiled with -fsanitize=thread,bounds,alignment and this file
//            supplies the hooks: every load and store is checked for bounds, alignment, initialisation
//            and data races (within a block, between blocks), like compute-sanitizer on a GPU.
#include "simt.h"
#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <atomic>
#include <cstdarg>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

// Largest dynamic shared memory per block: 99 KiB, what an sm_12x part offers (sm_90 has 227 KiB).
constexpr size_t MAX_DYNAMIC = 99 * 1024, CANARY = 256;
alignas(1024) thread_local unsigned char smem[MAX_DYNAMIC + CANARY];

namespace simt {

enum Order { Forward = 0, Reverse = 1, Random = 2 };

struct Pending {                            // a warp operation that not all lanes of its mask have reached
  unsigned mask, arrived;
  Op op;
  Site site;
};
struct Warp {
  unsigned index, exist, ready, done, started;
  unsigned sync_tick;                       // value of tick when this warp last synchronised
  Fiber* fiber[32];
  uint64_t value[32], result[32];
  int source[32];
  Pending pending[32];                      // one at a time unless masks differ
  unsigned npending;
};

struct Block : BlockDims {
  Warp warps[32];
  unsigned threads, nwarps, ready_warps, done, arrived, start_tick, linear;
  int pred_sum, pred_result;
  Site barrier;
  Order order;
  uint64_t rng;
  size_t dynamic;
  void (*call)(void* const*);
  void* const* args;
  void* main_sp;
  Fiber* culprit; uintptr_t pc, fault_addr; int fault_signal; bool fault_write;   // set when something goes wrong
  std::string error;
};

constexpr size_t SLOTS = 1024;
struct Worker {                             // an OS thread that is running blocks
  uintptr_t arena = 0;
  uintptr_t free_slots[SLOTS];              // a stack: the hottest slot is reused first
  size_t nfree = 0, usable = 0;             // slots below `usable` are mapped, all but their lowest page
  Block block;
};

static std::atomic<unsigned> tick{1};       // advances at every synchronisation, block and launch
static std::atomic<unsigned> launch_tick{1};

// ---------------------------------------------------------------- context switch
#if defined(__x86_64__)
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
extern "C" void simt_switch(void** save_sp, void* to_sp);
extern "C" [[noreturn]] void simt_leave(void* to_sp);
[[noreturn]] static void fiber_main();
static void* fresh_stack(Fiber* f) {
  void** sp = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(f) & ~uintptr_t(63));
  *--sp = nullptr;                          // fiber_main's return address: keeps rsp = 8 mod 16 at entry
  *--sp = reinterpret_cast<void*>(&fiber_main);
  for (int i = 0; i < 6; i++) *--sp = nullptr;
  return sp;
}
#else
#error "port simt_switch (or use ucontext)"
#endif

// ---------------------------------------------------------------- errors
[[noreturn]] static void vfail(uintptr_t pc, const char* fmt, va_list ap) {
  Fiber* f = self();
  char s[900];
  vsnprintf(s, sizeof s, fmt, ap);
  f->block->error = s;
  f->block->culprit = f;
  f->block->pc = pc;
  simt_leave(f->block->main_sp);            // abandons the block's fibers; kernels own nothing
}
[[noreturn]] static void fail(const char* fmt, ...) { va_list ap; va_start(ap, fmt); vfail(0, fmt, ap); }
static std::string source_of(uintptr_t pc) {
  Dl_info info;
  if (!pc || !dladdr(reinterpret_cast<void*>(pc), &info) || !info.dli_fname) return "";
  char cmd[600], line[400] = "";
  snprintf(cmd, sizeof cmd, "addr2line -e '%s' 0x%zx 2>/dev/null", info.dli_fname, size_t(pc - 1 - uintptr_t(info.dli_fbase)));
  if (FILE* p = popen(cmd, "r")) { if (!fgets(line, sizeof line, p)) line[0] = 0; pclose(p); }
  line[strcspn(line, "\n(")] = 0;
  return line[0] && line[0] != '?' ? std::string(" at ") + line : "";
}
static std::string who(Fiber* f) {
  char s[160];
  const Dim3 &b = f->block->block_idx, &t = f->tid;
  snprintf(s, sizeof s, "block (%u,%u,%u) thread (%u,%u,%u)", b.x, b.y, b.z, t.x, t.y, t.z);
  return s;
}
static const char* base(const char* p) { const char* s = strrchr(p, '/'); return s ? s + 1 : p; }

static std::string stuck(const Block& b) {
  std::string s = "threads wait for each other forever:";
  char t[200];
  for (unsigned i = 0; i < b.nwarps; i++) {
    const Warp& w = b.warps[i];
    unsigned waiting = 0;
    for (unsigned k = 0; k < w.npending; k++) {
      const Pending& p = w.pending[k];
      snprintf(t, sizeof t, " [warp %u lanes %08x in a warp operation of mask %08x at %s:%d]", i, p.arrived, p.mask, base(p.site.file), p.site.line);
      s += t; waiting |= p.arrived;
    }
    if (unsigned bar = w.exist & ~waiting & ~w.done) {
      snprintf(t, sizeof t, " [warp %u lanes %08x in __syncthreads at %s:%d]", i, bar, base(b.barrier.file), b.barrier.line);
      s += t;
    }
    if (w.done) { snprintf(t, sizeof t, " [warp %u lanes %08x exited]", i, w.done); s += t; }
    if (s.size() > 700) { s += " ..."; break; }
  }
  return s;
}

// ---------------------------------------------------------------- scheduling
static unsigned random_bits(Block& b) {
  b.rng ^= b.rng << 13; b.rng ^= b.rng >> 7; b.rng ^= b.rng << 17;
  return unsigned(b.rng >> 32);
}
static int choose(Block& b, unsigned bits) {
  if (b.order == Forward) return __builtin_ctz(bits);
  if (b.order == Reverse) return 31 - __builtin_clz(bits);
  unsigned r = random_bits(b) & 31;
  return int((__builtin_ctz(bits >> r | bits << (31 & (32 - r))) + r) & 31);
}
static Worker* worker_of(Block* b) { return reinterpret_cast<Worker*>(reinterpret_cast<char*>(b) - __builtin_offsetof(Worker, block)); }

// Takes a runnable thread off the ready sets, starting a fiber for it unless `reuse` is to become it.
// Returns null when nothing is runnable.
static Fiber* pick(Block& b, Warp* prefer, Fiber* reuse) {
  Warp* w = prefer;
  if (b.order == Random || !w->ready) {
    if (!b.ready_warps) return nullptr;
    w = &b.warps[choose(b, b.ready_warps)];
  }
  int lane = choose(b, w->ready);
  w->ready &= ~(1u << lane);
  if (!w->ready) b.ready_warps &= ~(1u << w->index);
  if (w->started >> lane & 1) return w->fiber[lane];
  w->started |= 1u << lane;
  Fiber* f = reuse;
  if (!f) {
    Worker* o = worker_of(&b);
    uintptr_t slot = o->free_slots[--o->nfree];
    if (slot >= o->arena + o->usable * SLOT) {
      mprotect(reinterpret_cast<void*>(o->arena + o->usable * SLOT + 4096), SLOT - 4096, PROT_READ | PROT_WRITE);
      o->usable++;
    }
    f = fiber_in_slot(slot);
    f->sp = fresh_stack(f);
  }
  f->lane = unsigned(lane); f->warp = w; f->block = &b;
  f->linear = w->index * 32 + f->lane;
  if (b.block_dim.x == b.threads) f->tid = {f->linear, 0, 0};
  else f->tid = {f->linear % b.block_dim.x, f->linear / b.block_dim.x % b.block_dim.y, f->linear / (b.block_dim.x * b.block_dim.y)};
  w->fiber[lane] = f;
  return f;
}

static void park(Fiber* f) {                // returns when some other thread has made f ready and it was picked
  Block& b = *f->block;
  if ((uintptr_t(__builtin_frame_address(0)) & (SLOT - 1)) < 4 * 4096) fail("stack overflow: too much local memory");
  Fiber* g = pick(b, f->warp, nullptr);
  if (!g) fail("%s", stuck(b).c_str());
  if (g != f) simt_switch(&f->sp, g->sp);
}

static void fiber_main() {
  Fiber* f = self();
  Block& b = *f->block;
  for (;;) {
    b.call(b.args);
    Warp& w = *f->warp;
    unsigned me = 1u << f->lane;
    if (b.arrived) fail("exits while %u thread(s) wait in __syncthreads at %s:%d", b.arrived, base(b.barrier.file), b.barrier.line);
    for (unsigned k = 0; k < w.npending; k++)
      if (const Pending& p = w.pending[k]; p.mask & me)
        fail("exits while lanes %08x wait for it in a warp operation at %s:%d", p.arrived, base(p.site.file), p.site.line);
    w.done |= me; b.done++;
    Fiber* g = pick(b, &w, f);
    if (g == f) continue;                   // f now is the next thread: run it on the same stack
    if (!g && b.done != b.threads) fail("%s", stuck(b).c_str());
    Worker* o = worker_of(&b);
    o->free_slots[o->nfree++] = uintptr_t(f);
    simt_leave(g ? g->sp : b.main_sp);
  }
}

extern "C" int simt_syncthreads(int kind, int pred, const char* file, int line) {
  Fiber* f = self();
  Block& b = *f->block;
  if (b.done) fail("reaches __syncthreads at %s:%d but %u thread(s) have exited", base(file), line, b.done);
  if (!b.arrived) { b.barrier = {file, line}; b.pred_sum = 0; }
  else if (b.barrier.line != line || strcmp(b.barrier.file, file))
    fail("divergent barrier: reaches __syncthreads at %s:%d while %u thread(s) wait in another at %s:%d", base(file), line, b.arrived, base(b.barrier.file), b.barrier.line);
  b.pred_sum += kind == 1 ? pred != 0 : pred == 0;
  if (++b.arrived < b.threads) { park(f); return b.pred_result; }
  b.arrived = 0;
  b.pred_result = b.pred_sum;
  unsigned now = ++tick;
  for (unsigned i = 0; i < b.nwarps; i++) { b.warps[i].ready = b.warps[i].exist; b.warps[i].sync_tick = now; }
  b.start_tick = now;
  b.ready_warps = b.nwarps == 32 ? ~0u : (1u << b.nwarps) - 1;
  if (b.order == Random) { park(f); return b.pred_result; }
  f->warp->ready &= ~(1u << f->lane);
  if (!f->warp->ready) b.ready_warps &= ~(1u << f->warp->index);
  return b.pred_result;
}

extern "C" uint64_t simt_collective(Op op, unsigned mask, uint64_t value, int source, const char* file, int line) {
  Fiber* f = self();
  Block& b = *f->block;
  Warp& w = *f->warp;
  const unsigned me = 1u << f->lane;
  if (!(mask & me)) fail("warp operation at %s:%d: mask %08x does not include the calling lane %u", base(file), line, mask, f->lane);
  if (mask & ~w.exist) fail("warp operation at %s:%d: mask %08x names lanes the block does not have (%08x exist)", base(file), line, mask, w.exist);
  if (mask & w.done) fail("warp operation at %s:%d: lanes %08x of the mask have exited", base(file), line, mask & w.done);
  w.value[f->lane] = value;
  w.source[f->lane] = source;
  unsigned k = 0;
  for (; k < w.npending; k++) {
    const Pending& p = w.pending[k];
    if (p.mask == mask && p.op == op && p.site.line == line && (p.site.file == file || !strcmp(p.site.file, file))) break;
    if (p.mask & me && p.arrived & mask)    // they wait for this lane and it would wait for them
      fail("divergent warp operation: is at %s:%d (mask %08x) while lanes %08x wait for it at %s:%d (mask %08x)", base(file), line, mask, p.arrived, base(p.site.file), p.site.line, p.mask);
  }
  if (k == w.npending) w.pending[w.npending++] = {mask, 0, op, {file, line}};
  if ((w.pending[k].arrived |= me) != mask) {
    park(f);
    return w.result[f->lane];
  }
  w.pending[k] = w.pending[--w.npending];
  if (op == Op::Shuffle) {
    for (unsigned m = mask; m; m &= m - 1) {
      int l = __builtin_ctz(m), s = w.source[l];
      w.result[l] = mask >> s & 1 ? w.value[s] : ~uint64_t(0);   // reading a lane outside the mask: poison
    }
  } else if (op != Op::Sync) {
    uint32_t r = 0; bool first = true;
    for (unsigned m = mask; m; m &= m - 1) {
      int l = __builtin_ctz(m);
      uint32_t v = uint32_t(w.value[l]);
      switch (op) {
        case Op::Ballot: r |= v << l; break;
        case Op::Add: r += v; break;
        case Op::Min: r = first || int(v) < int(r) ? v : r; break;
        case Op::Max: r = first || int(v) > int(r) ? v : r; break;
        case Op::MinU: r = first || v < r ? v : r; break;
        case Op::MaxU: r = first || v > r ? v : r; break;
        case Op::And: r = first ? v : r & v; break;
        case Op::Or: r |= v; break;
        case Op::Xor: r ^= v; break;
        default: break;
      }
      first = false;
    }
    for (unsigned m = mask; m; m &= m - 1) w.result[__builtin_ctz(m)] = r;
  } else {
    w.sync_tick = ++tick;                   // shuffles order no memory, __syncwarp does
  }
  const bool yield = b.order == Random;
  w.ready |= yield ? mask : mask & ~me;
  if (w.ready) b.ready_warps |= 1u << w.index;
  if (yield) park(f);
  return w.result[f->lane];
}

extern "C" void simt_assert(const char* expr, const char* file, int line) { fail("assertion failed: %s at %s:%d", expr, base(file), line); }

// ---------------------------------------------------------------- kernels by name
struct Kernel { const char* signature; void (*call)(void* const*); };
static std::map<std::string, Kernel>& kernels() { static std::map<std::string, Kernel> k; return k; }
extern "C" void simt_register(const char* name, const char* signature, void (*call)(void* const*)) { kernels()[name] = {signature, call}; }

// ---------------------------------------------------------------- device memory
// A buffer ends (rounded up to 16 bytes) right before an inaccessible page, and starts after one.
struct Who { unsigned thread, tick; };      // thread: linear in the launch, + 1; 0 is nobody
struct Cell { Who write, read, read2; };    // checked build: who last touched a byte
struct Buffer { size_t size; uintptr_t map; size_t map_len; Cell* cells; unsigned char* init; };
static std::map<uintptr_t, Buffer>& buffers() { static std::map<uintptr_t, Buffer> b; return b; }
static std::mutex memory_mutex;
constexpr size_t PAGE = 4096, GUARD = 16 * PAGE;

template <class T> static T* lazily_zero(size_t n) {
  return static_cast<T*>(mmap(nullptr, n * sizeof(T) + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}
EXPORT void* simt_alloc(size_t size) {
  size_t body = (size + 15) & ~size_t(15), pages = (body + PAGE - 1) & ~(PAGE - 1);
  if (!pages) pages = PAGE;
  void* m = mmap(nullptr, pages + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m == MAP_FAILED) return nullptr;
  uintptr_t map = uintptr_t(m), p = map + GUARD + pages - body;
  mprotect(reinterpret_cast<void*>(map + GUARD), pages, PROT_READ | PROT_WRITE);
  memset(reinterpret_cast<void*>(map + GUARD), 0xff, pages);        // NaN in f16, f32 and f64; -1 in integers
  Buffer b{size, map, pages + 2 * GUARD, nullptr, nullptr};
#ifdef SIMT_CHECKED
  b.cells = lazily_zero<Cell>(size);
  b.init = lazily_zero<unsigned char>(size);
#endif
  std::lock_guard<std::mutex> lock(memory_mutex);
  buffers()[p] = b;
  return reinterpret_cast<void*>(p);
}
EXPORT void simt_free(void* p) {
  std::lock_guard<std::mutex> lock(memory_mutex);
  auto it = buffers().find(uintptr_t(p));
  if (it == buffers().end()) return;
  Buffer& b = it->second;
  munmap(reinterpret_cast<void*>(b.map), b.map_len);
  if (b.cells) { munmap(b.cells, b.size * sizeof(Cell) + PAGE); munmap(b.init, b.size + PAGE); }
  buffers().erase(it);
}
EXPORT int simt_live_buffers() {
  std::lock_guard<std::mutex> lock(memory_mutex);
  return int(buffers().size());
}
static std::pair<uintptr_t, Buffer*> buffer_near(uintptr_t a) {     // the buffer whose mapping (guards included) holds a
  auto it = buffers().upper_bound(a);
  if (it != buffers().end() && a >= it->second.map) return {it->first, &it->second};
  if (it == buffers().begin()) return {0, nullptr};
  --it;
  if (a < it->second.map + it->second.map_len) return {it->first, &it->second};
  return {0, nullptr};
}
// Host access: 0 when [p, p+n) is inside one buffer. `write` marks the bytes as initialised.
EXPORT int simt_host_access(void* p, size_t n, int write) {
  std::lock_guard<std::mutex> lock(memory_mutex);
  auto [start, b] = buffer_near(uintptr_t(p));
  if (!b || uintptr_t(p) < start || uintptr_t(p) + n > start + b->size) return 1;
  if (write && b->init) memset(b->init + (uintptr_t(p) - start), 1, n);
  return 0;
}
static std::string describe(uintptr_t a) {
  std::lock_guard<std::mutex> lock(memory_mutex);
  auto [start, b] = buffer_near(a);
  char s[200];
  if (!b) snprintf(s, sizeof s, "address 0x%zx is in no device buffer", size_t(a));
  else if (a < start) snprintf(s, sizeof s, "%zu bytes before the start of a device buffer of %zu bytes", size_t(start - a), b->size);
  else if (a < start + b->size) snprintf(s, sizeof s, "offset %zu of a device buffer of %zu bytes", size_t(a - start), b->size);
  else snprintf(s, sizeof s, "%zu bytes past the end of a device buffer of %zu bytes", size_t(a - start - b->size), b->size);
  return s;
}

// ---------------------------------------------------------------- faults (fast build: guard pages)
static std::mutex workers_mutex;
static std::vector<Worker*> all_workers, idle_workers;
static struct sigaction old_segv, old_bus, old_fpe;
static std::atomic<bool> installed{false};

static void on_fault(int sig, siginfo_t* si, void* ctx) {
  ucontext_t* uc = static_cast<ucontext_t*>(ctx);
  uintptr_t sp = uintptr_t(uc->uc_mcontext.gregs[REG_RSP]);
  for (Worker* w : all_workers) {
    if (sp - w->arena >= SLOTS * SLOT) continue;
    Block& b = w->block;
    b.pc = uintptr_t(uc->uc_mcontext.gregs[REG_RIP]) + 1; b.fault_addr = uintptr_t(si->si_addr);
    b.fault_signal = sig; b.fault_write = uc->uc_mcontext.gregs[REG_ERR] & 2; b.culprit = fiber_in_slot(sp);
    uc->uc_mcontext.gregs[REG_RIP] = greg_t(&simt_leave);
    uc->uc_mcontext.gregs[REG_RDI] = greg_t(b.main_sp);
    return;
  }
  while (!installed) sched_yield();         // another thread is just storing the old handlers
  struct sigaction& old = sig == SIGSEGV ? old_segv : sig == SIGBUS ? old_bus : old_fpe;
  if (old.sa_flags & SA_SIGINFO) { old.sa_sigaction(sig, si, ctx); return; }
  sigaction(sig, &old, nullptr);            // default action on return
}
static void install_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction sa{};
    sa.sa_sigaction = on_fault;
    sa.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &sa, &old_segv); sigaction(SIGBUS, &sa, &old_bus); sigaction(SIGFPE, &sa, &old_fpe);
    installed = true;
  });
}
static Worker* take_worker() {
  std::lock_guard<std::mutex> lock(workers_mutex);
  if (!idle_workers.empty()) { Worker* w = idle_workers.back(); idle_workers.pop_back(); return w; }
  Worker* w = new Worker;
  uintptr_t m = uintptr_t(mmap(nullptr, (SLOTS + 1) * SLOT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  w->arena = (m + SLOT - 1) & ~(SLOT - 1);
  all_workers.reserve(256);                 // the signal handler iterates without the lock
  all_workers.push_back(w);
  return w;
}
static void return_worker(Worker* w) { std::lock_guard<std::mutex> lock(workers_mutex); idle_workers.push_back(w); }

// ---------------------------------------------------------------- shared memory: this object's thread-local segment
static size_t tls_module, tls_size;
static uintptr_t image_begin, image_end;    // the object's own mapping (constants, __device__ globals)
static int find_self(dl_phdr_info* info, size_t, void*) {
  uintptr_t here = uintptr_t(&find_self);
  uintptr_t lo = ~uintptr_t(0), hi = 0; size_t tls = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& p = info->dlpi_phdr[i];
    if (p.p_type == PT_LOAD) { lo = std::min<uintptr_t>(lo, info->dlpi_addr + p.p_vaddr); hi = std::max<uintptr_t>(hi, info->dlpi_addr + p.p_vaddr + p.p_memsz); }
    if (p.p_type == PT_TLS) tls = p.p_memsz;
  }
  if (here < lo || here >= hi) return 0;
  image_begin = lo; image_end = hi; tls_module = info->dlpi_tls_modid; tls_size = tls;
  return 1;
}
extern "C" void* __tls_get_addr(size_t*);
static uintptr_t shared_base() { size_t index[2] = {tls_module, 0}; return uintptr_t(__tls_get_addr(index)); }

// ---------------------------------------------------------------- checked build: hooks
#ifdef SIMT_CHECKED
static std::map<uintptr_t, Cell*> shared_shadows;
static Cell* shared_cells(uintptr_t base_addr) {
  std::lock_guard<std::mutex> lock(workers_mutex);
  Cell*& c = shared_shadows[base_addr];
  if (!c) c = lazily_zero<Cell>(tls_size);
  return c;
}
[[noreturn]] static void fail_at(uintptr_t pc, const char* fmt, ...) { va_list ap; va_start(ap, fmt); vfail(pc, fmt, ap); }

// Was the access recorded in `r` by another thread of this launch without a synchronisation in between?
static bool conflicts(const Who& r, Fiber* f, unsigned me, bool shared) {
  if (!r.thread || r.thread == me || r.tick < launch_tick.load(std::memory_order_relaxed)) return false;
  const Block& b = *f->block;
  unsigned other = r.thread - 1;
  if (other / b.threads != b.linear) return !shared;                        // another block
  if (other % b.threads / 32 == f->warp->index) return r.tick >= f->warp->sync_tick;
  return r.tick >= b.start_tick;
}
static std::string thread_name(const Block& b, unsigned t) {
  char s[80]; t--;
  snprintf(s, sizeof s, "block %u thread %u", t / b.threads, t % b.threads);
  return s;
}
enum Kind { Read, Write, Atomic };
static void access(uintptr_t a, size_t n, Kind kind, uintptr_t pc) {
  Fiber* f = self();
  Block& b = *f->block;
  Worker* w = worker_of(&b);
  if (a - uintptr_t(w) < sizeof *w) return; // blockIdx and friends
  if (a - w->arena < SLOTS * SLOT) {        // a thread's own local memory
    if (a >> SLOT_BITS != uintptr_t(f) >> SLOT_BITS) fail_at(pc, "touches another thread's local memory");
    return;
  }
  const char* verb = kind == Read ? "read" : kind == Write ? "write" : "atomic";
  const uintptr_t sb = shared_base();
  const bool shared = a - sb < tls_size;
  Cell* cells; unsigned char* init = nullptr;
  if (shared) {
    const uintptr_t dyn = uintptr_t(smem);
    if (a + n > dyn + b.dynamic && a < dyn + sizeof smem && a + n > dyn)
      fail_at(pc, "out-of-bounds %s of %zu bytes at offset %zd of %zu bytes of dynamic shared memory", verb, n, ssize_t(a - dyn), b.dynamic);
    cells = shared_cells(sb) + (a - sb);
  } else {
    if (a >= image_begin && a + n <= image_end) return;
    memory_mutex.lock();
    auto [start, buf] = buffer_near(a);
    memory_mutex.unlock();
    if (!buf || a < start || a + n > start + buf->size) fail_at(pc, "out-of-bounds %s of %zu bytes: %s", verb, n, describe(a).c_str());
    cells = buf->cells + (a - start);
    init = buf->init + (a - start);
  }
  const unsigned me = b.linear * b.threads + f->linear + 1, now = tick.load(std::memory_order_relaxed);
  for (size_t i = 0; i < n; i++) {
    Cell& c = cells[i];
    if (kind != Write) {
      bool ok = shared ? c.write.thread && c.write.tick >= launch_tick.load() && (c.write.thread - 1) / b.threads == b.linear : init[i];
      if (!ok) fail_at(pc, "%s of uninitialised %s memory: %s", verb, shared ? "shared" : "device", shared ? "never written by this block" : describe(a + i).c_str());
    }
    if (kind != Atomic) {
      if (conflicts(c.write, f, me, shared))
        fail_at(pc, "data race: %s of %s memory written by %s without synchronisation in between", verb, shared ? "shared" : "device", thread_name(b, c.write.thread).c_str());
      if (kind == Write)
        for (const Who* r : {&c.read, &c.read2})
          if (conflicts(*r, f, me, shared))
            fail_at(pc, "data race: write of %s memory read by %s without synchronisation in between", shared ? "shared" : "device", thread_name(b, r->thread).c_str());
    }
    if (kind == Write) { c.write = {me, now}; if (init) init[i] = 1; }
    if (kind == Read) {
      if (c.read.thread && c.read.thread != me && ((c.read.thread - 1) / 32 != (me - 1) / 32 || !conflicts(c.read2, f, me, shared))) c.read2 = c.read;
      c.read = {me, now};
    }
  }
}
static void aligned(uintptr_t a, size_t n, Kind kind, uintptr_t pc) {
  if (a & (n - 1)) fail_at(pc, "misaligned %s of %zu bytes at address 0x%zx", kind == Read ? "read" : "write", n, size_t(a));
  access(a, n, kind, pc);
}
#define PC uintptr_t(__builtin_return_address(0))
#define HOOKS(N) \
  extern "C" void __tsan_read##N(void* p) { aligned(uintptr_t(p), N, Read, PC); } \
  extern "C" void __tsan_write##N(void* p) { aligned(uintptr_t(p), N, Write, PC); } \
  extern "C" void __tsan_unaligned_read##N(void* p) { access(uintptr_t(p), N, Read, PC); } \
  extern "C" void __tsan_unaligned_write##N(void* p) { access(uintptr_t(p), N, Write, PC); }
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
extern "C" void __tsan_read_range(void* p, size_t n) { access(uintptr_t(p), n, Read, PC); }
extern "C" void __tsan_write_range(void* p, size_t n) { access(uintptr_t(p), n, Write, PC); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void simt_atomic_access(void* p, size_t n) { aligned(uintptr_t(p), n, Atomic, PC); }
struct UbsanSite { const char* file; unsigned line, column; };
extern "C" void __ubsan_handle_out_of_bounds(UbsanSite* s, uintptr_t index) {
  fail("array index %zd out of bounds at %s:%u", ssize_t(index), base(s->file), s->line);
}
extern "C" void __ubsan_handle_type_mismatch_v1(UbsanSite* s, uintptr_t p) {
  fail("misaligned or null access to address 0x%zx at %s:%u", size_t(p), base(s->file), s->line);
}
#endif

// ---------------------------------------------------------------- launch
struct Launch { unsigned grid[3], block[3]; unsigned dynamic, order; uint64_t seed; unsigned threads; };

static bool run_block(Worker* w, const Launch& l, const Kernel& k, void* const* args, unsigned linear) {
  Block& b = w->block;
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
  b.dynamic = l.dynamic; b.call = k.call; b.args = args;
  b.fault_signal = 0; b.culprit = nullptr; b.error.clear();
  b.start_tick = ++tick;
  for (unsigned i = 0; i < b.nwarps; i++) {
    Warp& p = b.warps[i];
    unsigned n = std::min(32u, b.threads - i * 32);
    p.index = i; p.exist = p.ready = n == 32 ? ~0u : (1u << n) - 1;
    p.done = p.started = p.npending = 0; p.sync_tick = b.start_tick;
  }
  if (w->nfree != SLOTS) {
    for (size_t i = 0; i < SLOTS; i++) w->free_slots[i] = w->arena + (SLOTS - 1 - i) * SLOT;
    w->nfree = SLOTS;
  }
  memset(smem, 0xff, l.dynamic);
  Fiber* first = pick(b, &b.warps[0], nullptr);
  simt_switch(&b.main_sp, first->sp);
  if (b.fault_signal == SIGFPE) b.error = "integer division by zero";
  else if (b.fault_signal && b.fault_addr - w->arena < SLOTS * SLOT) b.error = "stack overflow: too much local memory";
  else if (b.fault_signal) b.error = (b.fault_write ? "out-of-bounds write: " : "out-of-bounds read: ") + describe(b.fault_addr);
  if (b.culprit) {
    b.error = who(b.culprit) + source_of(b.pc) + ": " + b.error;
  } else if (b.error.empty()) {
    for (size_t i = l.dynamic; i < l.dynamic + CANARY; i++)
      if (smem[i] != 0xff) { b.error = "a thread wrote past the end of dynamic shared memory"; break; }
  }
  return b.error.empty();
}

EXPORT const char* simt_signature(const char* name) {
  auto it = kernels().find(name);
  return it == kernels().end() ? nullptr : it->second.signature;
}

// Runs a grid; returns 0, or 1 with a message in err.
EXPORT int simt_launch(const char* name, const Launch* l, void* const* args, char* err, size_t err_len) {
  auto it = kernels().find(name);
  auto say = [&](const std::string& m) { snprintf(err, err_len, "%s: %s", name, m.c_str()); return 1; };
  if (it == kernels().end()) return say("no such kernel");
  const uint64_t threads = uint64_t(l->block[0]) * l->block[1] * l->block[2], blocks = uint64_t(l->grid[0]) * l->grid[1] * l->grid[2];
  if (threads == 0 || threads > 1024 || l->block[2] > 64) return say("invalid block size");
  if (blocks == 0 || l->grid[1] > 65535 || l->grid[2] > 65535) return say("invalid grid size");
  if (l->dynamic > MAX_DYNAMIC) return say("too much dynamic shared memory");
  static std::once_flag once;
  std::call_once(once, [] { dl_iterate_phdr(find_self, nullptr); });
  install_handlers();
  std::atomic<uint64_t> next{0};
  std::mutex error_mutex;
  std::string error;
  auto work = [&] {
    Worker* w = take_worker();
    memset(reinterpret_cast<void*>(shared_base()), 0xff, tls_size);         // poison static shared memory
    for (uint64_t i; (i = next++) < blocks;) {
      uint64_t linear = l->order == Reverse ? blocks - 1 - i : i;
      if (run_block(w, *l, it->second, args, unsigned(linear))) continue;
      std::lock_guard<std::mutex> lock(error_mutex);
      if (error.empty()) error = w->block.error;
      next = blocks;
    }
    return_worker(w);
  };
#ifdef SIMT_CHECKED
  static std::mutex one_at_a_time;          // the shadow memory has no locks of its own
  std::lock_guard<std::mutex> lock(one_at_a_time);
  launch_tick = ++tick;
  work();
#else
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < l->threads && i < blocks; i++)
    helpers.emplace_back([&] {
      std::vector<char> stack(64 * 1024);   // for the fault handler; threads made by Rust have one already
      stack_t ss{stack.data(), 0, stack.size()}, off{nullptr, SS_DISABLE, 0};
      sigaltstack(&ss, nullptr);
      work();
      sigaltstack(&off, nullptr);
    });
  work();
  for (auto& t : helpers) t.join();
#endif
  if (error.empty()) {
    std::lock_guard<std::mutex> lock(memory_mutex);
    for (auto& [start, b] : buffers())
      for (uintptr_t p = start + b.size; p & 15; p++)
        if (*reinterpret_cast<unsigned char*>(p) != 0xff) { error = "a thread wrote past the end of a device buffer of " + std::to_string(b.size) + " bytes"; *reinterpret_cast<unsigned char*>(p) = 0xff; }
  }
  return error.empty() ? 0 : say(error);
}

}  // namespace simt
