// SPDX-License-Identifier: Apache-2.0
// Names the hyper-parameter of a group with which an update was made in place of the case's. Its value follows from one
// element: betas from the moments, the learning rate, eps and decay from the parameter. A whole step with the values
// that every group's element tells must then explain all wrong elements.
#include "conformance/judge/diagnose_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One element of a group, as the update met it and left it.
struct element {
    double p0, m0, v0, p1, m1, v1, g;  // g: with L2 decay
    double expected_p;
    size_t at;
};

static struct element element_at(const struct row *row, int param, size_t i)
{
    const struct trial *trial = row->trial;
    const struct case_group *group = &trial->c->groups[trial->c->params[param].group];
    struct element e = {
        .p0 = (double)trial->before.param[param][i],
        .m0 = (double)trial->before.exp_avg[param][i],
        .v0 = (double)trial->before.exp_avg_sq[param][i],
        .p1 = (double)trial->after.param[param][i],
        .m1 = (double)trial->after.exp_avg[param][i],
        .v1 = (double)trial->after.exp_avg_sq[param][i],
        .expected_p = (double)trial->expected.param[param][i],
        .at = row->begin[param] + i,
    };
    e.g = row->expected[e.at] + (group->decoupled ? 0 : group->weight_decay * e.p0);
    return e;
}

// How well an element tells a setting: 0 for not at all.
static double weight_of(enum setting setting, const struct element *e)
{
    double moved = fabs(e->p1 - e->p0), all = fabs(e->p0) * 0x1p-24 + moved;
    double weight = 0;
    switch (setting) {
    case SETTING_BETA1:
        weight = fabs(e->g - e->m0) / (fabs(e->g) + fabs(e->m0));
        break;
    case SETTING_BETA2:
        weight = fabs(e->g * e->g - e->v0) / (e->g * e->g + e->v0);
        break;
    case SETTING_LR:
        weight = moved / all;
        break;
    case SETTING_EPS:
    case SETTING_DECAY:
        weight = fabs(e->p1 - e->expected_p) / all;
        break;
    }
    return isfinite(weight) ? weight : 0;
}

// The element of a group, of those that are wrong, that tells a setting best. False: the group has none.
static bool best_element(const struct row *row, int group, enum setting setting, struct element *best)
{
    double most = -1;
    for (int param = 0; param < row->trial->c->param_count; param++) {
        bool is_of_group = trial_compares(row->trial, param) && row->trial->c->params[param].group == group;
        for (size_t i = 0; is_of_group && i < row->trial->c->params[param].count; i++) {
            struct element e = element_at(row, param, i);
            double weight = weight_of(setting, &e);
            if (!row->wrong[e.at] || weight <= most)
                continue;
            most = weight;
            *best = e;
        }
    }
    return most >= 0;
}

// The value itself where it has few digits.
static double settled(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.3g", value);
    double few = strtod(text, NULL);
    return fabs(few - value) <= 5e-4 * fabs(value) ? few : value;
}

static double solve(const struct row *row, const struct case_group *own, enum setting setting, const struct element *e,
                    uint64_t t)
{
    double lr = own->lr[row->step - 1], decay = own->decoupled ? own->weight_decay : 0, wrong = e->p1 - e->expected_p;
    double bias1 = own->bias_correction ? 1 - pow(own->beta1, (double)t) : 1;
    double bias2 = own->bias_correction ? 1 - pow(own->beta2, (double)t) : 1;
    double update = (e->p0 * (1 - lr * decay) - e->p1) / lr;  // m / (sqrt(v) + eps), with the corrections
    switch (setting) {
    case SETTING_BETA1:
        return 1 - settled(1 - (e->m1 - e->g) / (e->m0 - e->g));
    case SETTING_BETA2:
        return 1 - settled(1 - (e->v1 - e->g * e->g) / (e->v0 - e->g * e->g));
    case SETTING_LR:
        return settled(lr * (e->p1 - e->p0) / (e->expected_p - e->p0));
    case SETTING_EPS:
        return settled(e->m1 / bias1 / update - sqrt(e->v1 / bias2));
    default:
        return settled(own->weight_decay - wrong / (lr * e->p0));
    }
}

static double value_of(const struct case_group *group, enum setting setting, int step)
{
    const double values[] = {group->beta1, group->beta2, group->lr[step - 1], group->eps, group->weight_decay};
    return values[setting];
}

static void set_value(struct case_group *group, enum setting setting, int step, double value)
{
    double *const values[] = {&group->beta1, &group->beta2, &group->lr[step - 1], &group->eps, &group->weight_decay};
    *values[setting] = value;
}

// Says where a value comes from, if the case has it: another step of the group, or another group.
static void describe(struct row *row, int group, enum setting setting, double value)
{
    static const char *const names[] = {"beta1", "beta2", "lr", "eps", "weight_decay"};
    const struct check_case *c = row->trial->c;
    char origin[48] = "";
    size_t used = strlen(row->detail);
    for (int step = 1; setting == SETTING_LR && step <= c->steps && !origin[0]; step++)
        if (value_near(c->groups[group].lr[step - 1], value))
            snprintf(origin, sizeof origin, " (step %d's)", step);
    for (int k = 0; k < c->group_count && !origin[0]; k++)
        if (k != group && value_near(value_of(&c->groups[k], setting, row->step), value))
            snprintf(origin, sizeof origin, " (group %d's)", k);
    snprintf(row->detail + used, sizeof row->detail - used, "group %d has %s %.6g%s in place of %.6g; ", group,
             names[setting], value, origin, value_of(&c->groups[group], setting, row->step));
}

// A gradient that is off by one factor moves both moments of a first step as other betas do.
static bool is_of_gradient(const struct row *row, const struct case_group *own, double beta1, double beta2)
{
    double factor1 = (1 - beta1) / (1 - own->beta1), factor2 = (1 - beta2) / (1 - own->beta2);
    return row->trial->before.t == 0 && value_near(factor2, factor1 * factor1);
}

// The roundings of the parameter hide digits of an eps: one that a program may have is taken where it is as near.
static double likely_eps(const struct check_case *c, const struct case_group *own, double solved)
{
    double near = fmax(1e-3 * own->eps, 1e-3 * fabs(solved));
    for (int i = c->group_count - 1; i >= 0; i--)
        if (&c->groups[i] != own && fabs(solved - c->groups[i].eps) <= near)
            return c->groups[i].eps;
    return fabs(solved - 1e-8) <= near ? 1e-8 : fabs(solved) <= near ? 0 : solved;
}

// Small moves lose digits of the rate: that of another step or group is taken where it is within a percent or two.
static double likely_lr(const struct check_case *c, const struct case_group *own, int step, double solved)
{
    for (int i = 1; i <= c->steps; i++)
        if (fabs(solved - own->lr[i - 1]) <= 0.02 * own->lr[i - 1])
            return own->lr[i - 1];
    for (int i = 0; i < c->group_count; i++)
        if (fabs(solved - c->groups[i].lr[step - 1]) <= 0.02 * c->groups[i].lr[step - 1])
            return c->groups[i].lr[step - 1];
    return solved;
}

// Sets a group's setting to the value that its elements tell; false: they tell none.
static bool set_one(struct suspicion *s, int group, enum setting setting, uint64_t t)
{
    struct element e = {0};
    struct case_group *own = &s->c->groups[group];
    double value = value_of(own, setting, s->row->step);
    if (!best_element(s->row, group, setting, &e))
        return true;
    double solved = solve(s->row, &s->row->trial->c->groups[group], setting, &e, t);
    if (setting == SETTING_EPS)
        solved = likely_eps(s->row->trial->c, &s->row->trial->c->groups[group], solved);
    if (setting == SETTING_LR)
        solved = likely_lr(s->row->trial->c, &s->row->trial->c->groups[group], s->row->step, solved);
    bool is_beta = setting == SETTING_BETA1 || setting == SETTING_BETA2;
    // A rate of zero is an update that did not happen.
    if (!isfinite(solved) || solved < 0 || (is_beta && solved >= 1) || (setting == SETTING_LR && solved == 0))
        return false;
    // Nearer than a percent it is the case's own, by the roundings of the element.
    bool is_own = is_beta ? fabs(solved - value) <= 0.01 * (1 - value) : fabs(solved - value) <= 0.01 * value;
    if (!is_own)
        set_value(own, setting, s->row->step, solved);
    return true;
}

bool diagnose_setting(struct row *row, uint64_t t, enum setting first, enum setting last)
{
    struct suspicion s;
    bool found = suspicion_open(&s, row);
    row->detail[0] = '\0';
    for (int group = 0; found && group < row->trial->c->group_count; group++) {
        const struct case_group *own = &row->trial->c->groups[group];
        for (enum setting setting = first; found && setting <= last; setting++)
            found = set_one(&s, group, setting, t);
        const struct case_group *other = &s.c->groups[group];
        bool both = other->beta1 != own->beta1 && other->beta2 != own->beta2;
        found = found && !(both && is_of_gradient(row, own, other->beta1, other->beta2));
    }
    if (found)
        suspicion_guess(&s, t, row->step, false);
    found = found && suspicion_explains(&s);
    for (int group = 0; found && group < row->trial->c->group_count; group++)
        for (enum setting setting = first; setting <= last; setting++) {
            double value = value_of(&s.c->groups[group], setting, row->step);
            if (value != value_of(&row->trial->c->groups[group], setting, row->step))
                describe(row, group, setting, value);
        }
    suspicion_close(&s);
    return found && row->detail[0];
}

enum hint diagnose_settings(struct row *row, uint64_t t)
{
    if (diagnose_setting(row, t, SETTING_BETA1, SETTING_BETA2))
        return HINT_BETAS;
    if (diagnose_setting(row, t, SETTING_LR, SETTING_LR))
        return HINT_LR;
    if (diagnose_setting(row, t, SETTING_DECAY, SETTING_DECAY))
        return HINT_DECAY;
    return diagnose_setting(row, t, SETTING_EPS, SETTING_EPS) ? HINT_EPS : HINT_NONE;
}

bool diagnose_decay_of_copy(struct row *row)
{
    const struct trial *trial = row->trial;
    bool found = trial->c->precision != DTYPE_FP32 && row->wrong_count >= ROW_TELLING_COUNT;
    for (int param = 0; param < trial->c->param_count; param++) {
        const struct case_group *group = &trial->c->groups[trial->c->params[param].group];
        double rate = group->decoupled ? group->lr[row->step - 1] * group->weight_decay : 0;
        for (size_t i = 0; found && trial_compares(trial, param) && i < trial->c->params[param].count; i++) {
            float before = trial->before.param[param][i], copy = unsharded_round(trial->c->precision, before);
            double expected = (double)trial->expected.param[param][i], after = (double)trial->after.param[param][i];
            double off = fabs(expected + rate * ((double)before - (double)copy) - after);
            // Nearer than what is expected: not any small difference, of which one in two is.
            if (row->wrong[row->begin[param] + i])
                found = diagnose_is_parameter_alone(trial, param, i) && off < fabs(expected - after) &&
                        off <= fabs((double)before) * 0x1p-21;
        }
    }
    if (found)
        snprintf(row->detail, sizeof row->detail, "the decay is of the rounded parameters; ");
    return found;
}

bool diagnose_decay_order(struct row *row, uint64_t t)
{
    const struct trial *trial = row->trial;
    struct suspicion s;
    size_t telling = 0;
    bool found = suspicion_open(&s, row);
    for (int i = 0; found && i < trial->c->group_count; i++)
        s.c->groups[i].weight_decay = s.c->groups[i].decoupled ? 0 : s.c->groups[i].weight_decay;
    if (found)
        suspicion_guess(&s, t, row->step, false);
    for (int param = 0; param < trial->c->param_count; param++) {
        const struct case_group *group = &trial->c->groups[trial->c->params[param].group];
        double keeps = group->decoupled ? 1 - group->lr[row->step - 1] * group->weight_decay : 1;
        for (size_t i = 0; found && trial_compares(trial, param) && i < trial->c->params[param].count; i++) {
            double p = (double)s.to.param[param][i] * keeps, actual = (double)trial->after.param[param][i];
            double limit = fabs((double)trial->before.param[param][i]) * 0x1p-21;
            if (!row->wrong[row->begin[param] + i])
                continue;
            found = diagnose_is_parameter_alone(trial, param, i) && fabs(p - actual) <= limit;
            telling += fabs(p - (double)trial->expected.param[param][i]) > 2 * limit;
        }
    }
    suspicion_close(&s);
    return found && telling * 2 > row->wrong_count;
}
