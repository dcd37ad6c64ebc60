// What the lanes of a warp do together: they wait until all of the mask are at the same line; the last to arrive does the work.
#include "schedule.h"

namespace simt {

// Reading a lane outside of the mask gives poison.
static void shuffle_lanes(Warp& w, unsigned mask) {
    for (unsigned m = mask; m; m &= m - 1) {
        const int lane = __builtin_ctz(m), from = w.source[lane];
        w.result[lane] = mask >> from & 1 ? w.value[from] : ~uint64_t(0);
    }
}

static uint32_t combine(Op op, uint32_t a, uint32_t b) {
    switch (op) {
        case Op::Add: return a + b;
        case Op::Min: return int(b) < int(a) ? b : a;
        case Op::Max: return int(b) > int(a) ? b : a;
        case Op::MinU: return b < a ? b : a;
        case Op::MaxU: return b > a ? b : a;
        case Op::And: return a & b;
        case Op::Or: return a | b;
        default: return a ^ b;
    }
}

static void reduce_lanes(Warp& w, unsigned mask, Op op) {
    uint32_t all = 0;
    for (unsigned m = mask; m; m &= m - 1) {
        const int lane = __builtin_ctz(m);
        const uint32_t value = uint32_t(w.value[lane]);
        if (op == Op::Ballot) all |= value << lane;
        else all = m == mask ? value : combine(op, all, value);
    }
    for (unsigned m = mask; m; m &= m - 1) w.result[__builtin_ctz(m)] = all;
}

}  // namespace simt

using namespace simt;

extern "C" uint64_t simt_collective(Op op, unsigned mask, uint64_t value, int source, const char* file, int line) {
    Fiber* f = self();
    Block& b = *f->block;
    Warp& w = *f->warp;
    const unsigned me = 1u << f->lane;
    const auto name = [&] { return base_name(file); };
    if (!(mask & me))
        fail("warp operation at %s:%d: mask %08x does not include the calling lane %u", name(), line, mask, f->lane);
    if (mask & ~w.exist)
        fail("warp operation at %s:%d: mask %08x names lanes the block does not have (%08x exist)", name(), line, mask, w.exist);
    if (mask & w.done) fail("warp operation at %s:%d: lanes %08x of the mask have exited", name(), line, mask & w.done);
    w.value[f->lane] = value;
    w.source[f->lane] = source;
    unsigned k = 0;
    for (; k < w.npending; k++) {
        const Pending& p = w.pending[k];
        if (p.mask == mask && p.op == op && p.site.line == line && (p.site.file == file || !strcmp(p.site.file, file))) break;
        if (p.mask & me && p.arrived & mask)  // they wait for this lane and it would wait for them
            fail("divergent warp operation: is at %s:%d (mask %08x) while lanes %08x wait for it at %s:%d (mask %08x)", name(),
                 line, mask, p.arrived, base_name(p.site.file), p.site.line, p.mask);
    }
    if (k == w.npending) w.pending[w.npending++] = {mask, 0, op, {file, line}};
    if ((w.pending[k].arrived |= me) != mask) {
        park(f, {file, line});
        return w.result[f->lane];
    }
    w.pending[k] = w.pending[--w.npending];
    if (op == Op::Shuffle) shuffle_lanes(w, mask);
    else if (op == Op::Sync) w.sync_tick = next_tick();  // shuffles order no memory, __syncwarp does
    else if (op >= Op::Ldmatrix1) matrix_operation(w, op, {file, line});
    else reduce_lanes(w, mask, op);
    // In a random order any lane may go on first.
    const bool yield = b.order == Random;
    w.ready |= yield ? mask : mask & ~me;
    if (w.ready) b.ready_warps |= 1u << w.index;
    if (yield) park(f, {file, line});
    return w.result[f->lane];
}
