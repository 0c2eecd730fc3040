// SPDX-License-Identifier: Apache-2.0
// The loops over the conversions of dtype_element.h. Each isa_*.c file compiles this text for its instruction set; the
// functions are private to it.
#pragma once

#include "ref/arithmetic/dtype_element.h"
#include "ref/arithmetic/ivdep.h"

#include <assert.h>
#include <stdbool.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

// Kernels process 16-bit arrays in blocks of this many elements: small enough for the fp32 values of a block to stay in
// the first-level cache, large enough for the processor to overlap one block with the next.
enum { KERNEL_BLOCK = 256 };

static void kernel_widen_fp16(const struct fp16 *restrict in, float *restrict out, size_t count)
{
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(in + i))));
#elif defined(__ARM_NEON)
    for (; i + 4 <= count; i += 4)
        vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&in[i].bits))));
#endif
    for (; i < count; i++)
        out[i] = fp16_to_f32(in[i]);
}

static void kernel_narrow_fp16(const float *restrict in, struct fp16 *restrict out, size_t count)
{
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__ARM_NEON)
    for (; i + 4 <= count; i += 4)
        vst1_u16(&out[i].bits, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(in + i))));
#endif
    for (; i < count; i++)
        out[i] = f32_to_fp16(in[i]);
}

static void kernel_widen_bf16(const struct bf16 *restrict in, float *restrict out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = bf16_to_f32(in[i]);
}

static void kernel_narrow_bf16(const float *restrict in, struct bf16 *restrict out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = f32_to_bf16(in[i]);
}

static void kernel_widen(enum dtype dtype, const void *in, float *out, size_t count)
{
    assert(dtype != DTYPE_BYTE);
    if (dtype == DTYPE_BF16)
        kernel_widen_bf16(in, out, count);
    else if (dtype == DTYPE_FP16)
        kernel_widen_fp16(in, out, count);
    else if (in != out)
        memcpy(out, in, count * sizeof *out);
}

static void kernel_narrow(enum dtype dtype, const float *in, void *out, size_t count)
{
    assert(dtype != DTYPE_BYTE);
    if (dtype == DTYPE_BF16)
        kernel_narrow_bf16(in, out, count);
    else if (dtype == DTYPE_FP16)
        kernel_narrow_fp16(in, out, count);
    else if (in != out)
        memcpy(out, in, count * sizeof *in);
}

// Returns the values as fp32: in place, or widened into the buffer.
static const float *kernel_as_f32(enum dtype dtype, const void *values, float *buffer, size_t count)
{
    if (dtype == DTYPE_FP32)
        return (const float *)values;
    kernel_widen(dtype, values, buffer, count);
    return buffer;
}

// sum[i] = a[i] + b[i]; sum may be identical to a or b.
static void kernel_add(const float *a, const float *b, float *sum, size_t count)
{
    IVDEP
    for (size_t i = 0; i < count; i++)
        sum[i] = a[i] + b[i];
}

static size_t kernel_block(size_t start, size_t count)
{
    return count - start < KERNEL_BLOCK ? count - start : KERNEL_BLOCK;
}

// As f32_to_bf16 and bf16_to_f32, without a narrow element between them.
static void kernel_round_bf16(size_t count, const float *in, float *out)
{
    IVDEP
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = f32_bits(in[i]);
        bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
        uint32_t half = nan ? 0x00400000u & ~bits : 0x7fffu + ((bits >> 16) & 1);
        out[i] = f32_of_bits((bits + half) & 0xffff0000u);
    }
}

// operand_round of gpt_math.h in host memory: rounded values as floats. in and out may be identical.
static void kernel_operand_round(enum dtype dtype, size_t count, const float *in, void *out)
{
    float *to = out;
    if (dtype == DTYPE_BF16)
        kernel_round_bf16(count, in, to);
    else if (dtype == DTYPE_FP32 && in != to)
        memcpy(to, in, count * sizeof *to);
    for (size_t start = 0; dtype == DTYPE_FP16 && start < count; start += KERNEL_BLOCK) {
        struct fp16 rounded[KERNEL_BLOCK];
        size_t block = kernel_block(start, count);
        kernel_narrow_fp16(in + start, rounded, block);
        kernel_widen_fp16(rounded, to + start, block);
    }
}

static void kernel_accumulate(enum dtype sum_dtype, void *sum, enum dtype in_dtype, const void *in, size_t count)
{
    for (size_t start = 0; start < count; start += KERNEL_BLOCK) {
        size_t block = kernel_block(start, count);
        char *to = (char *)sum + start * dtype_bytes(sum_dtype);
        const char *from = (const char *)in + start * dtype_bytes(in_dtype);
        float left[KERNEL_BLOCK], right[KERNEL_BLOCK];
        float *target = sum_dtype == DTYPE_FP32 ? (float *)(void *)to : left;
        kernel_add(kernel_as_f32(sum_dtype, to, left, block), kernel_as_f32(in_dtype, from, right, block), target,
                   block);
        if (sum_dtype != DTYPE_FP32)
            kernel_narrow(sum_dtype, target, to, block);
    }
}

// Reads all inputs of a block before it writes the block's outputs, so out may be one of the inputs.
static void kernel_fold(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out,
                        size_t count)
{
    for (size_t start = 0; start < count; start += KERNEL_BLOCK) {
        size_t block = kernel_block(start, count);
        size_t in_bytes = start * dtype_bytes(in_dtype);
        char *to = (char *)out + start * dtype_bytes(out_dtype);
        float left[KERNEL_BLOCK], right[KERNEL_BLOCK];
        const float *sum = kernel_as_f32(in_dtype, (const char *)in[0] + in_bytes, left, block);
        for (int rank = 1; rank < world; rank++) {
            bool last = rank == world - 1 && out_dtype == DTYPE_FP32;
            float *target = last ? (float *)(void *)to : left;
            kernel_add(sum, kernel_as_f32(in_dtype, (const char *)in[rank] + in_bytes, right, block), target, block);
            sum = target;
        }
        kernel_narrow(out_dtype, sum, to, block);
    }
}

// Whole cache lines where the instruction set has such vectors: a processor need not read a line that it overwrites.
// Sanitizers do not see streaming stores.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
enum { KERNEL_VECTOR_BYTES = 16 };
#define KERNEL_STREAM(to, vector) (*(to) = (vector))
#elif defined(__AVX512F__)
enum { KERNEL_VECTOR_BYTES = 64 };
#define KERNEL_STREAM(to, vector) _mm512_stream_ps((float *)(to), (__m512)(vector))
#elif defined(__AVX__)
enum { KERNEL_VECTOR_BYTES = 32 };
#define KERNEL_STREAM(to, vector) _mm256_stream_ps((float *)(to), (__m256)(vector))
#else
enum { KERNEL_VECTOR_BYTES = 16 };
#define KERNEL_STREAM(to, vector) _mm_stream_ps((float *)(to), (__m128)(vector))
#endif
typedef float kernel_vector __attribute__((vector_size(KERNEL_VECTOR_BYTES), aligned(sizeof(float)), may_alias));

static void kernel_sum_elements(const float *const in[], int world, float *const out[], int out_count, size_t from,
                                size_t end)
{
    for (size_t i = from; i < end; i++) {
        float sum = in[0][i];
        for (int rank = 1; rank < world; rank++)
            sum = sum + in[rank][i];
        for (int k = 0; k < out_count; k++)
            out[k][i] = sum;
    }
}

static void kernel_sum_to_all(const float *const in[], int world, float *const out[], int out_count, size_t count,
                              bool around_cache)
{
    enum { LANES = KERNEL_VECTOR_BYTES / sizeof(float) };
    size_t head = -(uintptr_t)out[0] % KERNEL_VECTOR_BYTES / sizeof(float), i = head < count ? head : count;
    kernel_sum_elements(in, world, out, out_count, 0, i);
    for (; i + LANES <= count; i += LANES) {
        kernel_vector sum = *(const kernel_vector *)(in[0] + i);
        for (int rank = 1; rank < world; rank++)
            sum = sum + *(const kernel_vector *)(in[rank] + i);
        for (int k = 0; k < out_count; k++)
            if (around_cache && (uintptr_t)(out[k] + i) % KERNEL_VECTOR_BYTES == 0)
                KERNEL_STREAM((kernel_vector *)(out[k] + i), sum);
            else
                *(kernel_vector *)(out[k] + i) = sum;
    }
    kernel_sum_elements(in, world, out, out_count, i, count);
}

// out may be one of the inputs, as above.
static void kernel_fold_groups(enum dtype in_dtype, const void *const in[], int world, int group, enum dtype out_dtype,
                               void *out, size_t count)
{
    for (size_t start = 0; start < count; start += KERNEL_BLOCK) {
        size_t block = kernel_block(start, count);
        float sum[KERNEL_BLOCK], of_group[KERNEL_BLOCK];
        for (int first = 0; first < world; first += group) {
            const void *members[group];
            int i = 0;
            do
                members[i] = (const char *)in[first + i] + start * dtype_bytes(in_dtype);
            while (++i < group);
            kernel_fold(in_dtype, members, group, DTYPE_FP32, first == 0 ? sum : of_group, block);
            if (first > 0)
                kernel_add(sum, of_group, sum, block);
        }
        const void *sums[] = {sum};
        kernel_fold(DTYPE_FP32, sums, 1, out_dtype, (char *)out + start * dtype_bytes(out_dtype), block);
    }
}
