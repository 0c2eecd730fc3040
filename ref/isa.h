// SPDX-License-Identifier: Apache-2.0
// The loops over arrays of numbers, one build per processor type: dtype_kernel.h, adam_kernel.h and norm_kernel.h are
// the text, isa_scalar.c, isa_avx2.c and isa_avx512.c compile it. All builds give the same bits.
#ifndef ZG_ISA_H
#define ZG_ISA_H

#include "adam.h"
#include "norm.h"

struct isa_kernels {
    void (*widen)(enum dtype dtype, const void *in, float *out, size_t count);
    void (*narrow)(enum dtype dtype, const float *in, void *out, size_t count);
    void (*accumulate)(enum dtype sum_dtype, void *sum, enum dtype in_dtype, const void *in, size_t count);
    void (*fold)(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out,
                 size_t count, int add);
    void (*adam)(const struct adam_step *step);
    uint32_t (*norm_max)(enum dtype dtype, const void *values, size_t count);
    void (*norm_accumulate)(struct norm_sum *sum, enum dtype dtype, const void *values, size_t count,
                            uint32_t max_bits);
};

// The functions of the three texts, as the including file compiles them.
#define ISA_KERNELS                                                                                        \
    {                                                                                                      \
        .widen = kernel_widen, .narrow = kernel_narrow, .accumulate = kernel_accumulate,                   \
        .fold = kernel_fold, .adam = kernel_adam, .norm_max = kernel_norm_max,                             \
        .norm_accumulate = kernel_norm_accumulate                                                          \
    }

extern const struct isa_kernels isa_scalar, isa_avx2, isa_avx512;

// The kernels of adam_isa_now().
const struct isa_kernels *isa_kernels(void);

#endif
