// SPDX-License-Identifier: Apache-2.0
// Which steps and micro-steps use a parameter, while these are removed.
#include "conformance/hunt/edit.h"

#include <string.h>

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
