// SPDX-License-Identifier: Apache-2.0
#include "ref/recipe/recipe_begin.h"

#include <assert.h>

// Hyper-parameters are fp32; powers of beta are computed in double and rounded once.
void recipe_begin_apex(const struct adam_hyper *hyper, uint64_t t, struct adam_scalars *out)
{
    assert(t > 0);
    float beta1 = (float)hyper->beta1, beta2 = (float)hyper->beta2, weight_decay = (float)hyper->weight_decay;
    *out = (struct adam_scalars){
        .decay = recipe_decay_of(hyper, weight_decay != 0),
        .m_keep = beta1,
        .m_take = 1.0f - beta1,
        .v_keep = beta2,
        .v_take = 1.0f - beta2,
        .bias1 = hyper->bias_correction ? (float)(1 - pow((double)beta1, (double)t)) : 1.0f,
        .bias2 = hyper->bias_correction ? (float)(1 - pow((double)beta2, (double)t)) : 1.0f,
        .eps = (float)hyper->eps,
        .step_size = -(float)hyper->lr,
        .decay_l2 = weight_decay,
        .decay_decoupled = weight_decay,
    };
}
