// Vectors and half: as large and as aligned as CUDA's.
#pragma once

using dim3 = simt::Dim3;

#define SIMT_VECTORS(T, name, align2, align4)                                            \
    struct alignas(align2) name##2 { T x, y; };                                          \
    struct name##3 { T x, y, z; };                                                       \
    struct alignas(align4) name##4 { T x, y, z, w; };                                    \
    SIMT_FN name##2 make_##name##2(T x, T y) { return {x, y}; }                          \
    SIMT_FN name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                  \
    SIMT_FN name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
SIMT_VECTORS(float, float, 8, 16)
SIMT_VECTORS(int, int, 8, 16)
SIMT_VECTORS(unsigned, uint, 8, 16)
SIMT_VECTORS(short, short, 4, 8)
SIMT_VECTORS(unsigned short, ushort, 4, 8)
SIMT_VECTORS(signed char, char, 2, 4)
SIMT_VECTORS(unsigned char, uchar, 2, 4)
struct alignas(16) double2 {
    double x, y;
};

// half is its bits; arithmetic is done in float and rounded once, which for one operation gives what half arithmetic gives.
struct __half {
    uint16_t bits;
};
struct alignas(4) __half2 {
    __half x, y;
};
using half = __half;
using half2 = __half2;

SIMT_FN float __half2float(__half h) {
    _Float16 value;
    std::memcpy(&value, &h, 2);
    return float(value);
}
SIMT_FN __half __float2half(float f) {
    const _Float16 value = _Float16(f);
    __half h;
    std::memcpy(&h, &value, 2);
    return h;
}
SIMT_FN __half __float2half_rn(float f) { return __float2half(f); }
SIMT_FN __half __ushort_as_half(unsigned short bits) { return {bits}; }
SIMT_FN unsigned short __half_as_ushort(__half h) { return h.bits; }

SIMT_FN __half2 __halves2half2(__half a, __half b) { return {a, b}; }
SIMT_FN __half2 __floats2half2_rn(float a, float b) { return {__float2half(a), __float2half(b)}; }
SIMT_FN __half2 __float22half2_rn(float2 a) { return {__float2half(a.x), __float2half(a.y)}; }
SIMT_FN float2 __half22float2(__half2 h) { return {__half2float(h.x), __half2float(h.y)}; }
SIMT_FN __half __low2half(__half2 h) { return h.x; }
SIMT_FN __half __high2half(__half2 h) { return h.y; }
SIMT_FN float __low2float(__half2 h) { return __half2float(h.x); }
SIMT_FN float __high2float(__half2 h) { return __half2float(h.y); }

SIMT_FN __half __hadd(__half a, __half b) { return __float2half(__half2float(a) + __half2float(b)); }
SIMT_FN __half __hmul(__half a, __half b) { return __float2half(__half2float(a) * __half2float(b)); }
SIMT_FN __half2 __hadd2(__half2 a, __half2 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
SIMT_FN __half2 __hmul2(__half2 a, __half2 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
