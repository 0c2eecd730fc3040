// SPDX-License-Identifier: Apache-2.0
// Finds the wrong input of an update: makes a step of Adam with every other t, learning rate, group and decay that a
// mistake could bring, and compares it with the answer. One kind of mistake must explain every wrong element, but not
// with one value: t may run ahead from tensor to tensor or from sub-group to sub-group, and each group may have
// another's values.
#include "conformance/judge/diagnose_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The largest t that is tried, and how many wrong elements side by side are explained by more than chance.
enum { T_MAX = 128, RUN_COUNT = 8 };

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
    *tells |= !(fabs(right - guess) <= fabs(p) * 0x1p-22) ||
              !value_near(guess_m, (double)trial->expected.exp_avg[param][i]) ||
              !value_near(guess_v, (double)trial->expected.exp_avg_sq[param][i]);
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

void suspicion_guess(struct suspicion *s, uint64_t t, int lr_step, bool twice)
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

bool suspicion_explains(const struct suspicion *s)
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

bool suspicion_open(struct suspicion *s, const struct row *row)
{
    *s = (struct suspicion){.row = row, .c = malloc(sizeof *s->c)};
    if (!s->c || unsharded_state_open(row->trial->c, &s->to) != 0)
        return false;
    begin_kind(s);
    return true;
}

void suspicion_close(struct suspicion *s)
{
    unsharded_state_close(&s->to);
    free(s->c);
}

static bool is_twice(struct suspicion *s, uint64_t t)
{
    begin_kind(s);
    suspicion_guess(s, t, s->row->step, true);
    return suspicion_explains(s);
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
        suspicion_guess(s, t, s->row->step, false);
    }
    return suspicion_explains(s);
}

// Another step's learning rate, or another group's.
static bool is_lr(struct suspicion *s, uint64_t t)
{
    const struct check_case *real = s->row->trial->c;
    begin_kind(s);
    for (int step = 1; step <= real->steps; step++)
        if (step != s->row->step)
            suspicion_guess(s, t, step, false);
    for (int other = 0; other < real->group_count; other++) {
        for (int i = 0; i < real->group_count; i++)
            memcpy(s->c->groups[i].lr, real->groups[other].lr, sizeof s->c->groups[i].lr);
        suspicion_guess(s, t, s->row->step, false);
    }
    return suspicion_explains(s);
}

// All that another group has.
static bool is_group(struct suspicion *s, uint64_t t)
{
    const struct check_case *real = s->row->trial->c;
    begin_kind(s);
    for (int other = 0; other < real->group_count; other++) {
        for (int i = 0; i < real->group_count; i++)
            s->c->groups[i] = real->groups[other];
        suspicion_guess(s, t, s->row->step, false);
    }
    return suspicion_explains(s);
}

static bool is_step_count(struct suspicion *s, uint64_t t)
{
    begin_kind(s);
    uint64_t most = t * (uint64_t)s->c->param_count + 2;
    if (t > 1)
        suspicion_guess(s, t - 1, s->row->step, false);
    for (uint64_t other = 1; other <= most && other <= T_MAX; other++)
        if (other != t)
            suspicion_guess(s, other, s->row->step, false);
    return suspicion_explains(s);
}

// Bias is corrected where the case turns that off, or the other way round; or that of one moment alone is not.
enum correction { CORRECTION_RIGHT, CORRECTION_OTHER, CORRECTION_NOT_OF_FIRST, CORRECTION_NOT_OF_SECOND };

static enum correction correction_of(struct suspicion *s, uint64_t t)
{
    enum correction kind = CORRECTION_OTHER;
    for (; kind <= CORRECTION_NOT_OF_SECOND; kind++) {
        begin_kind(s);
        for (int i = 0; i < s->c->group_count; i++) {
            struct case_group *group = &s->c->groups[i];
            double *lr = &group->lr[s->row->step - 1], root = sqrt(1 - pow(group->beta2, (double)t));
            if (kind == CORRECTION_OTHER) {
                group->bias_correction = !group->bias_correction;
            } else if (group->bias_correction) {
                // The same update, by another learning rate: m / (1 - beta1^t), and sqrt(v) in place of sqrt(v) / root.
                *lr = kind == CORRECTION_NOT_OF_FIRST ? *lr * (1 - pow(group->beta1, (double)t)) : *lr / root;
                group->eps = kind == CORRECTION_NOT_OF_FIRST ? group->eps : group->eps / root;
                group->weight_decay *= group->decoupled ? s->row->trial->c->groups[i].lr[s->row->step - 1] / *lr : 1;
            }
        }
        suspicion_guess(s, t, s->row->step, false);
        if (suspicion_explains(s))
            return kind;
    }
    return CORRECTION_RIGHT;
}

static void describe_correction(struct row *row, enum correction kind)
{
    static const char *const lacks[] = {[CORRECTION_OTHER] = "",
                                        [CORRECTION_NOT_OF_FIRST] = " of the first moment",
                                        [CORRECTION_NOT_OF_SECOND] = " of the second moment"};
    const struct check_case *c = row->trial->c;
    for (int param = 0; param < c->param_count; param++)
        for (size_t at = row->begin[param]; at < row->begin[param + 1]; at++) {
            int group = c->params[param].group;
            if (!row->wrong[at])
                continue;
            if (c->groups[group].bias_correction)
                snprintf(row->detail, sizeof row->detail, "group %d lacks the bias correction%s; ", group, lacks[kind]);
            else
                snprintf(row->detail, sizeof row->detail, "group %d has bias correction, and must not; ", group);
            return;
        }
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

// Says which groups decay as the other kind of Adam, if that explains the update.
static void describe_kind(struct suspicion *s, struct row *row, uint64_t t)
{
    begin_kind(s);
    for (int i = 0; i < s->c->group_count; i++)
        s->c->groups[i].decoupled = !s->c->groups[i].decoupled;
    suspicion_guess(s, t, row->step, false);
    for (int i = 0; suspicion_explains(s) && i < s->c->param_count; i++)
        for (size_t at = row->begin[i]; at < row->begin[i + 1] && !row->detail[0]; at++)
            if (row->wrong[at])
                snprintf(row->detail, sizeof row->detail, "group %d decays as by %s in place of %s; ",
                         s->c->params[i].group, s->c->groups[s->c->params[i].group].decoupled ? "AdamW" : "Adam",
                         s->c->groups[s->c->params[i].group].decoupled ? "Adam" : "AdamW");
}

static enum hint hint_of_update(struct suspicion *s, struct row *row, uint64_t t)
{
    enum correction correction = correction_of(s, t);
    if (correction != CORRECTION_RIGHT) {
        describe_correction(row, correction);
        return HINT_CORRECTION;
    }
    if (is_step_zero(row, t) || is_step_count(s, t))
        return HINT_STEP_COUNT;
    if (row_all_wrong(row, has_no_moment) && is_decay(s, t))
        return HINT_DECAY;
    if (is_lr(s, t))
        return HINT_LR;
    if (is_decay(s, t))
        return HINT_DECAY;
    if (is_group(s, t))
        return HINT_GROUP;
    if (is_twice(s, t))
        return HINT_UPDATED_TWICE;
    if (diagnose_decay_order(row, t))
        return HINT_DECAY_ORDER;
    if (diagnose_decay_of_copy(row))
        return HINT_MASTER;
    return diagnose_settings(row, t);
}

enum hint diagnose_update(struct row *row, const struct unsharded_decision *decision)
{
    struct suspicion s;
    enum hint hint = HINT_NONE;
    if (suspicion_open(&s, row))
        hint = hint_of_update(&s, row, decision->t);
    if (hint == HINT_LR)
        diagnose_setting(row, decision->t, SETTING_LR, SETTING_LR);
    if (hint == HINT_DECAY && !diagnose_setting(row, decision->t, SETTING_DECAY, SETTING_DECAY))
        describe_kind(&s, row, decision->t);
    suspicion_close(&s);
    // Counters and settings that went on wrongly after a checkpoint may show late.
    bool goes_on = row->trial->saved && (hint == HINT_STEP_COUNT || hint == HINT_LR || hint == HINT_GROUP);
    return goes_on ? HINT_RESUME : hint;
}
