// SPDX-License-Identifier: Apache-2.0
// A trial: what is judged of one answer, its states step by step and what they begin with.
#include "conformance/judge/judge_internal.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(CASE_STEP_MAX <= 64, "a bit for each step");

static void view(const struct check_case *c, const struct answer_step *step, struct unsharded_state *out)
{
    for (int i = 0; i < c->param_count; i++) {
        size_t bytes = c->params[i].count * sizeof(float);
        if (out->param[i] && step->param[i])
            memcpy(out->param[i], step->param[i], bytes);
        // Moments that an answer may leave out are zeros.
        if (out->exp_avg[i])
            step->exp_avg[i] ? (void)memcpy(out->exp_avg[i], step->exp_avg[i], bytes)
                             : (void)memset(out->exp_avg[i], 0, bytes);
        if (out->exp_avg_sq[i])
            step->exp_avg_sq[i] ? (void)memcpy(out->exp_avg_sq[i], step->exp_avg_sq[i], bytes)
                                : (void)memset(out->exp_avg_sq[i], 0, bytes);
    }
    out->t = step->t;
}

int trial_read(struct trial *trial, int step, const struct answer_step **out)
{
    assert(step >= case_first_step(trial->c) && step <= case_last_step(trial->c));
    struct answer_step *data = &trial->steps[step - 1];
    if (!(trial->read >> (step - 1) & 1))
        TRY(answer_read_step(trial->answer, step, data));
    trial->read |= UINT64_C(1) << (step - 1);
    *out = data;
    return ERR_NONE;
}

int trial_step(struct trial *trial, int step)
{
    const struct check_case *c = trial->c;
    const struct answer_step *data;
    TRY(trial_read(trial, step, &data));
    if (step == case_first_step(c))
        unsharded_state_copy(c, &trial->start, &trial->before);
    else
        unsharded_state_copy(c, &trial->after, &trial->before);
    trial->step = *data;
    view(c, data, &trial->after);
    return ERR_NONE;
}

static int order_count(const struct check_case *c)
{
    return 2 * c->world;
}

static int order_of(const struct check_case *c, const struct unsharded_choice *choice)
{
    return choice->first_rank + (choice->downwards ? c->world : 0);
}

static int open_gradient(const struct check_case *c, struct trial_gradient *out)
{
    for (int i = 0; i < c->param_count; i++)
        if (case_is_trained(c, i) && !out->of[i] && !(out->of[i] = calloc(c->params[i].count + 1, sizeof(float))))
            return err_set(ERR_MEMORY, "no memory to judge %s", c->name);
    return ERR_NONE;
}

int trial_gradient(struct trial *trial, const struct rule *rule, const struct unsharded_choice *choice, int step)
{
    assert(step >= 1 && step <= case_last_step(trial->c));
    const struct check_case *c = trial->c;
    struct trial_gradient *gradient = &trial->gradients[order_of(c, choice)];
    if (trial->gradient_step != step || !rule_same_gradient(rule, &trial->gradient_rule))
        for (int i = 0; i < order_count(c); i++)
            trial->gradients[i].is_made = false;
    trial->gradient_step = step;
    trial->gradient_rule = *rule;
    if (!gradient->is_made) {
        TRY(open_gradient(c, gradient));
        TRY(unsharded_gradient(c, trial->values, rule, choice, step, trial->decisions[step - 1].scale, gradient->of));
        gradient->norm = unsharded_norm(c, (const float *const *)gradient->of);
        gradient->is_made = true;
    }
    trial->gradient = gradient->of;
    trial->gradient_norm = gradient->norm;
    return ERR_NONE;
}

// The state that the first step begins with.
static int begin_trial(struct trial *trial)
{
    const struct check_case *c = trial->c;
    unsharded_begin(c, trial->values, &trial->start);
    if (!trial->saved)
        return ERR_NONE;
    struct answer_step last = {0};
    int rc = answer_read_step(trial->saved, case_last_step(trial->saved->c), &last);
    if (rc == ERR_NONE)
        view(c, &last, &trial->start);
    answer_step_close(&last);
    for (int i = 0; rc == ERR_NONE && c->weights_only && i < c->param_count; i++) {
        size_t bytes = c->params[i].count * sizeof(float);
        if (trial->start.exp_avg[i])
            memset(trial->start.exp_avg[i], 0, bytes);
        if (trial->start.exp_avg_sq[i])
            memset(trial->start.exp_avg_sq[i], 0, bytes);
    }
    if (c->weights_only)
        trial->start.t = 0;
    return rc;
}

int trial_open(struct trial *trial)
{
    const struct check_case *c = trial->c;
    trial->states = rule_states_of(c, &trial->options->states);
    trial->decisions = calloc((size_t)c->steps, sizeof *trial->decisions);
    trial->steps = calloc((size_t)c->steps, sizeof *trial->steps);
    trial->gradients = calloc((size_t)order_count(c), sizeof *trial->gradients);
    if (!trial->decisions || !trial->steps || !trial->gradients)
        return err_set(ERR_MEMORY, "no memory to judge %s", c->name);
    TRY(unsharded_state_open(c, &trial->start));
    TRY(unsharded_state_open(c, &trial->before));
    TRY(unsharded_state_open(c, &trial->after));
    TRY(unsharded_state_open(c, &trial->expected));
    TRY(open_gradient(c, &trial->gradients[0]));
    trial->gradient = trial->gradients[0].of;
    TRY(unsharded_decide(c, trial->values, trial->options->scaler, trial->decisions));
    return begin_trial(trial);
}

void trial_close(struct trial *trial)
{
    for (int step = 0; trial->steps && step < trial->c->steps; step++)
        answer_step_close(&trial->steps[step]);
    free(trial->steps);
    unsharded_state_close(&trial->start);
    unsharded_state_close(&trial->before);
    unsharded_state_close(&trial->after);
    unsharded_state_close(&trial->expected);
    for (int k = 0; trial->gradients && k < order_count(trial->c); k++)
        for (int i = 0; i < trial->c->param_count; i++)
            free(trial->gradients[k].of[i]);
    free(trial->gradients);
    free(trial->decisions);
}
