// Atomic operations, relaxed as on the GPU. Each is one access that the checks know to be atomic.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define SIMT_ATOMIC_ACCESS(p) simt::simt_atomic_access(p, sizeof *(p))
#else
#define SIMT_ATOMIC_ACCESS(p) ((void)0)
#endif

// The operation itself is not watched: it is one access, and that is reported before it.
#define SIMT_ATOMIC(name, result)                                                                              \
    template <class T> __attribute__((no_sanitize("thread"))) T simt_##name(T* p, T v) {                       \
        T old, now;                                                                                            \
        __atomic_load(p, &old, __ATOMIC_RELAXED);                                                              \
        do now = T(result);                                                                                    \
        while (!__atomic_compare_exchange(p, &old, &now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));           \
        return old;                                                                                            \
    }                                                                                                          \
    template <class T, class U> SIMT_FN T name(T* p, U value) {                                                \
        SIMT_ATOMIC_ACCESS(p);                                                                                 \
        return simt_##name(p, T(value));                                                                       \
    }
SIMT_ATOMIC(atomicAdd, old + v)
SIMT_ATOMIC(atomicSub, old - v)
SIMT_ATOMIC(atomicMax, old < v ? v : old)
SIMT_ATOMIC(atomicMin, v < old ? v : old)
SIMT_ATOMIC(atomicAnd, old & v)
SIMT_ATOMIC(atomicOr, old | v)
SIMT_ATOMIC(atomicXor, old ^ v)
SIMT_ATOMIC(atomicExch, v)

template <class T> __attribute__((no_sanitize("thread"))) T simt_atomicCAS(T* p, T expected, T value) {
    __atomic_compare_exchange(p, &expected, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;  // what was there, in either case
}
template <class T, class U, class V> SIMT_FN T atomicCAS(T* p, U expected, V value) {
    SIMT_ATOMIC_ACCESS(p);
    return simt_atomicCAS(p, T(expected), T(value));
}
