// SPDX-License-Identifier: Apache-2.0
// Names the factor between the expected gradient and the one that was used.
#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/judge/diagnose_internal.h"

#include <math.h>
#include <string.h>

// The one number that takes the expected gradient to the used one; NaN if there is none.
static double common_factor(const struct row *row)
{
    double factor = NAN;
    for (size_t at = 0; at < row->count; at++) {
        if (!row->wrong_moment[at] || row->expected[at] == 0.0)
            continue;
        double ratio = row->used[at] / row->expected[at];
        if (isnan(factor))
            factor = ratio;
        if (!isfinite(ratio) || !value_near(ratio, factor))
            return NAN;
    }
    return factor;
}

// True if a case serves a requirement whose identifier begins with these letters.
static bool is_about(const struct check_case *c, const char *letters)
{
    for (int i = 0; i < c->requirement_count; i++)
        if (strncmp(c->requirements[i], letters, strlen(letters)) == 0)
            return true;
    return false;
}

// Clipping cancels a factor common to all gradients, so that a factor which remains is the coefficient's.
static bool is_clipped(const struct row *row)
{
    return row->trial->c->gradient_clipping > 0 && row->coefficient < 1;
}

// True if a factor is the size of a group of ranks on a mesh.
static bool is_degree(const struct check_case *c, double either)
{
    struct mesh mesh = case_mesh(c);
    const int degrees[] = {mesh.replicate, mesh.shard, mesh.tensor, mesh.pipeline, mesh.expert, c->sequence};
    for (size_t i = 0; case_has_mesh(c) && i < sizeof degrees / sizeof *degrees; i++)
        if (degrees[i] > 1 && value_near(either, degrees[i]))
            return true;
    return false;
}

static enum hint hint_of_factor(const struct row *row, double factor)
{
    const struct check_case *c = row->trial->c;
    double world = c->world, micro = c->accumulation, scale = row->trial->decisions[row->step - 1].scale;
    double scale_after = row->trial->decisions[row->step - 1].scale_after;
    if (isnan(factor) || value_near(factor, 1.0))
        return HINT_NONE;
    double either = factor > 1 ? factor : 1 / factor;
    if (scale != scale_after && (value_near(factor, scale / scale_after) || value_near(factor, scale_after / scale)))
        return HINT_FACTOR_SCALE;
    // A gradient that is unscaled by another scale may have a norm below the threshold.
    double unclipped = factor * (double)row->coefficient;
    if (scale != scale_after &&
        (value_near(unclipped, scale / scale_after) || value_near(unclipped, scale_after / scale)))
        return HINT_FACTOR_SCALE;
    // A threshold of zero, or a NaN norm, makes the coefficient zero.
    if (is_clipped(row) || (factor == 0.0 && is_about(c, "R-CLIP-")))
        return HINT_CLIP;
    // For a gradient that is missing, the positions say more.
    if (factor == 0.0)
        return HINT_NONE;
    if (scale > 1 && value_near(either, scale))
        return HINT_FACTOR_SCALE;
    bool of_micro = micro > 1 && (value_near(either, micro) || value_near(either, micro * micro));
    bool of_world = world > 1 &&
                    (value_near(either, world) || value_near(either, sqrt(world)) || value_near(either, world * world));
    bool of_group = is_degree(row->trial->answer->c, either);
    // All tensors have the same micro-steps; a group of as many ranks may hold some tensors alone.
    bool of_some = of_group && row->wrong_moment_count * 10 < row->count * 9;
    if (of_micro && !value_near(micro, world) && !of_some)
        return HINT_FACTOR_ACCUMULATION;
    if (of_world || of_group)
        return HINT_FACTOR_WORLD;
    return c->gradient_clipping > 0 ? HINT_CLIP : HINT_FACTOR_OTHER;
}

// True if each rank clipped by its own coefficient: at most one factor per rank.
static bool has_coefficients_by_rank(const struct row *row)
{
    double factors[CASE_WORLD_MAX];
    int count = 0;
    for (size_t at = 0; at < row->count; at++) {
        if (!row->wrong_moment[at] || row->expected[at] == 0.0)
            continue;
        double ratio = row->used[at] / row->expected[at];
        int i = 0;
        while (i < count && !value_near(ratio, factors[i]))
            i++;
        if (i == count && (count == row->trial->c->world || !(ratio > 0) || !isfinite(ratio)))
            return false;
        if (i == count)
            factors[count++] = ratio;
    }
    return is_clipped(row) && count > 0;
}

enum hint diagnose_factor(const struct row *row)
{
    enum hint hint = hint_of_factor(row, common_factor(row));
    if ((hint == HINT_NONE || hint == HINT_FACTOR_OTHER) && has_coefficients_by_rank(row))
        return HINT_CLIP;
    return hint;
}

bool diagnose_norm(const struct row *row, double *norm)
{
    const struct trial *trial = row->trial;
    // Under the delayed update the gradient is an earlier step's, maybe of the half that saved.
    const struct answer *answer =
        row->step >= case_first_step(trial->answer->c) || !trial->saved ? trial->answer : trial->saved;
    struct answer_step step = {0};
    bool has = row->step >= case_first_step(answer->c) && answer_read_step(answer, row->step, &step) == ERR_NONE &&
               step.has_norm;
    *norm = has ? step.norm : NAN;
    answer_step_close(&step);
    return has;
}

bool diagnose_unclip(struct row *row)
{
    const struct trial *trial = row->trial;
    double norm;
    float coefficient = diagnose_norm(row, &norm) ? unsharded_coefficient(trial->c, row->rule, norm) : 0;
    if (trial->c->gradient_clipping == 0 || !(row->coefficient > 0) || !(coefficient > 0) ||
        (coefficient == 1 && row->coefficient == 1))
        return false;
    row->wrong_count = 0;
    for (int param = 0; param < trial->c->param_count; param++)
        for (size_t i = 0; trial_compares(trial, param) && i < trial->c->params[param].count; i++) {
            size_t at = row->begin[param] + i;
            double beta1 = trial->c->groups[trial->c->params[param].group].beta1;
            double moments =
                fabs((double)trial->before.exp_avg[param][i]) + fabs((double)trial->after.exp_avg[param][i]);
            row->used[at] /= (double)coefficient;
            row->expected[at] /= (double)row->coefficient;
            double error = 0x1p-16 * fabs(row->expected[at]) + 0x1p-22 * moments / (1 - beta1) / (double)coefficient;
            row->wrong_moment[at] &= !(fabs(row->used[at] - row->expected[at]) <= error);
            row->wrong[at] = row->wrong_moment[at];
            row->wrong_count += row->wrong[at];
        }
    row->wrong_moment_count = row->wrong_count;
    row->coefficient = 1;
    return true;
}
