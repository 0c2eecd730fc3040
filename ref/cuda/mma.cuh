// SPDX-License-Identifier: Apache-2.0
// The product of a warp on tensor cores, c (16 x 8) += a (16 x 16) b (16 x 8), of 16-bit operands with fp32 sums: PTX'
// mma.m16n8k16. Lane l = 4 g + t holds
//   c    (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
//   a    (g, 2t ..), (g + 8, 2t ..), (g, 2t + 8 ..), (g + 8, 2t + 8 ..)    two elements of a row each, the first one
//   low b    (2t .., g), (2t + 8 .., g)                                       two elements of a column each
// Its operands come from four matrices of 8 x 8 elements in shared memory (ldmatrix): lane l gives the address of row
// l % 8 of matrix l / 8 and gets (g, 2t ..) of each matrix, or with is_turned (2t .., g).
#pragma once

#include "ref/cuda/array_element.cuh"

#ifdef __CUDACC__
#ifdef __CUDA_ARCH__
template <enum dtype D> __device__ static inline void mma_16x8x16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    static_assert(D == DTYPE_BF16 || D == DTYPE_FP16, "operands have 16 bits");
    if constexpr (D == DTYPE_BF16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two elements of a row as a register of an operand.
template <enum dtype D> __device__ static inline uint32_t mma_pair(float first, float second)
{
    uint32_t pair;
    if constexpr (D == DTYPE_BF16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

template <bool is_turned> __device__ static inline void mma_load(uint32_t to[4], const uint16_t *row)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    if constexpr (is_turned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at)
                     : "memory");
}
#else
template <enum dtype D> __device__ static inline uint32_t mma_pair(float first, float second)
{
    const float values[2] = {first, second};
    uint16_t bits[2];
    for (int i = 0; i < 2; i++)
        store<1>(D, bits, i, values + i);
    return bits[0] | (uint32_t)bits[1] << 16;
}

template <bool is_turned> __device__ static inline void mma_load(uint32_t to[4], const uint16_t *row)
{
    const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (unsigned i = 0; i < 4; i++) {
        const uint16_t *rows[2];
        for (unsigned j = 0; j < 2; j++)
            rows[j] = (const uint16_t *)__shfl_sync(0xffffffffu, (uint64_t)row, 8 * i + (is_turned ? 2 * t + j : g));
        to[i] =
            is_turned ? rows[0][g] | (uint32_t)rows[1][g] << 16 : rows[0][2 * t] | (uint32_t)rows[0][2 * t + 1] << 16;
    }
}

template <enum dtype D> __device__ static inline float mma_half(uint64_t pairs, int half)
{
    uint16_t bits = (uint16_t)(pairs >> 16 * half);
    float x[1];
    load<1>(D, &bits, 0, x);
    return x[0];
}

// Without tensor cores, from the same registers: a chain over the shared dimension, ascending.
template <enum dtype D> __device__ static inline void mma_16x8x16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    const unsigned all = 0xffffffffu, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint64_t columns[2][4];
    for (unsigned i = 0; i < 8; i++)
        columns[i / 4][i % 4] = __shfl_sync(all, (uint64_t)b[0] | (uint64_t)b[1] << 32, 4 * (2 * t + i / 4) + i % 4);
    for (int upper = 0; upper < 2; upper++)
        for (unsigned from = 0; from < 4; from++) {
            // Low halves are of row g or of the lower 8 rows, high ones of row g + 8 or of the upper 8 rows.
            uint64_t rows = __shfl_sync(all, (uint64_t)a[2 * upper] | (uint64_t)a[2 * upper + 1] << 32, 4 * g + from);
            for (int half = 0; half < 2; half++)
                for (int i = 0; i < 4; i++)
                    c[i] = fmaf(mma_half<D>(rows, 2 * (i / 2) + half),
                                mma_half<D>(columns[i % 2][from], 2 * upper + half), c[i]);
        }
}
#endif
#endif
