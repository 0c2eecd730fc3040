// SPDX-License-Identifier: Apache-2.0
// Moments that are kept in the wrong way although the gradient is right: in a 16-bit format, in few steps of a tensor's
// largest, swapped, not the ones that the update used, or without those of earlier steps.
#include "conformance/judge/diagnose_internal.h"

#include <math.h>

// Further than roundings of fp32 take it.
static bool is_off(float expected, float actual)
{
    return fabsf(expected - actual) > fabsf(expected) * 0x1p-20f;
}

static bool is_short(float expected, float actual)
{
    return value_same(expected, actual) || unsharded_round(DTYPE_BF16, actual) == actual ||
           unsharded_round(DTYPE_FP16, actual) == actual;
}

// Within the roundings of a 16-bit format; fp16 has no numbers below 2^-24.
static bool is_near(float expected, float actual)
{
    float least = unsharded_round(DTYPE_FP16, actual) == actual ? 0x1p-24f : 0x1p-126f;
    return fabsf(actual - expected) <= fabsf(expected) * 0x1p-7f + least;
}

// True if the moments are in a 16-bit format and near the right ones, or zeros.
static bool are_moments_short(const struct trial *trial, int param, size_t i)
{
    float m = trial->after.exp_avg[param][i], v = trial->after.exp_avg_sq[param][i];
    float right_m = trial->expected.exp_avg[param][i], right_v = trial->expected.exp_avg_sq[param][i];
    return (is_off(right_m, m) || is_off(right_v, v)) && is_near(right_m, m) && is_near(right_v, v) &&
           is_short(right_m, m) && is_short(right_v, v);
}

static bool are_moments_swapped(const struct trial *trial, int param, size_t i)
{
    float m = trial->expected.exp_avg[param][i], v = trial->expected.exp_avg_sq[param][i];
    return !value_same(m, v) && value_same(trial->after.exp_avg[param][i], v) &&
           value_same(trial->after.exp_avg_sq[param][i], m);
}

// True if a moment that the update used is not the one that is kept: the other one and the parameter are right.
static bool is_moment_alone(const struct trial *trial, int param, size_t i)
{
    bool m_is_right = value_same(trial->after.exp_avg[param][i], trial->expected.exp_avg[param][i]);
    bool v_is_right = value_same(trial->after.exp_avg_sq[param][i], trial->expected.exp_avg_sq[param][i]);
    return !case_is_muon(trial->c, param) && m_is_right != v_is_right &&
           value_same(trial->after.param[param][i], trial->expected.param[param][i]);
}

static bool is_right_or(float expected, float actual, double other)
{
    return !is_off(expected, actual) || value_near((double)actual, other) ||
           fabs((double)actual - other) <= fabs((double)expected) * 0x1p-20;
}

// True if the moments that are wrong follow from the right gradient and from no earlier moment.
static bool are_moments_lost(const struct row *row)
{
    const struct trial *trial = row->trial;
    for (int param = 0; param < trial->c->param_count; param++) {
        const struct case_group *group = &trial->c->groups[trial->c->params[param].group];
        for (size_t i = 0; trial_compares(trial, param) && i < trial->c->params[param].count; i++) {
            double g = row->expected[row->begin[param] + i];
            if (!is_right_or(trial->expected.exp_avg[param][i], trial->after.exp_avg[param][i],
                             (1 - group->beta1) * g) ||
                !is_right_or(trial->expected.exp_avg_sq[param][i], trial->after.exp_avg_sq[param][i],
                             (1 - group->beta2) * g * g))
                return false;
        }
    }
    return row->step > 1 && !row_all_wrong(row, diagnose_is_parameter_alone);
}

static bool is_within_largest(const float *expected, const float *actual, size_t count, size_t i)
{
    float largest = 0;
    for (size_t k = 0; k < count; k++)
        largest = fmaxf(largest, fabsf(expected[k]));
    return fabsf(actual[i] - expected[i]) <= largest * 0x1p-4f;
}

// True if the parameter is right, and moments are off by little of the largest in their tensor.
static bool are_moments_coarse(const struct trial *trial, int param, size_t i)
{
    size_t count = trial->c->params[param].count;
    return !is_off(trial->expected.param[param][i], trial->after.param[param][i]) &&
           is_within_largest(trial->expected.exp_avg[param], trial->after.exp_avg[param], count, i) &&
           is_within_largest(trial->expected.exp_avg_sq[param], trial->after.exp_avg_sq[param], count, i);
}

// True if m and v follow from one gradient, as they do where only it is off.
static bool have_one_gradient(const struct trial *trial, int param, size_t i)
{
    const struct case_group *group = &trial->c->groups[trial->c->params[param].group];
    double m = (double)trial->before.exp_avg[param][i], v = (double)trial->before.exp_avg_sq[param][i];
    double new_m = (double)trial->after.exp_avg[param][i], new_v = (double)trial->after.exp_avg_sq[param][i];
    double g = (new_m - group->beta1 * m) / (1 - group->beta1);
    return group->muon || fabs(group->beta2 * v + (1 - group->beta2) * g * g - new_v) <= 0x1p-12 * new_v;
}

static bool are_moments_apart(const struct row *row)
{
    return row_count_wrong(row, have_one_gradient) * 2 < row->wrong_count;
}

// True if it is within a rounding to 16 bits of a number, or of how far the parameter moved.
static bool is_rounded(float expected, float actual, float moved)
{
    float size = fmaxf(fabsf(expected), fabsf(moved));
    return value_same(expected, actual) || fabsf(actual - expected) <= size * 0x1p-7f;
}

static bool are_states_rounded(const struct trial *trial, int param, size_t i)
{
    const struct unsharded_state *right = &trial->expected, *after = &trial->after;
    float p = right->param[param][i], size = trial->states.master == DTYPE_FP32 ? 0 : p;
    return is_rounded(right->exp_avg[param][i], after->exp_avg[param][i], 0) &&
           is_rounded(right->exp_avg_sq[param][i], after->exp_avg_sq[param][i], 0) &&
           is_rounded(size, after->param[param][i] - p + size, p - trial->before.param[param][i]);
}

bool diagnose_short_states(const struct row *row)
{
    return rule_states_are_short(&row->trial->states) && row_all_wrong(row, are_states_rounded);
}

bool diagnose_moments(const struct row *row)
{
    return row_all_wrong(row, are_moments_short) ||
           (row_all_wrong(row, are_moments_coarse) && are_moments_apart(row)) ||
           row_all_wrong(row, are_moments_swapped) || row_all_wrong(row, is_moment_alone) || are_moments_lost(row);
}
