// Matrix products by a warp (tensor cores), the loads of their operands, and copies to shared memory that run beside other work.
//
// All 32 lanes call each of these together. A fragment is what one lane holds of a matrix, in words of 32 bits: four s8, two f16
// or bf16, lower indices in lower bits. Word w of a row holds its elements from w * (4 or 2). With g = lane / 4, t = lane % 4:
//
//   a  [16 rows, 8 words]     a[i]: row g + 8 * (i % 2), word t + 4 * (i / 2)
//   b  [8 columns, 8 words]   b[i]: column g, word t + 4 * i; the words of a column go along k
//   c, d  [16 rows, 8 columns] of s32 or f32
//                             c[i]: row g + 8 * (i / 2), column 2 * t + i % 2
//
// So 32 values along k for s8, 16 for f16 and bf16 (PTX ISA, "matrix fragments for mma.m16n8k16 / m16n8k32").
#pragma once
#include "common.cuh"

#ifndef SIMT

// d = a * b + c, s8 by s8 to s32, which wraps.
__device__ __forceinline__ void mma_m16n8k32_s8(int d[4], const u32 a[4], const u32 b[2], const int c[4]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

// d = a * b + c, f16 by f16 to f32. Products are exact; in which order and how rounded they are added is the GPU's affair.
__device__ __forceinline__ void mma_m16n8k16_f16(float d[4], const u32 a[4], const u32 b[2], const float c[4]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// The same of bf16.
__device__ __forceinline__ void mma_m16n8k16_bf16(float d[4], const u32 a[4], const u32 b[2], const float c[4]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// Loads 8x8 matrices of 16-bit elements from shared memory. Lane i names row i % 8 of matrix i / 8: 16 bytes, aligned to as much.
// r[m] is word t of row g of matrix m; `_trans`, elements 2t and 2t + 1 of its column g. (x2 takes the rows of lanes 0 to 15.)
__device__ __forceinline__ void ldmatrix_x4(u32 r[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2(u32 r[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(u32 r[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_trans(u32 r[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(row)) : "memory");
}

// Copies 16 bytes from global to shared memory, both aligned to 16, beside what the thread goes on to do. The bytes are there for
// the thread itself behind the wait for their group, for others behind a barrier after that.
__device__ __forceinline__ void cp_async_16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)) : "memory");
}
// What was copied since the last call is a group.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all groups of this thread but the last few.
template <int GROUPS_LEFT> __device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS_LEFT) : "memory");
}

#else
// The twins for the emulator (kernels/simt/cuda_matrix.h): SIMT_SITE is the line of the caller, for messages.

__device__ __forceinline__ void mma_m16n8k32_s8(int d[4], const u32 a[4], const u32 b[2], const int c[4], SIMT_SITE) {
    simt::mma(simt::Op::MmaS8, d, a, b, c, file, line);
}
__device__ __forceinline__ void mma_m16n8k16_f16(float d[4], const u32 a[4], const u32 b[2], const float c[4], SIMT_SITE) {
    simt::mma(simt::Op::MmaF16, d, a, b, c, file, line);
}
__device__ __forceinline__ void mma_m16n8k16_bf16(float d[4], const u32 a[4], const u32 b[2], const float c[4], SIMT_SITE) {
    simt::mma(simt::Op::MmaBf16, d, a, b, c, file, line);
}
__device__ __forceinline__ void ldmatrix_x4(u32 r[4], const void* row, SIMT_SITE) {
    simt::ldmatrix<4>(simt::Op::Ldmatrix4, r, row, file, line);
}
__device__ __forceinline__ void ldmatrix_x2(u32 r[2], const void* row, SIMT_SITE) {
    simt::ldmatrix<2>(simt::Op::Ldmatrix2, r, row, file, line);
}
__device__ __forceinline__ void ldmatrix_x4_trans(u32 r[4], const void* row, SIMT_SITE) {
    simt::ldmatrix<4>(simt::Op::Ldmatrix4Trans, r, row, file, line);
}
__device__ __forceinline__ void ldmatrix_x2_trans(u32 r[2], const void* row, SIMT_SITE) {
    simt::ldmatrix<2>(simt::Op::Ldmatrix2Trans, r, row, file, line);
}
__device__ __forceinline__ void cp_async_16(void* to, const void* from, SIMT_SITE) { simt::cp_async(to, from, file, line); }
__device__ __forceinline__ void cp_async_commit() { simt::simt_cp_async_commit(); }
template <int GROUPS_LEFT> __device__ __forceinline__ void cp_async_wait() { simt::cp_async_wait(GROUPS_LEFT); }
#endif
