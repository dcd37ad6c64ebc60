// Intrinsics of numbers. Functions of floats are libm's: more precise than those of a GPU, and not equal to them bit by bit.
#pragma once

// Integers.
SIMT_FN int __dp4a(int a, int b, int c) {
    return c + int(int8_t(a)) * int8_t(b) + int(int8_t(a >> 8)) * int8_t(b >> 8)
         + int(int8_t(a >> 16)) * int8_t(b >> 16) + (a >> 24) * (b >> 24);
}
SIMT_FN unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    return c + (a & 255) * (b & 255) + (a >> 8 & 255) * (b >> 8 & 255)
         + (a >> 16 & 255) * (b >> 16 & 255) + (a >> 24) * (b >> 24);
}
SIMT_FN int __popc(unsigned x) { return __builtin_popcount(x); }
SIMT_FN int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
SIMT_FN int __ffs(int x) { return __builtin_ffs(x); }
SIMT_FN unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++) reversed |= (x >> i & 1u) << (31 - i);
    return reversed;
}
// Each nibble of the selector picks one of eight bytes; its top bit, the sign of that byte instead.
SIMT_FN unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t bytes = uint64_t(b) << 32 | a;
    unsigned picked = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned pick = selector >> (4 * i);
        unsigned byte = unsigned(bytes >> (8 * (pick & 7))) & 255u;
        if (pick & 8) byte = byte & 128 ? 255 : 0;
        picked |= byte << (8 * i);
    }
    return picked;
}
SIMT_FN int __mul24(int a, int b) { return a * b; }
SIMT_FN int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
SIMT_FN unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
SIMT_FN unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) { return unsigned((uint64_t(hi) << 32 | lo) >> (s & 31)); }
SIMT_FN unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) {
    return unsigned((uint64_t(hi) << 32 | lo) << (s & 31) >> 32);
}

// Floats.
SIMT_FN float rsqrtf(float x) { return 1.0f / sqrtf(x); }
SIMT_FN float __expf(float x) { return expf(x); }
SIMT_FN float __logf(float x) { return logf(x); }
SIMT_FN float __log2f(float x) { return log2f(x); }
SIMT_FN float __sinf(float x) { return sinf(x); }
SIMT_FN float __cosf(float x) { return cosf(x); }
SIMT_FN float __powf(float x, float y) { return powf(x, y); }
SIMT_FN float __fdividef(float x, float y) { return x / y; }
SIMT_FN float __fdiv_rn(float x, float y) { return x / y; }
SIMT_FN float __frcp_rn(float x) { return 1.0f / x; }
SIMT_FN float __fsqrt_rn(float x) { return sqrtf(x); }
SIMT_FN float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SIMT_FN float __fadd_rn(float a, float b) { return a + b; }
SIMT_FN float __fsub_rn(float a, float b) { return a - b; }
SIMT_FN float __fmul_rn(float a, float b) { return a * b; }
SIMT_FN float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }  // 0 of a NaN
SIMT_FN int __float2int_rn(float x) { return int(lrintf(x)); }
SIMT_FN int __float2int_rz(float x) { return int(x); }
SIMT_FN int __float2int_rd(float x) { return int(floorf(x)); }
SIMT_FN int __float2int_ru(float x) { return int(ceilf(x)); }
SIMT_FN float __int2float_rn(int x) { return float(x); }
SIMT_FN float __uint2float_rn(unsigned x) { return float(x); }
SIMT_FN int __float_as_int(float x) { return simt::from_bits<int>(simt::to_bits(x)); }
SIMT_FN unsigned __float_as_uint(float x) { return simt::from_bits<unsigned>(simt::to_bits(x)); }
SIMT_FN float __int_as_float(int x) { return simt::from_bits<float>(simt::to_bits(x)); }
SIMT_FN float __uint_as_float(unsigned x) { return simt::from_bits<float>(simt::to_bits(x)); }

// Loads and stores with hints for the cache.
template <class T> SIMT_FN T __ldg(const T* p) { return *p; }
template <class T> SIMT_FN T __ldcg(const T* p) { return *p; }
template <class T> SIMT_FN T __ldcs(const T* p) { return *p; }
template <class T> SIMT_FN void __stcg(T* p, T v) { *p = v; }
template <class T> SIMT_FN void __stcs(T* p, T v) { *p = v; }

// Of two floats min and max are fminf and fmaxf: a NaN gives way to a number.
template <class A, class B> SIMT_FN std::common_type_t<A, B> min(A a, B b) {
    using C = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point<C>::value) return std::fmin(C(a), C(b));
    else return C(b) < C(a) ? C(b) : C(a);
}
template <class A, class B> SIMT_FN std::common_type_t<A, B> max(A a, B b) {
    using C = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point<C>::value) return std::fmax(C(a), C(b));
    else return C(a) < C(b) ? C(b) : C(a);
}
