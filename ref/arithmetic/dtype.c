// SPDX-License-Identifier: Apache-2.0
// Conversions and sums over arrays: the build of dtype_kernel.h for the processor that has the arrays.
#include "ref/arithmetic/dtype.h"

#include "ref/arithmetic/isa.h"

const char *dtype_name(enum dtype dtype)
{
    static const char *const names[] = {"fp32", "bf16", "fp16", "byte"};
    return names[dtype];
}

void dtype_widen(enum dtype dtype, const void *in, float *out, size_t count)
{
    isa_kernels_at(out)->widen(dtype, in, out, count);
}

void dtype_narrow(enum dtype dtype, const float *in, void *out, size_t count)
{
    isa_kernels_at(out)->narrow(dtype, in, out, count);
}

void dtype_accumulate(enum dtype sum_dtype, void *sum, enum dtype in_dtype, const void *in, size_t count)
{
    isa_kernels_at(sum)->accumulate(sum_dtype, sum, in_dtype, in, count);
}

void dtype_fold(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out, size_t count,
                int add)
{
    isa_kernels_at(out)->fold(in_dtype, in, world, out_dtype, out, count, add);
}

void dtype_fold_groups(enum dtype in_dtype, const void *const in[], int world, int group, enum dtype out_dtype,
                       void *out, size_t count, int add)
{
    isa_kernels_at(out)->fold_groups(in_dtype, in, world, group, out_dtype, out, count, add);
}
