// SPDX-License-Identifier: Apache-2.0
// The number formats of training and the conversions of one element. Every conversion rounds to nearest, ties to even.
// NaN stays NaN: it becomes quiet and keeps the upper bits of its payload. Subnormals are kept, never flushed to zero.
// The 16-bit types are structs, so that the compiler rejects arithmetic on them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define DTYPE_INLINE __host__ __device__ static inline
#else
#define DTYPE_INLINE static inline
#endif

enum dtype { DTYPE_FP32, DTYPE_BF16, DTYPE_FP16, DTYPE_BYTE };

struct bf16 {
    uint16_t bits;
};
struct fp16 {
    uint16_t bits;
};

// Bytes of one element.
DTYPE_INLINE size_t dtype_bytes(enum dtype dtype)
{
    return dtype == DTYPE_FP32 ? 4 : dtype == DTYPE_BYTE ? 1 : 2;
}

DTYPE_INLINE uint32_t f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

DTYPE_INLINE float f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// The four conversions have no branches, so that the compiler vectorises loops over them.

DTYPE_INLINE float bf16_to_f32(struct bf16 value)
{
    uint16_t quiet = (value.bits & 0x7fffu) > 0x7f80u ? 0x0040u : 0;
    return f32_of_bits((uint32_t)(value.bits | quiet) << 16);
}

DTYPE_INLINE struct bf16 f32_to_bf16(float value)
{
    uint32_t bits = f32_bits(value);
    bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    uint32_t quiet = nan ? 0x00400000u : 0;
    uint32_t half = nan ? 0 : 0x7fffu + ((bits >> 16) & 1);
    return (struct bf16){(uint16_t)(((bits | quiet) + half) >> 16)};
}

DTYPE_INLINE float fp16_to_f32(struct fp16 value)
{
    uint32_t sign = (uint32_t)(value.bits & 0x8000u) << 16;
    // Exponent and fraction at their positions in fp32, but with fp16's exponent bias: 112 less than fp32's.
    uint32_t magnitude = (uint32_t)(value.bits & 0x7fffu) << 13;
    uint32_t normal = magnitude + (112u << 23);
    // 2^-14 x (1 + fraction) - 2^-14: the subtraction normalises, exactly.
    uint32_t subnormal = f32_bits(f32_of_bits(magnitude + (113u << 23)) - f32_of_bits(113u << 23));
    uint32_t special = (magnitude + (224u << 23)) | (magnitude > 31u << 23 ? 0x00400000u : 0);
    uint32_t bits = magnitude < 1u << 23 ? subnormal : magnitude < 31u << 23 ? normal : special;
    return f32_of_bits(sign | bits);
}

DTYPE_INLINE struct fp16 f32_to_fp16(float value)
{
    uint32_t sign = (f32_bits(value) >> 16) & 0x8000u;
    uint32_t magnitude = f32_bits(value) & 0x7fffffffu;
    // Rounding may carry into the exponent, up to infinity; the result's encoding is then still the right one.
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
    // The spacing of fp32 values just above 0.5 is fp16's smallest subnormal, so this addition rounds to it.
    uint32_t subnormal = f32_bits(f32_of_bits(magnitude) + 0.5f) - f32_bits(0.5f);
    uint32_t special = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : 0x7c00u;
    uint32_t bits = magnitude < 113u << 23 ? subnormal : magnitude < 143u << 23 ? normal : special;
    return (struct fp16){(uint16_t)(sign | bits)};
}

// Rounds a number to a dtype, which is not DTYPE_BYTE, and back.
DTYPE_INLINE float dtype_kept(enum dtype dtype, float x)
{
    return dtype == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(x)) : dtype == DTYPE_FP16 ? fp16_to_f32(f32_to_fp16(x)) : x;
}
