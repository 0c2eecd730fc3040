// SPDX-License-Identifier: Apache-2.0
// Conversions and sums over arrays in the number formats of dtype_element.h. All arrays of a call lie in one
// processor's memory (accelerator.h), whose kernels do the work; all kernels give the same bits.
#pragma once

#include "ref/arithmetic/dtype_element.h"

// Returns "fp32", "bf16", "fp16" or "byte".
const char *dtype_name(enum dtype dtype);

// Finds the number format of a name; false, with *out as it was: none has it.
bool dtype_of_name(const char *name, enum dtype *out);

// out[i] = f32(in[i]); exact. in and out do not overlap, except that in == out is allowed for fp32.
void dtype_widen(enum dtype dtype, const void *in, float *out, size_t count);

// out[i] = the value of dtype nearest to in[i]. in and out do not overlap, except that in == out is allowed for fp32.
void dtype_narrow(enum dtype dtype, const float *in, void *out, size_t count);

// sum[i] = round_sum(f32(sum[i]) + f32(in[i])): one fp32 addition and one rounding to sum's format. No overlap.
void dtype_accumulate(enum dtype sum_dtype, void *sum, enum dtype in_dtype, const void *in, size_t count);

// out[i] = round_out(((f32(in[0][i]) + f32(in[1][i])) + ...) + f32(in[world-1][i])): the canonical order of every sum
// over ranks, a left fold in fp32 with ranks ascending and one rounding at the end. out may be identical to
// one of in[] if both formats have the same size; otherwise it overlaps none of them. One input that is out, in the
// same format, stays as it is. world > 0.
void dtype_fold(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out, size_t count);

// As dtype_fold, in hierarchical order: folds each `group` consecutive inputs in fp32, then folds these sums in fp32,
// the first group first, with one rounding at the end. group divides world.
void dtype_fold_groups(enum dtype in_dtype, const void *const in[], int world, int group, enum dtype out_dtype,
                       void *out, size_t count);

// out[k][i] = the canonical sum of fp32 numbers, ((in[0][i] + in[1][i]) + ...) + in[world-1][i], for all k. Each of
// out[] may be identical to one of in[]; otherwise it overlaps none of them. around_cache: by streaming stores, which
// the caller orders before later ones. In host memory only. world > 0.
void dtype_sum_to_all(const float *const in[], int world, float *const out[], int out_count, size_t count,
                      bool around_cache);
