// SPDX-License-Identifier: Apache-2.0
// The unsharded state, and Adam's step from one state to the next.
#include "conformance/unsharded/unsharded.h"

#include "base/err.h"
#include "conformance/unsharded/recipe_row.h"

#include <stdlib.h>
#include <string.h>

int unsharded_state_open(const struct check_case *c, struct unsharded_state *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < c->param_count; i++) {
        size_t room = c->params[i].count + 1;
        if (case_owner(c, i) != i)
            continue;
        out->param[i] = calloc(room, sizeof(float));
        bool complete = out->param[i];
        if (case_is_trained(c, i)) {
            out->exp_avg[i] = calloc(room, sizeof(float));
            out->exp_avg_sq[i] = calloc(room, sizeof(float));
            complete = complete && out->exp_avg[i] && out->exp_avg_sq[i];
        }
        if (!complete) {
            unsharded_state_close(out);
            return err_set(ERR_MEMORY, "no memory for the unsharded state of %s", c->params[i].name);
        }
    }
    return ERR_NONE;
}

void unsharded_state_close(struct unsharded_state *state)
{
    for (int i = 0; state && i < CASE_PARAM_MAX; i++) {
        free(state->param[i]);
        free(state->exp_avg[i]);
        free(state->exp_avg_sq[i]);
    }
    if (state)
        memset(state, 0, sizeof *state);
}

static void copy_array(const float *from, float *to, size_t count)
{
    if (from && to)
        memmove(to, from, count * sizeof *to);
}

static void copy_param(const struct check_case *c, int param, const struct unsharded_state *from,
                       struct unsharded_state *to)
{
    copy_array(from->param[param], to->param[param], c->params[param].count);
    copy_array(from->exp_avg[param], to->exp_avg[param], c->params[param].count);
    copy_array(from->exp_avg_sq[param], to->exp_avg_sq[param], c->params[param].count);
}

void unsharded_state_copy(const struct check_case *c, const struct unsharded_state *from, struct unsharded_state *to)
{
    for (int i = 0; i < c->param_count; i++)
        copy_param(c, i, from, to);
    to->t = from->t;
}

void unsharded_begin(const struct check_case *c, const struct case_values *values, struct unsharded_state *out)
{
    for (int i = 0; i < c->param_count; i++) {
        size_t bytes = c->params[i].count * sizeof(float);
        if (out->param[i])
            copy_array(case_initial(values, i), out->param[i], c->params[i].count);
        if (out->exp_avg[i]) {
            memset(out->exp_avg[i], 0, bytes);
            memset(out->exp_avg_sq[i], 0, bytes);
        }
    }
    out->t = 0;
}

uint64_t unsharded_missed(const struct check_case *c, const struct unsharded_decision *decisions, int step, int param)
{
    uint64_t missed = 0;
    int first = c->phase == PHASE_RESUME && c->weights_only ? c->checkpoint_step + 1 : 1;
    for (int before = first; before < step; before++)
        missed += decisions[before - 1].applies > 0 && !case_has_gradient_in(c, param, decisions[before - 1].applies);
    return missed;
}

// Rounds what is kept of a parameter's state.
static void keep(const struct adam_recipe *recipe, const struct rule_states *states, size_t count, float *param,
                 float *exp_avg, float *exp_avg_sq)
{
    if (recipe->keep) {
        recipe->keep(exp_avg, count, true);
        recipe->keep(exp_avg_sq, count, false);
    }
    for (size_t k = 0; k < count && rule_states_are_short(states); k++) {
        param[k] = unsharded_round(states->master, param[k]);
        exp_avg[k] = unsharded_round(states->moments, exp_avg[k]);
        exp_avg_sq[k] = unsharded_round(states->moments, exp_avg_sq[k]);
    }
}

// An element of the gradient that enters the update.
static float gradient_of(const struct rule_states *states, float g, float coefficient)
{
    enum dtype dtype = states->rounds_gradient ? states->master : DTYPE_FP32;
    g = unsharded_round(dtype, g);
    return coefficient == 1.0f ? g : unsharded_round(dtype, g * coefficient);
}

int unsharded_adam(const struct check_case *c, const struct rule *rule, const struct unsharded_update *update,
                   const float *const gradients[CASE_PARAM_MAX], const struct unsharded_state *from,
                   struct unsharded_state *to)
{
    const struct adam_recipe *recipe = adam_recipe_at(rule->recipe);
    if (!recipe || update->t == 0 || update->lr_step < 1 || update->lr_step > CASE_STEP_MAX)
        return err_set(ERR_INTERNAL, "case %s: no such recipe or step", c->name);
    enum recipe_fuse fuse = update->tail ? recipe->tail : recipe->body;
    struct recipe_scalars scalars = {0};  // of the group and the missed updates below
    int scalars_group = -1;
    uint64_t scalars_missed = 0;
    for (int i = 0; i < c->param_count; i++) {
        const struct case_group *group = &c->groups[c->params[i].group];
        copy_param(c, i, from, to);
        if (!case_is_trained(c, i) || (update->leaves_unused && !case_has_gradient_in(c, i, update->lr_step)))
            continue;
        bool zero_gradient = !case_has_gradient(c, i);
        for (size_t k = 0; group->muon && k < c->params[i].count; k++) {
            float g = zero_gradient ? 0.0f : gradients[i][k] * update->coefficient;
            to->exp_avg[i][k] = muon_momentum_of(rule->momentum, group->beta1, to->exp_avg[i][k], g);
        }
        if (group->muon)
            continue;
        uint64_t missed = update->missed ? update->missed[i] : 0;
        struct recipe_step step = {
            .lr = group->lr[update->lr_step - 1],
            .beta1 = group->beta1,
            .beta2 = group->beta2,
            .eps = group->eps,
            .weight_decay = group->weight_decay,
            .decoupled = group->decoupled,
            .bias_correction = group->bias_correction,
            .t = update->t - missed,
            .resumed_t = update->resumed_t > missed ? update->resumed_t - missed : 0,
        };
        if (scalars_group != c->params[i].group || scalars_missed != missed)
            recipe->begin(&step, &scalars);
        scalars_group = c->params[i].group;
        scalars_missed = missed;
        scalars.storage = rule->states.moments;
        for (size_t k = 0; k < c->params[i].count; k++) {
            float g = zero_gradient ? 0.0f : gradient_of(&rule->states, gradients[i][k], update->coefficient);
            recipe->element(&scalars, fuse, g, &to->param[i][k], &to->exp_avg[i][k], &to->exp_avg_sq[i][k]);
        }
        keep(recipe, &rule->states, c->params[i].count, to->param[i], to->exp_avg[i], to->exp_avg_sq[i]);
    }
    to->t = update->t;
    return ERR_NONE;
}

double unsharded_norm(const struct check_case *c, const float *const gradients[CASE_PARAM_MAX])
{
    // The squares are exact and cannot overflow; n additions lose less than n x 2^-64 of the sum.
    long double sum = 0;
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; gradients[i] && case_is_trained(c, i) && k < c->params[i].count; k++)
            sum += (long double)gradients[i][k] * (long double)gradients[i][k];
    return (double)sqrtl(sum);
}

float unsharded_coefficient(const struct check_case *c, const struct rule *rule, double norm)
{
    const double e = 1e-6, max_norm = c->gradient_clipping;
    if (!(max_norm > 0))
        return 1;
    float short_max = (float)max_norm, padded = (float)norm + (float)e, coefficient;
    switch (rule->clip) {
    case CLIP_BY_RECIPROCAL:
        coefficient = 1.0f / (padded / short_max);
        break;
    case CLIP_BY_TRUE_QUOTIENT:
        coefficient = short_max / padded;
        break;
    case CLIP_BY_QUOTIENT_IN_DOUBLE:
        coefficient = (float)(max_norm / (norm + e));
        break;
    case CLIP_BY_RECIPROCAL_IN_DOUBLE:
        coefficient = (float)(1 / ((norm + e) / max_norm));
        break;
    default:
        coefficient = 1.0f / padded * short_max;
    }
    return coefficient > 1 ? 1 : coefficient;
}
