// SPDX-License-Identifier: Apache-2.0
#include "ref/arithmetic/dtype.h"

#include "ref/arithmetic/isa.h"

#include <assert.h>
#include <string.h>

const char *dtype_name(enum dtype dtype)
{
    static const char *const names[] = {"fp32", "bf16", "fp16", "byte"};
    assert((size_t)dtype < sizeof names / sizeof names[0]);
    return names[dtype];
}

bool dtype_of_name(const char *name, enum dtype *out)
{
    for (enum dtype dtype = DTYPE_FP32; dtype < DTYPE_BYTE; dtype++)
        if (strcmp(name, dtype_name(dtype)) == 0) {
            *out = dtype;
            return true;
        }
    return false;
}

// A number format, and an array to go with it unless count is 0.
static __attribute__((unused)) bool is_array(enum dtype dtype, const void *values, size_t count)
{
    return dtype < DTYPE_BYTE && (values || count == 0);
}

void dtype_widen(enum dtype dtype, const void *in, float *out, size_t count)
{
    assert(is_array(dtype, in, count) && is_array(DTYPE_FP32, out, count));
    isa_kernels_at(out)->widen(dtype, in, out, count);
}

void dtype_narrow(enum dtype dtype, const float *in, void *out, size_t count)
{
    assert(is_array(DTYPE_FP32, in, count) && is_array(dtype, out, count));
    isa_kernels_at(out)->narrow(dtype, in, out, count);
}

void dtype_accumulate(enum dtype sum_dtype, void *sum, enum dtype in_dtype, const void *in, size_t count)
{
    assert(is_array(sum_dtype, sum, count) && is_array(in_dtype, in, count));
    isa_kernels_at(sum)->accumulate(sum_dtype, sum, in_dtype, in, count);
}

void dtype_fold(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out, size_t count)
{
    assert(world > 0 && is_array(in_dtype, in[0], count) && is_array(out_dtype, out, count));
    if (world == 1 && in[0] == out && in_dtype == out_dtype)
        return;
    isa_kernels_at(out)->fold(in_dtype, in, world, out_dtype, out, count);
}

void dtype_fold_groups(enum dtype in_dtype, const void *const in[], int world, int group, enum dtype out_dtype,
                       void *out, size_t count)
{
    assert(world > 0 && is_array(in_dtype, in[0], count) && is_array(out_dtype, out, count));
    assert(group > 0 && world % group == 0);
    isa_kernels_at(out)->fold_groups(in_dtype, in, world, group, out_dtype, out, count);
}

void dtype_sum_to_all(const float *const in[], int world, float *const out[], int out_count, size_t count,
                      bool around_cache)
{
    assert(world > 0 && out_count > 0);
    isa_kernels()->sum_to_all(in, world, out, out_count, count, around_cache);
}
