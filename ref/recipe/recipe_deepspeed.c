// SPDX-License-Identifier: Apache-2.0
#include "ref/recipe/recipe_begin.h"

#include <assert.h>

// Multiplies the fp32 powers of beta by beta once per step. After a jump (a resumed run, changed betas) pow computes
// them afresh. A second call for the same step changes nothing.
static void advance_powers(struct recipe_state *state, float beta1, float beta2, uint64_t t)
{
    if (state->step == 0)
        *state = (struct recipe_state){.beta1_power = 1, .beta2_power = 1, .beta1 = beta1, .beta2 = beta2};
    bool changed = state->beta1 != beta1 || state->beta2 != beta2;
    if (!changed && t == state->step + 1) {
        state->beta1_power *= beta1;
        state->beta2_power *= beta2;
    } else if (changed || t != state->step) {
        state->beta1_power = (float)pow((double)beta1, (double)t);
        state->beta2_power = (float)pow((double)beta2, (double)t);
    }
    state->beta1 = beta1;
    state->beta2 = beta2;
    state->step = t;
}

// Rounds every hyper-parameter to fp32 first and computes in fp32.
void recipe_begin_deepspeed(const struct adam_hyper *hyper, uint64_t t, struct recipe_state *state,
                            struct adam_scalars *out)
{
    assert(t > 0);
    float beta1 = (float)hyper->beta1, beta2 = (float)hyper->beta2;
    float minus_lr = -1.0f * (float)hyper->lr, weight_decay = (float)hyper->weight_decay;
    advance_powers(state, beta1, beta2, t);
    float bias1 = hyper->bias_correction ? 1.0f - state->beta1_power : 1.0f;
    float bias2 = hyper->bias_correction ? 1.0f / sqrtf(1.0f - state->beta2_power) : 1.0f;
    *out = (struct adam_scalars){
        .decay = recipe_decay_of(hyper, weight_decay > 0),
        .m_keep = beta1,
        .m_take = 1.0f - beta1,
        .v_keep = beta2,
        .v_take = 1.0f - beta2,
        .bias2 = bias2,
        .eps = (float)hyper->eps,
        .step_size = minus_lr / bias1,
        .decay_l2 = weight_decay,
        .decay_decoupled = minus_lr * weight_decay,
    };
}
