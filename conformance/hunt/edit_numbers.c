// SPDX-License-Identifier: Apache-2.0
// Plainer numbers in the place of a case's own, and which steps and micro-steps use a parameter.
#include "conformance/hunt/edit.h"

#include "conformance/cases/case_mesh.h"

#include <math.h>
#include <string.h>

// inf and NaN stay, as they decide whether a step is skipped.
static float plainer(float x, enum edit_numbers numbers)
{
    int exponent;
    if (x == 0 || !isfinite(x))
        return x;
    switch (numbers) {
    case NUMBERS_POWERS:  // the leading bit, which every dtype that holds x has
        frexpf(x, &exponent);
        return copysignf(ldexpf(1, exponent - 1), x);
    case NUMBERS_INITIAL_ZERO:
        return 0;
    default:
        return copysignf(1, x);
    }
}

static bool replace(float *values, size_t count, enum edit_numbers numbers)
{
    bool changed = false;
    for (size_t i = 0; values && i < count; i++) {
        float x = plainer(values[i], numbers);
        changed |= x != values[i] && isfinite(values[i]);
        values[i] = x;
    }
    return changed;
}

static bool replace_gradients(struct hunt_case *h, int part, int param, int step, enum edit_numbers numbers)
{
    const struct check_case *c = h->parts[part];
    bool changed = false;
    for (int micro = 0; micro < c->accumulation; micro++)
        for (int rank = 0; rank < case_batches(c); rank++)
            changed |= replace(case_values_gradient(h->values[part], step, micro, rank, param), c->params[param].count,
                               numbers);
    return changed;
}

bool edit_numbers(struct hunt_case *h, int param, enum edit_numbers numbers)
{
    bool changed = false, initial = numbers == NUMBERS_INITIAL_ZERO || numbers == NUMBERS_INITIAL_ONE;
    for (int part = 0; part < h->part_count; part++) {
        const struct check_case *c = h->parts[part];
        if (initial)
            changed |= replace(case_values_initial(h->values[part], param), c->params[param].count, numbers);
        for (int step = 1; !initial && step <= c->steps; step++)
            changed |= replace_gradients(h, part, param, step, numbers);
    }
    return changed;
}

bool edit_zero(struct hunt_case *h, int param, int step)
{
    bool changed = false;
    for (int part = 0; part < h->part_count; part++)
        changed |= replace_gradients(h, part, param, step, NUMBERS_INITIAL_ZERO);
    return changed;
}

// --- use ---

void edit_use_without_step(struct check_case *c, int at)
{
    for (int i = 0; i < c->param_count; i++) {
        uint16_t *steps = c->params[i].unused_in;
        memmove(&steps[at], &steps[at + 1], (size_t)(CASE_STEP_MAX - at - 1) * sizeof *steps);
        steps[CASE_STEP_MAX - 1] = 0;
    }
}

void edit_use_without_micro(struct check_case *c, int at)
{
    unsigned below = (1u << at) - 1;
    for (int i = 0; i < c->param_count; i++)
        for (int step = 0; step < CASE_STEP_MAX; step++) {
            unsigned bits = c->params[i].unused_in[step];
            c->params[i].unused_in[step] = (uint16_t)((bits & below) | (bits >> 1 & ~below));
        }
}

bool edit_use_always(struct check_case *c, int param)
{
    bool changed = !c->params[param].used || case_use_varies(c, param);
    c->params[param].used = true;
    memset(c->params[param].unused_in, 0, sizeof c->params[param].unused_in);
    return changed;
}

static bool is_used_somewhere(const struct check_case *c, int use)
{
    for (int step = 1; step <= c->steps; step++)
        for (int micro = 0; micro < c->accumulation; micro++)
            if (case_is_used_in(c, use, step, micro))
                return true;
    return false;
}

void edit_use_settle(struct check_case *c)
{
    for (int i = 0; i < c->param_count; i++)
        if (case_is_used(c, i) && !is_used_somewhere(c, i)) {
            c->params[i].used = false;
            memset(c->params[i].unused_in, 0, sizeof c->params[i].unused_in);
        }
}
