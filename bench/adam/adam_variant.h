// SPDX-License-Identifier: Apache-2.0
// The cases of `bench adam`: which part of a step is measured, in which recipe, on which instruction set.
#ifndef ZG_ADAM_VARIANT_H
#define ZG_ADAM_VARIANT_H

#include "ref/arithmetic/dtype.h"
#include "ref/arithmetic/isa.h"
#include "ref/recipe/recipe.h"

#include <stdbool.h>
#include <stddef.h>

// The steps that are measured. update: the optimizer alone. fused: in the same pass also averages the gradient over
// ranks, clips it, and writes bf16 model parameters. whole: fused after the global norm, which reads the gradient
// twice.
struct adam_variant {
    const char *name;
    enum dtype grad_dtype;
    bool writes_model_params, norm;
    const char *baseline;  // its memory streams: arrays read and written
};

enum { ADAM_VARIANT_COUNT = 5 };
extern const struct adam_variant adam_variants[ADAM_VARIANT_COUNT];

// A step over arrays of one size.
struct adam_case {
    const struct adam_variant *variant;
    const struct recipe *recipe;
    enum isa isa;
    size_t count;
    int threads;
};

#endif
