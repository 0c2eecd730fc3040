// SPDX-License-Identifier: Apache-2.0
// Decides each step: its loss scale, whether it is skipped, and the step whose gradient it applies.
#include "conformance/unsharded/unsharded.h"

#include "base/err.h"

#include <math.h>
#include <stdlib.h>

// The three forms of the dynamic loss scale. `clean`: steps without overflow since the last overflow or doubling, for
// DeepSpeed since the last overflow alone. `left`: hysteresis left, in overflows.
struct scaler_state {
    double scale;
    uint64_t clean, left;
};

static struct scaler_state scaler_begin(const struct case_loss_scale *rules)
{
    return (struct scaler_state){.scale = rules->kind == SCALE_NONE ? 1 : rules->scale, .left = rules->hysteresis};
}

static void halve(const struct case_loss_scale *rules, struct scaler_state *state)
{
    state->scale = fmax(state->scale / 2, rules->min_scale);
}

// DeepSpeed: after the beginning or an overflow, the first doubling follows the clean step number window + 1, the next
// ones every window steps; only a doubling refills the hysteresis, which stays at 1 once it is used up.
static void advance_deepspeed(const struct case_loss_scale *rules, bool overflow, struct scaler_state *state)
{
    if (overflow) {
        if (state->left <= 1)
            halve(rules, state);
        else
            state->left--;
        state->clean = 0;
        return;
    }
    uint64_t stable = state->clean++;
    if (stable > 0 && rules->window > 0 && stable % rules->window == 0) {
        state->left = rules->hysteresis;
        state->scale *= 2;
    }
}

// PyTorch: every overflow halves; the window begins anew with an overflow and with a doubling.
static void advance_torch(const struct case_loss_scale *rules, bool overflow, struct scaler_state *state)
{
    if (overflow) {
        halve(rules, state);
        state->clean = 0;
    } else if (++state->clean == rules->window) {
        state->scale *= 2;
        state->clean = 0;
    }
}

// Megatron-LM: as PyTorch, but the hysteresis is used up first, and refilled by a doubling.
static void advance_megatron(const struct case_loss_scale *rules, bool overflow, struct scaler_state *state)
{
    if (overflow) {
        state->clean = 0;
        state->left -= state->left > 0;
        if (state->left == 0)
            halve(rules, state);
    } else if (++state->clean == rules->window) {
        state->clean = 0;
        state->left = rules->hysteresis;
        state->scale *= 2;
    }
}

static void scaler_advance(const struct case_loss_scale *rules, enum scaler_form form, bool overflow,
                           struct scaler_state *state)
{
    if (rules->kind != SCALE_DYNAMIC)
        return;
    if (form == SCALER_TORCH)
        advance_torch(rules, overflow, state);
    else if (form == SCALER_MEGATRON)
        advance_megatron(rules, overflow, state);
    else
        advance_deepspeed(rules, overflow, state);
}

// An inf or NaN of any rank stays one in the mean, so the mean alone is searched.
static int find_overflow(const struct check_case *c, const struct case_values *values, int step, double scale,
                         bool *out)
{
    struct rule rule = rule_canonical(c);
    struct unsharded_choice choice = {0};
    *out = false;
    for (int i = 0; i < c->param_count && !*out; i++) {
        if (!case_is_trained(c, i) || c->params[i].count == 0)
            continue;
        float *gradients[CASE_PARAM_MAX] = {0};
        gradients[i] = malloc(c->params[i].count * sizeof(float));
        if (!gradients[i])
            return err_set(ERR_MEMORY, "no memory for a gradient of case %s", c->name);
        int rc = unsharded_gradient(c, values, &rule, &choice, step, scale, gradients);
        for (size_t k = 0; !rc && k < c->params[i].count; k++)
            *out = *out || !isfinite(gradients[i][k]);
        free(gradients[i]);
        TRY(rc);
    }
    return ERR_NONE;
}

int unsharded_decide(const struct check_case *c, const struct case_values *values, enum scaler_form form,
                     struct unsharded_decision *out)
{
    struct scaler_state scaler = scaler_begin(&c->loss_scale);
    uint64_t t = 0;
    int pending = 0;  // the step whose gradient is to be applied next
    for (int step = 1; step <= case_last_step(c); step++) {
        struct unsharded_decision *d = &out[step - 1];
        if (c->phase == PHASE_RESUME && c->weights_only && step == c->checkpoint_step + 1) {
            scaler = scaler_begin(&c->loss_scale);
            t = 0;
            pending = 0;
        }
        *d = (struct unsharded_decision){.scale = scaler.scale};
        if (c->overflow_check)
            TRY(find_overflow(c, values, step, scaler.scale, &d->skipped));
        scaler_advance(&c->loss_scale, form, d->skipped, &scaler);
        int own = d->skipped ? 0 : step;
        bool late = c->delayed_update > 0 && step >= c->delayed_update;
        d->applies = late ? pending : own;
        pending = late ? own : 0;
        t += d->applies > 0;
        d->t = t;
        d->scale_after = scaler.scale;
    }
    return ERR_NONE;
}
