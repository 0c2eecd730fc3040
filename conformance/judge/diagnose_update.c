// SPDX-License-Identifier: Apache-2.0
// Finds the wrong input of an update: makes a step of Adam with every other t, learning rate, group and decay that a
// mistake could bring, and compares it with the answer. One kind of mistake must explain every wrong element, but not
// with one value: t may run ahead from tensor to tensor or from sub-group to sub-group, and each group may have
// another's values.
#include "conformance/judge/diagnose_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The largest t that is tried, and how many wrong elements side by side are explained by more than chance.
enum { T_MAX = 128, RUN_COUNT = 8 };

// Guesses of one kind: row->fits says which elements are explained by one of them.
struct suspicion {
    const struct row *row;
    struct check_case *c;       // the case with other values
    struct unsharded_state to;  // after the step with them
    bool tells;
};

// True if a wrong element is as in `to`; sets *tells where `to` differs from the expected state.
static bool fits(const struct suspicion *s, int param, size_t i, bool *tells)
{
    const struct trial *trial = s->row->trial;
    double p = (double)trial->before.param[param][i], moved = (double)trial->after.param[param][i] - p;
    double guess = (double)s->to.param[param][i] - p, right = (double)trial->expected.param[param][i] - p;
    double m = (double)trial->after.exp_avg[param][i], v = (double)trial->after.exp_avg_sq[param][i];
    double guess_m = (double)s->to.exp_avg[param][i], guess_v = (double)s->to.exp_avg_sq[param][i];
    bool both_lost = !isfinite(guess) && !isfinite(moved);
    if (!both_lost && !value_near(guess, moved) && !(fabs(guess - moved) <= fabs(p) * 0x1p-22))
        return false;
    if (!value_near(guess_m, m) || !value_near(guess_v, v))
        return false;
    *tells |=
        !(fabs(right - guess) <= fabs(p) * 0x1p-22) || !value_near(guess_m, (double)trial->expected.exp_avg[param][i]);
    return true;
}

// Notes the runs of a tensor's elements that `to` explains: all of it, or enough of them.
static void note_runs(struct suspicion *s, int param)
{
    size_t count = s->c->params[param].count, begin = 0, wrong = 0, at = s->row->begin[param];
    bool tells = false;
    for (size_t i = 0; i <= count; i++) {
        bool is_wrong = i < count && s->row->wrong[at + i];
        if (i < count && (!is_wrong || fits(s, param, i, &tells))) {
            wrong += is_wrong;
            continue;
        }
        if (wrong >= RUN_COUNT || (begin == 0 && i == count)) {
            memset(s->row->fits + at + begin, 1, i - begin);
            s->tells |= tells;
        }
        begin = i + 1;
        wrong = 0;
        tells = false;
    }
}

// Makes the step and notes which elements it explains. A second time: on top of the first.
static void guess(struct suspicion *s, uint64_t t, int lr_step, bool twice)
{
    const struct trial *trial = s->row->trial;
    struct unsharded_update update = {
        .t = t, .lr_step = lr_step, .coefficient = s->row->coefficient, .resumed_t = trial->start.t};
    const float *const *gradients = (const float *const *)trial->gradient;
    if (unsharded_adam(s->c, s->row->rule, &update, gradients, &trial->before, &s->to) != 0 ||
        (twice && unsharded_adam(s->c, s->row->rule, &update, gradients, &s->to, &s->to) != 0))
        return;
    for (int param = 0; param < s->c->param_count; param++)
        if (trial_compares(trial, param))
            note_runs(s, param);
}

static bool all_explained(const struct suspicion *s)
{
    for (size_t at = 0; at < s->row->count; at++)
        if (s->row->wrong[at] && !s->row->fits[at])
            return false;
    return s->tells;
}

static void begin_kind(struct suspicion *s)
{
    memset(s->row->fits, 0, s->row->count);
    s->tells = false;
    *s->c = *s->row->trial->c;
}

static bool is_twice(struct suspicion *s, uint64_t t)
{
    begin_kind(s);
    guess(s, t, s->row->step, true);
    return all_explained(s);
}

// True if an element has no moments: nothing but decay moves them, and another rate is another decay.
static bool has_no_moment(const struct trial *trial, int param, size_t i)
{
    return trial->expected.exp_avg[param][i] == 0;
}

static bool is_decay(struct suspicion *s, uint64_t t)
{
    const struct check_case *real = s->row->trial->c;
    begin_kind(s);
    for (int kind = 0; kind < 3 + real->group_count; kind++) {
        *s->c = *real;
        for (int i = 0; i < real->group_count; i++) {
            struct case_group *group = &s->c->groups[i];
            double lr = group->lr[s->row->step - 1];
            if (kind == 0)
                group->weight_decay = 0;
            else if (kind == 1)
                group->decoupled = !group->decoupled;
            else if (kind == 2)
                group->weight_decay = lr > 0 ? group->weight_decay / lr : 0;
            else
                group->weight_decay = real->groups[kind - 3].weight_decay;
        }
        guess(s, t, s->row->step, false);
    }
    return all_explained(s);
}

// Another step's learning rate, or another group's.
static bool is_lr(struct suspicion *s, uint64_t t)
{
    const struct check_case *real = s->row->trial->c;
    begin_kind(s);
    for (int step = 1; step <= real->steps; step++)
        if (step != s->row->step)
            guess(s, t, step, false);
    for (int other = 0; other < real->group_count; other++) {
        for (int i = 0; i < real->group_count; i++)
            memcpy(s->c->groups[i].lr, real->groups[other].lr, sizeof s->c->groups[i].lr);
        guess(s, t, s->row->step, false);
    }
    return all_explained(s);
}

// All that another group has.
static bool is_group(struct suspicion *s, uint64_t t)
{
    const struct check_case *real = s->row->trial->c;
    begin_kind(s);
    for (int other = 0; other < real->group_count; other++) {
        for (int i = 0; i < real->group_count; i++)
            s->c->groups[i] = real->groups[other];
        guess(s, t, s->row->step, false);
    }
    return all_explained(s);
}

static bool is_step_count(struct suspicion *s, uint64_t t)
{
    begin_kind(s);
    uint64_t most = t * (uint64_t)s->c->param_count + 2;
    if (t > 1)
        guess(s, t - 1, s->row->step, false);
    for (uint64_t other = 1; other <= most && other <= T_MAX; other++)
        if (other != t)
            guess(s, other, s->row->step, false);
    return all_explained(s);
}

// Bias is corrected where the case turns that off, or the other way round.
static bool is_correction(struct suspicion *s, uint64_t t)
{
    begin_kind(s);
    for (int i = 0; i < s->c->group_count; i++)
        s->c->groups[i].bias_correction = !s->c->groups[i].bias_correction;
    guess(s, t, s->row->step, false);
    return all_explained(s);
}

// t = 0 corrects the bias by a division by zero: moments are right, and no parameter is a number.
static bool is_divided_by_zero(const struct trial *trial, int param, size_t i)
{
    return !isfinite(trial->after.param[param][i]) &&
           value_same(trial->expected.exp_avg[param][i], trial->after.exp_avg[param][i]);
}

static bool is_step_zero(const struct row *row, uint64_t t)
{
    return t == 1 && row_count_wrong(row, is_divided_by_zero) == row->wrong_count;
}

enum hint diagnose_update(const struct row *row, const struct unsharded_decision *decision)
{
    struct suspicion s = {.row = row, .c = malloc(sizeof *s.c)};
    enum hint hint = HINT_NONE;
    // Counters that went on wrongly after a checkpoint may show late.
    bool goes_on = row->trial->saved;
    if (s.c && unsharded_state_open(row->trial->c, &s.to) == 0) {
        if (is_correction(&s, decision->t))
            hint = HINT_STEP_COUNT;
        else if (is_step_zero(row, decision->t) || is_step_count(&s, decision->t))
            hint = goes_on ? HINT_RESUME : HINT_STEP_COUNT;
        else if (row_all_wrong(row, has_no_moment) && is_decay(&s, decision->t))
            hint = HINT_DECAY;
        else if (is_lr(&s, decision->t))
            hint = goes_on ? HINT_RESUME : HINT_LR;
        else if (is_decay(&s, decision->t))
            hint = HINT_DECAY;
        else if (is_group(&s, decision->t))
            hint = goes_on ? HINT_RESUME : HINT_LR;
        else if (is_twice(&s, decision->t))
            hint = HINT_UPDATED_TWICE;
    }
    unsharded_state_close(&s.to);
    free(s.c);
    return hint;
}
