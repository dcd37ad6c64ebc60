// __syncthreads: all threads of the block, at one line, or it is an error.
#include "schedule.h"

using namespace simt;

extern "C" int simt_syncthreads(Count count, int predicate, const char* file, int line) {
    Fiber* f = self();
    Block& b = *f->block;
    if (b.done) fail("reaches __syncthreads at %s:%d but %u thread(s) have exited", base_name(file), line, b.done);
    if (!b.arrived) {
        b.barrier = {file, line};
        b.counted = 0;
    } else if (b.barrier.line != line || strcmp(b.barrier.file, file)) {
        fail("divergent barrier: reaches __syncthreads at %s:%d while %u thread(s) wait in another at %s:%d", base_name(file),
             line, b.arrived, base_name(b.barrier.file), b.barrier.line);
    }
    b.counted += count == Count::True ? predicate != 0 : predicate == 0;
    if (++b.arrived < b.threads) {
        park(f, {file, line});
        return b.counted_result;
    }
    b.arrived = 0;
    b.counted_result = b.counted;
    const unsigned now = next_tick();
    for (unsigned i = 0; i < b.nwarps; i++) {
        b.warps[i].ready = b.warps[i].exist;
        b.warps[i].sync_tick = now;
    }
    b.sync_tick = now;
    b.ready_warps = b.nwarps == 32 ? ~0u : (1u << b.nwarps) - 1;
    if (b.order == Random) {
        park(f, {file, line});
        return b.counted_result;
    }
    f->warp->ready &= ~(1u << f->lane);
    if (!f->warp->ready) b.ready_warps &= ~(1u << f->warp->index);
    return b.counted_result;
}
