// SPDX-License-Identifier: Apache-2.0
// The loops over dtype.h's conversions. This text is compiled once per processor type, by the isa_*.c files; its
// functions are private to each.
#ifndef ZG_DTYPE_KERNEL_H
#define ZG_DTYPE_KERNEL_H

#include "dtype.h"

#include <assert.h>

// Sums are made a block at a time, so that a block's fp32 sums stay in the first-level cache.
enum { FOLD_BLOCK = 1024 };

static void kernel_widen(enum dtype dtype, const void *in, float *out, size_t count)
{
    assert(dtype != DTYPE_BYTE);
    if (dtype == DTYPE_BF16) {
        const struct bf16 *restrict from = in;
        float *restrict to = out;
        for (size_t i = 0; i < count; i++)
            to[i] = bf16_to_f32(from[i]);
    } else if (dtype == DTYPE_FP16) {
        const struct fp16 *restrict from = in;
        float *restrict to = out;
        for (size_t i = 0; i < count; i++)
            to[i] = fp16_to_f32(from[i]);
    } else if (in != out) {
        memcpy(out, in, count * sizeof *out);
    }
}

static void kernel_narrow(enum dtype dtype, const float *in, void *out, size_t count)
{
    assert(dtype != DTYPE_BYTE);
    if (dtype == DTYPE_BF16) {
        const float *restrict from = in;
        struct bf16 *restrict to = out;
        for (size_t i = 0; i < count; i++)
            to[i] = f32_to_bf16(from[i]);
    } else if (dtype == DTYPE_FP16) {
        const float *restrict from = in;
        struct fp16 *restrict to = out;
        for (size_t i = 0; i < count; i++)
            to[i] = f32_to_fp16(from[i]);
    } else if (in != out) {
        memcpy(out, in, count * sizeof *in);
    }
}

// sum[i] = f32(a[i]) + f32(b[i]); sum overlaps neither.
static void kernel_add_pair(enum dtype dtype, const void *a, const void *b, float *sum, size_t count)
{
    assert(dtype != DTYPE_BYTE);
    float *restrict to = sum;
    if (dtype == DTYPE_BF16) {
        const struct bf16 *left = a, *right = b;
        for (size_t i = 0; i < count; i++)
            to[i] = bf16_to_f32(left[i]) + bf16_to_f32(right[i]);
    } else if (dtype == DTYPE_FP16) {
        const struct fp16 *left = a, *right = b;
        for (size_t i = 0; i < count; i++)
            to[i] = fp16_to_f32(left[i]) + fp16_to_f32(right[i]);
    } else {
        const float *left = a, *right = b;
        for (size_t i = 0; i < count; i++)
            to[i] = left[i] + right[i];
    }
}

// sum[i] = sum[i] + f32(in[i]); no overlap.
static void kernel_add(enum dtype dtype, const void *in, float *sum, size_t count)
{
    assert(dtype != DTYPE_BYTE);
    float *restrict to = sum;
    if (dtype == DTYPE_BF16) {
        const struct bf16 *restrict from = in;
        for (size_t i = 0; i < count; i++)
            to[i] += bf16_to_f32(from[i]);
    } else if (dtype == DTYPE_FP16) {
        const struct fp16 *restrict from = in;
        for (size_t i = 0; i < count; i++)
            to[i] += fp16_to_f32(from[i]);
    } else {
        const float *restrict from = in;
        for (size_t i = 0; i < count; i++)
            to[i] += from[i];
    }
}

static void kernel_accumulate(enum dtype sum_dtype, void *sum, enum dtype in_dtype, const void *in, size_t count)
{
    if (sum_dtype == DTYPE_FP32) {
        kernel_add(in_dtype, in, sum, count);
        return;
    }
    for (size_t start = 0; start < count; start += FOLD_BLOCK) {
        size_t block = count - start < FOLD_BLOCK ? count - start : FOLD_BLOCK;
        char *sums = (char *)sum + start * dtype_bytes(sum_dtype);
        float wide[FOLD_BLOCK];
        kernel_widen(sum_dtype, sums, wide, block);
        kernel_add(in_dtype, (const char *)in + start * dtype_bytes(in_dtype), wide, block);
        kernel_narrow(sum_dtype, wide, sums, block);
    }
}

// A block's inputs are all read before its outputs are written, so out may be one of them.
static void kernel_fold(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out,
                        size_t count, int add)
{
    for (size_t start = 0; start < count; start += FOLD_BLOCK) {
        size_t block = count - start < FOLD_BLOCK ? count - start : FOLD_BLOCK;
        size_t in_bytes = start * dtype_bytes(in_dtype);
        char *outs = (char *)out + start * dtype_bytes(out_dtype);
        float sum[FOLD_BLOCK];
        if (world == 1)
            kernel_widen(in_dtype, (const char *)in[0] + in_bytes, sum, block);
        else
            kernel_add_pair(in_dtype, (const char *)in[0] + in_bytes, (const char *)in[1] + in_bytes, sum, block);
        for (int rank = 2; rank < world; rank++)
            kernel_add(in_dtype, (const char *)in[rank] + in_bytes, sum, block);
        if (add)
            kernel_add(out_dtype, outs, sum, block);
        kernel_narrow(out_dtype, sum, outs, block);
    }
}

#endif
