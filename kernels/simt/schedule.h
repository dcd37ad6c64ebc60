// Which thread of a block runs next. In a header because a barrier consists of little else.
#pragma once
#include "runtime.h"

namespace simt {

inline unsigned random_bits(Block& b) {
    b.rng ^= b.rng << 13;
    b.rng ^= b.rng >> 7;
    b.rng ^= b.rng << 17;
    return unsigned(b.rng >> 32);
}

// One of the bits that are set, by the block's order.
inline int choose(Block& b, unsigned bits) {
    if (b.order == Forward) return __builtin_ctz(bits);
    if (b.order == Reverse) return 31 - __builtin_clz(bits);
    const unsigned r = random_bits(b) & 31;
    return int((__builtin_ctz(bits >> r | bits << (31 & (32 - r))) + r) & 31);
}

// Takes a thread that can run off the ready sets; null if none can. One that has not begun yet becomes `reuse`, or else a fresh
// fiber.
inline Fiber* pick(Block& b, Warp* prefer, Fiber* reuse) {
    b.progress.store(b.progress.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    Warp* w = prefer;
    if (b.order == Random || !w->ready) {
        if (!b.ready_warps) return nullptr;
        w = &b.warps[choose(b, b.ready_warps)];
    }
    const int lane = choose(b, w->ready);
    w->ready &= ~(1u << lane);
    if (!w->ready) b.ready_warps &= ~(1u << w->index);
    if (w->started >> lane & 1) return w->fiber[lane];
    w->started |= 1u << lane;
    Fiber* f = reuse ? reuse : fresh_fiber(worker_of(&b));
    f->lane = unsigned(lane);
    f->warp = w;
    f->block = &b;
    f->linear = w->index * 32 + f->lane;
    const Dim3& dim = b.block_dim;
    if (dim.x == b.threads) f->tid = {f->linear, 0, 0};
    else f->tid = {f->linear % dim.x, f->linear / dim.x % dim.y, f->linear / (dim.x * dim.y)};
    w->fiber[lane] = f;
    return f;
}

// Returns when another thread has made f ready and it was picked. It waits at a line.
inline void park(Fiber* f, const Site& site) {
    Block& b = *f->block;
    // The runtime itself, a message above all, needs some of the stack.
    if ((uintptr_t(__builtin_frame_address(0)) & (SLOT - 1)) < 4 * 4096) fail("stack overflow: too much local memory");
    if (b.stop.load(std::memory_order_relaxed) != Stop::None) fail_stopped(f, {0, site});
    Fiber* next = pick(b, f->warp, nullptr);
    if (!next) fail("%s", stuck(b).c_str());
    if (next != f) simt_switch(&f->sp, next->sp);
}

}  // namespace simt
