// SPDX-License-Identifier: Apache-2.0
// For tests: the processor's own conversions between fp32 and the 16-bit formats. count is a multiple of 16.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__aarch64__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

enum { HARDWARE_BF16_FLUSHES = false };

static bool hardware_has_fp16(void)
{
    return true;
}

static bool hardware_has_bf16(void)
{
    return getauxval(AT_HWCAP2) & HWCAP2_BF16;
}

static void hardware_widen_fp16(const uint16_t *in, float *out, size_t count)
{
    for (size_t i = 0; i < count; i += 4)
        vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(in + i))));
}

static void hardware_narrow_fp16(const float *in, uint16_t *out, size_t count)
{
    for (size_t i = 0; i < count; i += 4)
        vst1_u16(out + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(in + i))));
}

#ifdef __clang__
#define WITH_BF16 __attribute__((target("bf16")))
#else
#define WITH_BF16 __attribute__((target("+bf16")))
#endif

WITH_BF16 static void hardware_narrow_bf16(const float *in, uint16_t *out, size_t count)
{
    for (size_t i = 0; i < count; i += 4)
        __asm__("bfcvtn %0.4h, %1.4s" : "=w"(*(uint16x4_t *)(out + i)) : "w"(vld1q_f32(in + i)));
}
#else
#include <cpuid.h>
#include <immintrin.h>

enum { HARDWARE_BF16_FLUSHES = true };  // the instruction reads subnormals as zeros

// __builtin_cpu_supports of clang 14 does not know "f16c".
static bool hardware_has_fp16(void)
{
    unsigned eax, ebx, ecx, edx;
    return __builtin_cpu_supports("avx") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static bool hardware_has_bf16(void)
{
    return __builtin_cpu_supports("avx512bf16");
}

__attribute__((target("f16c"))) static void hardware_widen_fp16(const uint16_t *in, float *out, size_t count)
{
    for (size_t i = 0; i < count; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i))));
}

__attribute__((target("f16c"))) static void hardware_narrow_fp16(const float *in, uint16_t *out, size_t count)
{
    for (size_t i = 0; i < count; i += 8)
        _mm_storeu_si128((__m128i *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

__attribute__((target("avx512f,avx512bw,avx512bf16"))) static void hardware_narrow_bf16(const float *in, uint16_t *out,
                                                                                        size_t count)
{
    for (size_t i = 0; i < count; i += 16)
        _mm256_storeu_si256((__m256i *)(out + i), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(in + i)));
}
#endif
