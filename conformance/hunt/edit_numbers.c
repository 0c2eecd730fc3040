// SPDX-License-Identifier: Apache-2.0
// Plainer numbers in the place of a case's own. inf and NaN stay, as they decide whether a step is skipped.
#include "conformance/hunt/edit.h"

#include "conformance/cases/case_mesh.h"

#include <math.h>

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
        for (int rank = 0; rank < case_data_ranks(c); rank++)
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
