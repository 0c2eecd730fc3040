// SPDX-License-Identifier: Apache-2.0
// From the first wrong step to the likeliest kind of bug. The wrong m says which gradient was used, and where; if m is
// right, the wrong parameter says which t, learning rate or decay. Each kind of bug is a guess that is made and
// compared with what the answer holds; the first that fits all wrong elements is named.
#include "judge_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// All compared elements in one row, in the model's order.
struct row {
    const struct trial *trial;
    const struct rule *rule;
    int step;        // whose gradient is applied
    float coefficient;  // of the clip
    size_t count, wrong_count, wrong_moment_count;
    double *expected;  // the gradient that should have been used
    double *used;      // that the answer's m follows from
    double *guess;
    unsigned char *wrong;         // any of the three states
    unsigned char *wrong_moment;  // m
    size_t begin[CASE_PARAM_MAX + 1];
};

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-3 * fmax(fabs(a), fabs(b)) + 1e-30;
}

static int open_row(struct row *row, const struct trial *trial, const struct rule *rule, int step)
{
    *row = (struct row){.trial = trial, .rule = rule, .step = step};
    for (int i = 0; i < trial->c->param_count; i++) {
        row->begin[i] = row->count;
        row->count += trial_compares(trial, i) ? trial->c->params[i].count : 0;
    }
    row->begin[trial->c->param_count] = row->count;
    row->expected = calloc(3 * (row->count + 1), sizeof *row->expected);
    row->wrong = calloc(2, row->count + 1);
    if (!row->expected || !row->wrong)
        return -1;
    row->used = row->expected + row->count + 1;
    row->guess = row->used + row->count + 1;
    row->wrong_moment = row->wrong + row->count + 1;
    row->coefficient = unsharded_coefficient(trial->c, rule,
                                             unsharded_norm(trial->c, (const float *const *)trial->gradient));
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
            row->used[at] = (m1 - group->beta1 * m0) / (1 - group->beta1) - decay;
            row->wrong_moment[at] = !value_same(trial->expected.exp_avg[param][i], trial->after.exp_avg[param][i]);
            row->wrong[at] = row->wrong_moment[at] ||
                             !value_same(trial->expected.exp_avg_sq[param][i], trial->after.exp_avg_sq[param][i]) ||
                             !value_same(trial->expected.param[param][i], trial->after.param[param][i]);
            row->wrong_count += row->wrong[at];
            row->wrong_moment_count += row->wrong_moment[at];
        }
    }
}

// Whether row->guess is what was used, in every element whose m is wrong, and does not say the same as the expected.
static bool guessed(const struct row *row)
{
    bool tells = false;
    for (size_t at = 0; at < row->count; at++) {
        if (!row->wrong_moment[at])
            continue;
        if (!near(row->guess[at], row->used[at]))
            return false;
        tells |= !near(row->guess[at], row->expected[at]);
    }
    return tells;
}

// The one number that takes the expected gradient to the used one; 0 if there is none.
static double common_factor(const struct row *row)
{
    double factor = 0.0;
    for (size_t at = 0; at < row->count; at++) {
        if (!row->wrong_moment[at] || row->expected[at] == 0.0)
            continue;
        double ratio = row->used[at] / row->expected[at];
        if (factor == 0.0)
            factor = ratio;
        if (!isfinite(ratio) || !near(ratio, factor))
            return 0.0;
    }
    return near(factor, 1.0) ? 0.0 : factor;
}

static enum hint hint_of_factor(const struct row *row, double factor)
{
    const struct check_case *c = row->trial->c;
    double world = c->world, micro = c->accumulation, scale = row->trial->decisions[row->step - 1].scale;
    double either = factor > 1 ? factor : 1 / factor;
    if (c->gradient_clipping > 0 && !near(either, world) && !near(either, micro) && !near(either, scale))
        return HINT_CLIP;
    if (scale > 1 && (near(either, scale) || near(either, 2.0)) && !near(either, world))
        return HINT_FACTOR_SCALE;
    if (micro > 1 && (near(either, micro) || near(either, micro * micro)) && !near(micro, world))
        return HINT_FACTOR_ACCUMULATION;
    if (world > 1 && (near(either, world) || near(either, sqrt(world)) || near(either, world * world)))
        return HINT_FACTOR_WORLD;
    return micro > 1 && near(either, micro) ? HINT_FACTOR_ACCUMULATION : HINT_FACTOR_OTHER;
}

// row->guess becomes the sum over the ranks and micro-steps that are in the masks, of one step, divided by divisor.
static void guess_sum(struct row *row, int step, uint64_t ranks, uint64_t micros, double divisor)
{
    const struct trial *trial = row->trial;
    const struct check_case *c = trial->c;
    memset(row->guess, 0, row->count * sizeof *row->guess);
    for (int param = 0; param < c->param_count; param++) {
        int owner = case_owner(c, param);
        if (!trial_compares(trial, owner))
            continue;
        for (int rank = 0; rank < c->world; rank++)
            for (int micro = 0; micro < c->accumulation; micro++) {
                const float *g = case_gradient(trial->values, step, micro, rank, param);
                if (!g || !(ranks >> rank & 1) || !(micros >> micro & 1))
                    continue;
                for (size_t i = 0; i < c->params[param].count; i++)
                    row->guess[row->begin[owner] + i] += (double)g[i] / divisor;
            }
    }
}

// Some ranks or micro-steps alone, or all but one; weighed as if they were all, or not.
static enum hint guess_parts(struct row *row)
{
    const struct check_case *c = row->trial->c;
    uint64_t ranks = ~0ull >> (64 - c->world), micros = ~0ull >> (64 - c->accumulation);
    double all = (double)c->world * c->accumulation;
    for (int rank = 0; rank < c->world && c->world > 1; rank++)
        for (int kind = 0; kind < 3; kind++) {
            uint64_t chosen = kind < 2 ? 1ull << rank : ranks & ~(1ull << rank);
            guess_sum(row, row->step, chosen, micros, kind == 0 ? all : kind == 1 ? c->accumulation : all);
            if (guessed(row))
                return HINT_ONE_RANK;
        }
    for (int micro = 0; micro < c->accumulation && c->accumulation > 1; micro++)
        for (int kind = 0; kind < 3; kind++) {
            uint64_t chosen = kind < 2 ? 1ull << micro : micros & ~(1ull << micro);
            guess_sum(row, row->step, ranks, chosen, kind == 0 ? all : kind == 1 ? c->world : all);
            if (guessed(row))
                return HINT_ONE_MICRO_STEP;
        }
    return HINT_NONE;
}

static enum hint guess_earlier_steps(struct row *row)
{
    const struct check_case *c = row->trial->c;
    double all = (double)c->world * c->accumulation;
    for (int step = row->step - 1; step >= 1 && step >= row->step - 3; step--) {
        guess_sum(row, step, ~0ull, ~0ull, all);
        if (guessed(row))
            return HINT_STALE_GRADIENT;
        for (size_t at = 0; at < row->count; at++)
            row->guess[at] += row->expected[at];
        if (guessed(row))
            return HINT_LEFT_OVER;
    }
    return HINT_NONE;
}

static bool guess_shift(struct row *row)
{
    long reach = row->count < 128 ? (long)row->count : 128;
    for (long shift = -reach; shift <= reach; shift++) {
        for (size_t at = 0; at < row->count; at++) {
            long from = (long)at + shift;
            row->guess[at] = from >= 0 && from < (long)row->count ? row->expected[from] : row->used[at];
        }
        if (shift != 0 && guessed(row))
            return true;
    }
    return false;
}

// Where the wrong elements lie: nothing but the ends of tensors; whole tensors; one contiguous part.
static enum hint hint_of_places(const struct row *row)
{
    const struct check_case *c = row->trial->c;
    size_t whole = 0, touched = 0, first = row->count, last = 0;
    bool tails = true;
    for (int param = 0; param < c->param_count; param++) {
        size_t count = row->begin[param + 1] - row->begin[param], wrong = 0;
        for (size_t i = 0; i < count; i++) {
            size_t at = row->begin[param] + i;
            if (!row->wrong[at])
                continue;
            wrong++;
            first = at < first ? at : first;
            last = at;
            tails &= i + 16 >= count && count > 1;
        }
        touched += wrong > 0;
        whole += wrong > 0 && wrong * 10 >= count * 9;
    }
    if (row->wrong_count * 10 >= row->count * 9)
        return HINT_NONE;
    if (tails)
        return HINT_TAIL;
    if (touched > 0 && whole == touched)
        return HINT_BUCKET;
    return last - first < row->count / (size_t)c->world + 1 || c->world > 1 ? HINT_SHARD : HINT_BUCKET;
}

static bool all_wrong(const struct row *row, bool (*is)(const struct trial *, int, size_t))
{
    const struct trial *trial = row->trial;
    bool any = false;
    for (int param = 0; param < trial->c->param_count; param++)
        for (size_t i = 0; trial_compares(trial, param) && i < trial->c->params[param].count; i++) {
            if (!row->wrong[row->begin[param] + i])
                continue;
            if (!is(trial, param, i))
                return false;
            any = true;
        }
    return any;
}

static bool is_unchanged(const struct trial *trial, int param, size_t i)
{
    return trial->before.param[param][i] == trial->after.param[param][i] &&
           trial->before.exp_avg[param][i] == trial->after.exp_avg[param][i] &&
           trial->before.exp_avg_sq[param][i] == trial->after.exp_avg_sq[param][i];
}

static bool is_parameter_alone(const struct trial *trial, int param, size_t i)
{
    return trial->after.exp_avg[param][i] == trial->expected.exp_avg[param][i] &&
           trial->after.exp_avg_sq[param][i] == trial->expected.exp_avg_sq[param][i];
}

static bool is_parameter_unchanged(const struct trial *trial, int param, size_t i)
{
    return is_parameter_alone(trial, param, i) && trial->before.param[param][i] == trial->after.param[param][i];
}

static bool is_parameter_short(const struct trial *trial, int param, size_t i)
{
    enum dtype precision = trial->c->precision;
    return precision != DTYPE_FP32 && is_parameter_alone(trial, param, i) &&
           unsharded_round(precision, trial->after.param[param][i]) == trial->after.param[param][i];
}

static bool are_moments_short(const struct trial *trial, int param, size_t i)
{
    float m = trial->after.exp_avg[param][i], v = trial->after.exp_avg_sq[param][i];
    return (unsharded_round(DTYPE_BF16, m) == m && unsharded_round(DTYPE_BF16, v) == v) ||
           (unsharded_round(DTYPE_FP16, m) == m && unsharded_round(DTYPE_FP16, v) == v);
}

static bool is_second_moment_alone(const struct trial *trial, int param, size_t i)
{
    return trial->after.exp_avg[param][i] == trial->expected.exp_avg[param][i] &&
           trial->after.exp_avg_sq[param][i] != trial->expected.exp_avg_sq[param][i];
}

// Whether the wrong parameters are those of an update with other scalars: near to, as the rest of the rule may differ.
static bool updates_so(const struct row *row, const struct check_case *c, uint64_t t, int lr_step)
{
    struct trial *trial = (struct trial *)(uintptr_t)row->trial;
    struct unsharded_state to;
    if (t == 0 || lr_step < 1 || lr_step > c->steps || unsharded_state_open(c, &to) != 0)
        return false;
    struct unsharded_update update = {.t = t, .lr_step = lr_step, .coefficient = row->coefficient,
                                      .resumed_t = trial->start.t};
    bool fits = unsharded_adam(c, row->rule, &update, (const float *const *)trial->gradient, &trial->before, &to) == 0;
    bool tells = false;
    for (int param = 0; param < c->param_count && fits; param++)
        for (size_t i = 0; trial_compares(trial, param) && i < c->params[param].count && fits; i++) {
            if (!row->wrong[row->begin[param] + i])
                continue;
            double p = (double)trial->before.param[param][i], moved = (double)trial->after.param[param][i] - p;
            double guess = (double)to.param[param][i] - p, right = (double)trial->expected.param[param][i] - p;
            fits = near(guess, moved) || fabs(guess - moved) <= fabs(p) * 0x1p-22;
            tells |= fabs(right - guess) > fabs(p) * 0x1p-22;
        }
    unsharded_state_close(&to);
    return fits && tells;
}

static enum hint guess_update(const struct row *row, const struct unsharded_decision *decision)
{
    struct check_case *c = malloc(sizeof *c);
    if (!c)
        return HINT_OTHER;
    const struct check_case *real = row->trial->c;
    enum hint hint = HINT_NONE;
    const uint64_t steps[] = {decision->t + 1, decision->t - 1, 2 * decision->t, 1, decision->t + 2,
                              decision->t * (uint64_t)real->param_count};
    for (size_t i = 0; i < sizeof steps / sizeof *steps && hint == HINT_NONE; i++)
        if (steps[i] != decision->t && updates_so(row, real, steps[i], row->step))
            hint = HINT_STEP_COUNT;
    for (int step = 1; step <= real->steps && hint == HINT_NONE; step++)
        if (step != row->step && updates_so(row, real, decision->t, step))
            hint = HINT_LR;
    for (int other = 0; other < real->group_count && hint == HINT_NONE; other++) {
        *c = *real;
        for (int group = 0; group < real->group_count; group++)
            memcpy(c->groups[group].lr, real->groups[other].lr, sizeof c->groups[group].lr);
        if (updates_so(row, c, decision->t, row->step))
            hint = HINT_LR;
        *c = *real;
        for (int group = 0; group < real->group_count; group++)
            c->groups[group].weight_decay = real->groups[other].weight_decay;
        if (hint == HINT_NONE && updates_so(row, c, decision->t, row->step))
            hint = HINT_DECAY;
    }
    for (int kind = 0; kind < 2 && hint == HINT_NONE; kind++) {
        *c = *real;
        for (int group = 0; group < real->group_count; group++) {
            c->groups[group].weight_decay = kind == 0 ? 0.0 : c->groups[group].weight_decay;
            c->groups[group].decoupled = kind == 1 ? !c->groups[group].decoupled : c->groups[group].decoupled;
        }
        if (updates_so(row, c, decision->t, row->step))
            hint = HINT_DECAY;
    }
    free(c);
    return hint;
}

// L2 decay that is missing or should not be there shows in m as a multiple of the parameter.
static bool is_decay_in_moment(const struct row *row)
{
    const struct trial *trial = row->trial;
    bool any = false;
    for (int param = 0; param < trial->c->param_count; param++)
        for (size_t i = 0; trial_compares(trial, param) && i < trial->c->params[param].count; i++) {
            size_t at = row->begin[param] + i;
            double decay = trial->c->groups[trial->c->params[param].group].weight_decay *
                           (double)trial->before.param[param][i];
            if (!row->wrong_moment[at])
                continue;
            double more = row->used[at] - row->expected[at];
            if (!(fabs(fabs(more) - fabs(decay)) <= 1e-2 * fabs(decay) + 1e-3 * fabs(row->expected[at])))
                return false;
            any |= fabs(decay) > 1e-3 * fabs(row->expected[at]);
        }
    return any;
}

static enum hint guess(struct row *row, const struct unsharded_decision *decision, bool resumes)
{
    enum hint hint;
    if (all_wrong(row, is_unchanged)) {
        hint = hint_of_places(row);
        return hint == HINT_NONE ? HINT_NOT_UPDATED : hint;
    }
    if (resumes)
        return HINT_RESUME;
    if (row->wrong_moment_count == 0) {
        if (all_wrong(row, is_parameter_short))
            return HINT_MASTER;
        if (all_wrong(row, is_parameter_unchanged))
            return HINT_NOT_UPDATED;
        if (all_wrong(row, is_second_moment_alone))
            return all_wrong(row, are_moments_short) ? HINT_MOMENTS : HINT_OTHER;
        hint = guess_update(row, decision);
        if (hint == HINT_NONE)
            hint = hint_of_places(row);
        return hint == HINT_NONE ? HINT_OTHER : hint;
    }
    if (all_wrong(row, are_moments_short))
        return HINT_MOMENTS;
    double factor = common_factor(row);
    hint = factor != 0.0 ? hint_of_factor(row, factor) : HINT_NONE;
    if (hint == HINT_NONE || hint == HINT_FACTOR_OTHER) {
        enum hint better = guess_parts(row);
        if (better == HINT_NONE)
            better = guess_earlier_steps(row);
        hint = better == HINT_NONE ? hint : better;
    }
    if (hint == HINT_NONE && is_decay_in_moment(row))
        hint = HINT_DECAY;
    if (hint == HINT_NONE && guess_shift(row))
        hint = HINT_SHIFTED;
    if (hint == HINT_NONE)
        hint = hint_of_places(row);
    return hint == HINT_NONE ? HINT_OTHER : hint;
}

enum hint diagnose_state(const struct trial *trial, const struct rule *rule, const struct difference *difference)
{
    const struct unsharded_decision *decision = &trial->decisions[difference->step - 1];
    if (decision->applies == 0 || trial->step.skipped != decision->skipped)
        return HINT_OVERFLOW;
    struct row row;
    enum hint hint = HINT_OTHER;
    if (open_row(&row, trial, rule, decision->applies) == 0) {
        fill(&row);
        hint = guess(&row, decision, trial->saved && difference->step == case_first_step(trial->c));
    }
    close_row(&row);
    return hint;
}
