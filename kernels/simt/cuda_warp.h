// Barriers, shuffles, votes and reductions.
#pragma once

namespace simt {

// The empty asm statements keep the compiler from moving memory accesses across.
SIMT_FN int barrier(Count count, int predicate, const char* file, int line) {
    asm volatile("" ::: "memory");
    const int counted = simt_syncthreads(count, predicate, file, line);
    asm volatile("" ::: "memory");
    return counted;
}

template <class T> SIMT_FN T shuffle(unsigned mask, T value, int source, const char* file, int line) {
    return from_bits<T>(simt_collective(Op::Shuffle, mask, to_bits(value), source, file, line));
}

SIMT_FN unsigned reduce(Op op, unsigned mask, unsigned value, const char* file, int line) {
    return unsigned(simt_collective(op, mask, value, 0, file, line));
}

}  // namespace simt

SIMT_FN void __syncthreads(SIMT_SITE) { simt::barrier(simt::Count::Nothing, 0, file, line); }
SIMT_FN int __syncthreads_count(int p, SIMT_SITE) { return simt::barrier(simt::Count::True, p, file, line); }
SIMT_FN int __syncthreads_or(int p, SIMT_SITE) { return simt::barrier(simt::Count::True, p, file, line) != 0; }
SIMT_FN int __syncthreads_and(int p, SIMT_SITE) { return simt::barrier(simt::Count::False, p, file, line) == 0; }
SIMT_FN void __syncwarp(unsigned mask = 0xffffffffu, SIMT_SITE) {
    asm volatile("" ::: "memory");
    simt::simt_collective(simt::Op::Sync, mask, 0, 0, file, line);
    asm volatile("" ::: "memory");
}
SIMT_FN void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
SIMT_FN void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// A lane that would read beyond its segment of `width` lanes reads itself.
template <class T> SIMT_FN T __shfl_sync(unsigned mask, T value, int from, int width = 32, SIMT_SITE) {
    const int lane = simt::self()->lane;
    return simt::shuffle(mask, value, (lane & ~(width - 1)) | (from & (width - 1)), file, line);
}
template <class T> SIMT_FN T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, SIMT_SITE) {
    const int lane = simt::self()->lane, from = lane ^ lanes;
    return simt::shuffle(mask, value, from >= (lane & ~(width - 1)) + width ? lane : from, file, line);
}
template <class T> SIMT_FN T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, SIMT_SITE) {
    const int lane = simt::self()->lane, from = lane + int(by);
    return simt::shuffle(mask, value, from >= (lane & ~(width - 1)) + width ? lane : from, file, line);
}
template <class T> SIMT_FN T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, SIMT_SITE) {
    const int lane = simt::self()->lane, from = lane - int(by);
    return simt::shuffle(mask, value, from < (lane & ~(width - 1)) ? lane : from, file, line);
}

SIMT_FN unsigned __ballot_sync(unsigned mask, int p, SIMT_SITE) {
    return simt::reduce(simt::Op::Ballot, mask, p != 0, file, line);
}
SIMT_FN int __any_sync(unsigned mask, int p, SIMT_SITE) { return __ballot_sync(mask, p, file, line) != 0; }
SIMT_FN int __all_sync(unsigned mask, int p, SIMT_SITE) { return __ballot_sync(mask, !p, file, line) == 0; }

#define SIMT_REDUCE(name, T, op) \
    SIMT_FN T name(unsigned mask, T value, SIMT_SITE) { return T(simt::reduce(simt::Op::op, mask, unsigned(value), file, line)); }
SIMT_REDUCE(__reduce_add_sync, int, Add)
SIMT_REDUCE(__reduce_add_sync, unsigned, Add)
SIMT_REDUCE(__reduce_min_sync, int, Min)
SIMT_REDUCE(__reduce_min_sync, unsigned, MinU)
SIMT_REDUCE(__reduce_max_sync, int, Max)
SIMT_REDUCE(__reduce_max_sync, unsigned, MaxU)
SIMT_REDUCE(__reduce_and_sync, unsigned, And)
SIMT_REDUCE(__reduce_or_sync, unsigned, Or)
SIMT_REDUCE(__reduce_xor_sync, unsigned, Xor)
