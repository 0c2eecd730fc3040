// SPDX-License-Identifier: Apache-2.0
// Adam over arrays: the one text of recipe.h, built for scalar, AVX2 and AVX-512 processors and chosen at run time;
// the same bits from each, except that of two NaN operands either may survive. The fused whole step reads a 16-bit or
// fp32 gradient, takes its mean, unscales and clips it, updates, and writes the 16-bit copy: one pass over memory.
#ifndef ZG_ADAM_H
#define ZG_ADAM_H

#include "ref/arithmetic/dtype.h"
#include "ref/recipe/recipe.h"

#include <stddef.h>

enum adam_isa { ADAM_SCALAR, ADAM_AVX2, ADAM_AVX512, ADAM_ISA_COUNT };

const char *adam_isa_name(enum adam_isa isa);
int adam_isa_parse(const char *name, enum adam_isa *out);  // ERR_USAGE: unknown, or this processor has it not
enum adam_isa adam_isa_best(void);
void adam_isa_set(enum adam_isa isa);  // for the whole process; the default is the best
enum adam_isa adam_isa_now(void);

struct adam_step {
    const struct recipe *recipe;
    struct adam_scalars scalars;  // of step t, from recipe_begin_step
    const void *grad;             // [count] sums over ranks and micro-steps; not written
    enum dtype grad_dtype;
    float grad_divisor;      // g = f32(grad) / divisor, correctly rounded: ranks x micro-steps x loss scale
    float grad_coefficient;  // then g = g x coefficient: the clip; 1 changes nothing
    float *param;            // [count] fp32 (master) parameters, updated
    float *exp_avg;          // [count] m, updated
    float *exp_avg_sq;       // [count] v, updated
    void *model_params;      // [count] the updated parameters in model_dtype; null: none
    enum dtype model_dtype;
    size_t count;
    size_t tensor_index;  // position of element 0 in its tensor, for recipes whose tail differs from their body
    size_t tensor_count;  // elements of that tensor
};

// Whether a multiplication by the divisor's reciprocal rounds the same real number as a division: it is a power of two.
static inline bool adam_divides_exactly(float divisor)
{
    int exponent;
    return isfinite(divisor) && fabsf(frexpf(divisor, &exponent)) == 0.5f && isfinite(1.0f / divisor);
}

// One thread.
void adam_update(const struct adam_step *step);

// The same, cut over `threads` OpenMP threads.
void adam_update_parallel(const struct adam_step *step, int threads);

#endif
