// SPDX-License-Identifier: Apache-2.0
#include "conformance/cases/case.h"

#include <assert.h>
#include <stdio.h>

int case_first_step(const struct check_case *c)
{
    return c->phase == PHASE_RESUME ? c->checkpoint_step + 1 : 1;
}

int case_last_step(const struct check_case *c)
{
    return c->phase == PHASE_SAVE ? c->checkpoint_step : c->steps;
}

int case_micro_steps(const struct check_case *c, int step)
{
    int given = c->micro_steps[step - 1];
    return c->has_tokens && given > 0 ? given : c->accumulation;
}

int case_owner(const struct check_case *c, int param)
{
    assert(param >= 0 && param < c->param_count);
    return c->params[param].tied_to >= 0 ? c->params[param].tied_to : param;
}

bool case_is_trained(const struct check_case *c, int param)
{
    assert(param >= 0 && param < c->param_count);
    return c->params[param].tied_to < 0 && !c->params[param].frozen;
}

bool case_is_muon(const struct check_case *c, int param)
{
    return case_is_trained(c, param) && c->groups[c->params[param].group].muon;
}

bool case_is_used(const struct check_case *c, int use)
{
    return c->params[use].used && !c->params[use].frozen;
}

bool case_has_gradient(const struct check_case *c, int param)
{
    for (int i = 0; i < c->param_count; i++)
        if (case_owner(c, i) == param && case_is_used(c, i))
            return true;
    return false;
}

bool case_is_seen_in(const struct check_case *c, int use, int step, int micro)
{
    assert(step >= 1 && step <= CASE_STEP_MAX && micro >= 0 && micro < CASE_ACCUMULATION_MAX);
    return c->params[use].used && micro < case_micro_steps(c, step) &&
           !(c->params[use].unused_in[step - 1] >> micro & 1);
}

bool case_is_used_in(const struct check_case *c, int use, int step, int micro)
{
    return case_is_used(c, use) && case_is_seen_in(c, use, step, micro);
}

bool case_has_gradient_in(const struct check_case *c, int param, int step)
{
    for (int i = 0; i < c->param_count; i++)
        for (int micro = 0; case_owner(c, i) == param && micro < c->accumulation; micro++)
            if (case_is_used_in(c, i, step, micro))
                return true;
    return false;
}

bool case_use_varies(const struct check_case *c, int use)
{
    for (int step = 1; step <= c->steps; step++)
        for (int micro = 0; micro < case_micro_steps(c, step); micro++)
            if (case_is_used(c, use) && !case_is_used_in(c, use, step, micro))
                return true;
    return false;
}

void case_gradient_name(char out[CASE_TENSOR_BYTES], int micro, int rank, const char *name)
{
    snprintf(out, CASE_TENSOR_BYTES, "m%d/r%d/%s", micro, rank, name);
}

void case_seen_name(char out[CASE_TENSOR_BYTES], int micro, const char *name)
{
    snprintf(out, CASE_TENSOR_BYTES, "m%d/%s", micro, name);
}
