// SPDX-License-Identifier: Apache-2.0
// The number formats of training, and the conversions between them: IEEE round to nearest, ties to even, in every
// direction; NaN stays NaN (quiet, bf16 payload's upper bits kept); subnormals are kept, never flushed.
// The 16-bit types are structs, so that nobody adds them by accident.
#ifndef ZG_DTYPE_H
#define ZG_DTYPE_H

#include <stddef.h>
#include <stdint.h>

enum dtype { DTYPE_FP32, DTYPE_BF16, DTYPE_FP16, DTYPE_BYTE };

struct bf16 {
    uint16_t bits;
};
struct fp16 {
    uint16_t bits;
};

// "fp32", "bf16", "fp16", "byte".
const char *dtype_name(enum dtype dtype);

// Bytes of one element.
static inline size_t dtype_bytes(enum dtype dtype)
{
    return dtype == DTYPE_FP32 ? 4 : dtype == DTYPE_BYTE ? 1 : 2;
}

float bf16_to_f32(struct bf16 value);
struct bf16 f32_to_bf16(float value);
float fp16_to_f32(struct fp16 value);
struct fp16 f32_to_fp16(float value);

// out[i] = f32(in[i]); exact. in and out do not overlap, unless dtype is fp32 and in == out.
void dtype_widen(enum dtype dtype, const void *in, float *out, size_t count);

// out[i] = the nearest value of dtype to in[i]. in and out do not overlap, unless dtype is fp32 and in == out.
void dtype_narrow(enum dtype dtype, const float *in, void *out, size_t count);

// sum[i] = round_sum(f32(sum[i]) + f32(in[i])): one fp32 addition and one rounding to sum's format. No overlap.
void dtype_accumulate(enum dtype sum_dtype, void *sum, enum dtype in_dtype, const void *in, size_t count);

// out[i] = round_out(((f32(in[0][i]) + f32(in[1][i])) + ...) + f32(in[world-1][i])): the left fold in fp32, ranks
// ascending, with one rounding at the end: the canonical order of every sum over ranks. With `add`,
// out[i] = round_out(f32(out[i]) + that sum rounded to fp32): accumulation over micro-steps. out may be identical to
// any one of in[] when the formats are the same size, and overlaps none of them otherwise.
void dtype_fold(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out, size_t count,
                int add);

#endif
