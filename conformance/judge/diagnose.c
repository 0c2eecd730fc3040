// SPDX-License-Identifier: Apache-2.0
// Finds the likeliest kind of bug from the first wrong step. A wrong m shows which gradient was used, and where; if m
// is right, the wrong parameter shows which t, learning rate or decay. Each kind of bug predicts a state, which is
// compared with the answer; the first that fits all wrong elements is named.
#include "conformance/judge/diagnose_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool value_near(double a, double b)
{
    return isfinite(a) && isfinite(b) && fabs(a - b) <= 1e-3 * fmax(fabs(a), fabs(b)) + 1e-30;
}

// The gradient that takes m from m0 to m1; 0 if the difference is within the roundings of both.
static double gradient_between(double m0, double m1, double beta1)
{
    double gradient = (m1 - beta1 * m0) / (1 - beta1);
    return fabs(gradient) <= 0x1p-22 * (fabs(m0) + fabs(m1)) / (1 - beta1) ? 0.0 : gradient;
}

static int open_row(struct row *row, const struct trial *trial, const struct rule *rule, int step)
{
    *row = (struct row){.trial = trial, .rule = rule, .step = step};
    for (int i = 0; i < trial->c->param_count; i++) {
        row->begin[i] = row->count;
        row->count += trial_compares(trial, i) ? trial->c->params[i].count : 0;
    }
    row->begin[trial->c->param_count] = row->count;
    row->expected = calloc(4 * (row->count + 1), sizeof *row->expected);
    row->wrong = calloc(3, row->count + 1);
    if (!row->expected || !row->wrong)
        return -1;
    row->used = row->expected + row->count + 1;
    row->guess = row->used + row->count + 1;
    row->magnitude = row->guess + row->count + 1;
    row->wrong_moment = row->wrong + row->count + 1;
    row->fits = row->wrong_moment + row->count + 1;
    row->coefficient =
        unsharded_coefficient(trial->c, rule, unsharded_norm(trial->c, (const float *const *)trial->gradient));
    return 0;
}

static void close_row(struct row *row)
{
    free(row->expected);
    free(row->wrong);
}

static void fill(struct row *row)
{
    const struct trial *trial = row->trial;
    for (int param = 0; param < trial->c->param_count; param++) {
        if (!trial_compares(trial, param))
            continue;
        const struct case_group *group = &trial->c->groups[trial->c->params[param].group];
        for (size_t i = 0; i < trial->c->params[param].count; i++) {
            size_t at = row->begin[param] + i;
            double m0 = (double)trial->before.exp_avg[param][i], m1 = (double)trial->after.exp_avg[param][i];
            double decay = group->decoupled ? 0.0 : group->weight_decay * (double)trial->before.param[param][i];
            row->expected[at] = (double)(trial->gradient[param][i] * row->coefficient);
            row->used[at] = gradient_between(m0, m1, group->beta1) - decay;
            row->wrong_moment[at] = !value_same(trial->expected.exp_avg[param][i], trial->after.exp_avg[param][i]);
            row->wrong[at] = row->wrong_moment[at] ||
                             !value_same(trial->expected.exp_avg_sq[param][i], trial->after.exp_avg_sq[param][i]) ||
                             !value_same(trial->expected.param[param][i], trial->after.param[param][i]);
            row->wrong_count += row->wrong[at];
            row->wrong_moment_count += row->wrong_moment[at];
        }
    }
}

size_t row_count_wrong(const struct row *row, bool (*is)(const struct trial *, int, size_t))
{
    const struct trial *trial = row->trial;
    size_t count = 0;
    for (int param = 0; param < trial->c->param_count; param++)
        for (size_t i = 0; trial_compares(trial, param) && i < trial->c->params[param].count; i++)
            count += row->wrong[row->begin[param] + i] && is(trial, param, i);
    return count;
}

bool row_all_wrong(const struct row *row, bool (*is)(const struct trial *, int, size_t))
{
    return row->wrong_count > 0 && row_count_wrong(row, is) == row->wrong_count;
}

static bool is_unchanged(const struct trial *trial, int param, size_t i)
{
    return trial->before.param[param][i] == trial->after.param[param][i] &&
           trial->before.exp_avg[param][i] == trial->after.exp_avg[param][i] &&
           trial->before.exp_avg_sq[param][i] == trial->after.exp_avg_sq[param][i];
}

bool diagnose_is_parameter_alone(const struct trial *trial, int param, size_t i)
{
    return trial->after.exp_avg[param][i] == trial->expected.exp_avg[param][i] &&
           trial->after.exp_avg_sq[param][i] == trial->expected.exp_avg_sq[param][i];
}

static bool is_parameter_unchanged(const struct trial *trial, int param, size_t i)
{
    return diagnose_is_parameter_alone(trial, param, i) &&
           trial->before.param[param][i] == trial->after.param[param][i];
}

// True if the update began with the parameter as it arrives from a gather in E4M3.
static bool is_from_e4m3(const struct trial *trial, int param, size_t i)
{
    float before = trial->before.param[param][i];
    float amax = unsharded_amax(trial->before.param[param], trial->c->params[param].count);
    double off = (double)unsharded_e4m3(before, amax) - (double)before;
    double moved = (double)trial->after.param[param][i] - (double)trial->expected.param[param][i];
    return fabs(moved - off) <= fabs(off) / 10 + fabs((double)before) * 1e-6;
}

static bool is_parameter_short(const struct trial *trial, int param, size_t i)
{
    if (trial->c->gathers_e4m3)
        return diagnose_is_parameter_alone(trial, param, i) && is_from_e4m3(trial, param, i);
    enum dtype precision = trial->c->precision;
    return precision != DTYPE_FP32 && diagnose_is_parameter_alone(trial, param, i) &&
           unsharded_round(precision, trial->after.param[param][i]) == trial->after.param[param][i];
}

static bool is_second_moment_right(const struct trial *trial, int param, size_t i)
{
    return !case_is_muon(trial->c, param) && trial->after.exp_avg_sq[param][i] == trial->expected.exp_avg_sq[param][i];
}

static bool is_first_moment_lost(const struct trial *trial, int param, size_t i)
{
    return trial->before.param[param][i] == trial->after.param[param][i];
}

// True if an element's gradient must have been no number, although the right one is.
static bool is_unset(const struct trial *trial, int param, size_t i)
{
    return isnan(trial->after.exp_avg[param][i]) && isfinite(trial->expected.exp_avg[param][i]);
}

// True of most wrong elements. A coefficient that is no number, which all elements have, is the reason only if the norm
// that is reported is one.
static bool are_unset(const struct row *row)
{
    double norm;
    bool clips = row->trial->c->gradient_clipping > 0 && !(diagnose_norm(row, &norm) && isnan(norm));
    return row_count_wrong(row, is_unset) * 2 > row->wrong_count && (row->wrong_count < row->count || !clips);
}

static enum hint or_other(enum hint hint)
{
    return hint == HINT_NONE ? HINT_OTHER : hint;
}

static enum hint guess(struct row *row, const struct unsharded_decision *decision, bool resumes)
{
    if (row_all_wrong(row, is_unchanged)) {
        enum hint hint = diagnose_places(row);
        return hint == HINT_TAIL ? HINT_TAIL : HINT_NOT_UPDATED;
    }
    if (resumes) {
        diagnose_settings(row, decision->t);
        return HINT_RESUME;
    }
    if (are_unset(row))
        return HINT_UNSET;
    if (diagnose_short_states(row))
        return HINT_ROUNDING;
    if (diagnose_rounded_gradient(row))
        return HINT_GRADIENT;
    if (diagnose_setting(row, decision->t, SETTING_BETA1, SETTING_BETA2))
        return HINT_BETAS;
    if (diagnose_moments(row))
        return HINT_MOMENTS;
    // The parameters that a case begins with are short.
    if (row_all_wrong(row, is_parameter_short) && !row_all_wrong(row, is_parameter_unchanged))
        return HINT_MASTER;
    enum hint hint = diagnose_update(row, decision);
    if (hint != HINT_NONE)
        return hint;
    if (row_all_wrong(row, is_parameter_unchanged))
        return HINT_NOT_UPDATED;
    if (diagnose_shifted_params(row))
        return HINT_SHIFTED;
    // A right v or m means a right gradient.
    if (row->wrong_moment_count > 0 && !row_all_wrong(row, is_second_moment_right))
        hint = diagnose_used_gradient(row);
    if (hint == HINT_NONE)
        hint = diagnose_states(row) ? HINT_OVERWRITTEN : diagnose_places(row);
    // Other arithmetic is other everywhere.
    if (hint == HINT_NONE && row->wrong_count * 10 < row->count * 9)
        hint = HINT_OVERWRITTEN;
    return or_other(hint);
}

static void fill_reported(struct row *row)
{
    const struct trial *trial = row->trial;
    row->coefficient = 1;  // a reported gradient is not clipped
    for (int param = 0; param < trial->c->param_count; param++)
        for (size_t i = 0; trial_compares(trial, param) && i < trial->c->params[param].count; i++) {
            size_t at = row->begin[param] + i;
            float right = trial->gradient[param][i];
            float reported = trial->step.grad[param] ? trial->step.grad[param][i] : right;
            row->expected[at] = (double)right;
            row->used[at] = (double)reported;
            row->wrong[at] = row->wrong_moment[at] = !value_same(right, reported);
            row->wrong_count += row->wrong[at];
            row->wrong_moment_count += row->wrong_moment[at];
        }
}

enum hint diagnose_reported_gradient(const struct trial *trial, const struct rule *rule,
                                     const struct difference *difference)
{
    struct row row;
    enum hint hint = HINT_NONE;
    if (open_row(&row, trial, rule, difference->step) == 0) {
        fill_reported(&row);
        hint = diagnose_gradient(&row);
        hint = hint == HINT_NONE ? diagnose_places(&row) : hint;
    }
    close_row(&row);
    return or_other(hint);
}

enum hint diagnose_decision(const struct trial *trial, int step)
{
    bool after_skip = step > 1 && trial->decisions[step - 2].skipped;
    return trial->step.skipped && after_skip ? HINT_LEFT_OVER : HINT_OVERFLOW;
}

// The hint where the state changed without an update, or the decision differs.
static enum hint guess_of_skipped(const struct row *row, const struct unsharded_decision *decision, int step)
{
    const struct trial *trial = row->trial;
    if (trial->step.skipped != decision->skipped)
        return diagnose_decision(trial, step);
    return row_all_wrong(row, is_first_moment_lost) ? HINT_MOMENTS : HINT_OVERFLOW;
}

enum hint diagnose_state(const struct trial *trial, const struct rule *rule, const struct difference *difference,
                         char detail[DIAGNOSE_DETAIL_BYTES])
{
    const struct unsharded_decision *decision = &trial->decisions[difference->step - 1];
    struct row row;
    enum hint hint = HINT_OTHER;
    if (open_row(&row, trial, rule, decision->applies) == 0) {
        fill(&row);
        bool resumes = trial->saved && difference->step == case_first_step(trial->c);
        bool decides_otherwise = trial->step.skipped != decision->skipped;
        if (decision->applies == 0 && resumes && !decides_otherwise)
            hint = HINT_RESUME;
        else if (decision->applies == 0 || decides_otherwise)
            hint = guess_of_skipped(&row, decision, difference->step);
        else
            hint = guess(&row, decision, resumes);
    }
    memcpy(detail, row.detail, sizeof row.detail);
    close_row(&row);
    return hint;
}
