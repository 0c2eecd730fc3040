// SPDX-License-Identifier: Apache-2.0
// For tests of the judge: answers made by the suite's own arithmetic, right or with something wrong on purpose.
#pragma once

#include "base/err.h"
#include "base/folder_test.h"
#include "conformance/judge/judge.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// An element of a gradient, in a step.
struct place {
    const struct check_case *c;
    const struct case_values *values;
    int step, param;
    size_t k;
};

// The gradient that a rank has there in a micro-step.
static inline float given(const struct place *at, int micro, int rank)
{
    return case_gradient(at->values, at->step, micro, rank, at->param)[at->k];
}

// An element's state.
struct held {
    float param, exp_avg, exp_avg_sq;
};

// The mistakes of an answer; every function may be null.
struct wrong {
    float (*element)(const struct place *at, float g);  // the gradient's element in the place of g
    void (*gradient)(const struct check_case *c, const struct case_values *values, int step, float *const g[]);
    void (*update)(const struct check_case *c, int step, struct unsharded_update *update, struct rule *rule);
    void (*state)(const struct check_case *c, int step, const struct unsharded_state *before,
                  struct unsharded_state *after);
    struct held (*held)(const struct place *at, struct held before, struct held after);  // in place of after
    void (*seen)(const struct check_case *c, int step, int rank, int param, const float *older, float *whole);
    void (*says)(const struct check_case *c, int step, struct answer_step *says);
    size_t tail_shift;  // by so much the elements in a recipe's tail are others
};

// The gradients of the step that is being answered.
static float *const *trial_gradients;

// The halves of two tensors change places.
static inline void pieces_in_another_order(const struct check_case *c, const struct case_values *values, int step,
                                           float *const g[])
{
    (void)c, (void)values, (void)step;
    for (int k = 0; k < 20; k++) {
        float kept = g[0][k];
        g[0][k] = g[2][k + 20];
        g[2][k + 20] = kept;
    }
}

// A case of four tensors of awkward sizes in two groups, with rounding or exact gradients.
static inline struct check_case trial_case(int world, int accumulation, enum dtype precision, bool exact)
{
    struct check_case c = {
        .name = "adam-basic.test",
        .note = "",
        .world = world,
        .steps = 3,
        .accumulation = accumulation,
        .stage = 1,
        .precision = precision,
        .communication_dtype = precision,
        .accumulation_dtype = DTYPE_FP32,
        .param_count = 4,
        .group_count = 2,
        .reduce_bucket = 1000,
        .allgather_bucket = 1000,
        .prefetch_bucket = 1000,
        .sub_group = 1000,
        .exact = exact,
        .data = {.family = exact ? FAMILY_EXACT : FAMILY_ROUNDING,
                 .seed = 7,
                 .unit = 1,
                 .reach = 3,
                 .exponent_low = -12,
                 .exponent_high = -6,
                 .init_exponent = 0},
    };
    const size_t counts[] = {101, 17, 40, 1};
    for (int i = 0; i < c.param_count; i++) {
        c.params[i] = (struct case_param){
            .shape = {counts[i]}, .shape_rank = 1, .count = counts[i], .group = i % 2, .used = true, .tied_to = -1};
        snprintf(c.params[i].name, sizeof c.params[i].name, "p%d", i);
    }
    for (int i = 0; i < c.group_count; i++) {
        c.groups[i] = (struct case_group){.decoupled = true,
                                          .lr_by_step = true,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .eps = 1e-8,
                                          .weight_decay = i ? 0.0 : 0.1,
                                          .bias_correction = true};
        for (int step = 0; step < c.steps; step++)
            c.groups[i].lr[step] = 1e-3 * (1 + step) * (1 + i);
    }
    return c;
}

static inline void trial_write_seen(const struct check_case *c, const char *folder, int step,
                                    const struct unsharded_state *now, const struct unsharded_state *older,
                                    const struct wrong *wrong)
{
    for (int rank = 0; rank < c->world; rank++) {
        const void *seen[CASE_PARAM_MAX];
        const void *const *by_micro[CASE_ACCUMULATION_MAX];
        for (int i = 0; i < c->param_count; i++) {
            int owner = case_owner(c, i);
            size_t count = c->params[i].count;
            float *whole = malloc((count + 1) * sizeof *whole);
            memcpy(whole, now->param[owner], count * sizeof *whole);
            if (wrong->seen)
                wrong->seen(c, step, rank, i, older->param[owner], whole);
            void *narrow = malloc((count + 1) * sizeof(float));
            dtype_narrow(c->precision, whole, narrow, count);
            free(whole);
            seen[i] = narrow;
        }
        for (int micro = 0; micro < c->accumulation; micro++)
            by_micro[micro] = seen;
        cr_assert(answer_write_seen(c, folder, step, rank, by_micro) == ERR_NONE, "%s", err_message());
        for (int i = 0; i < c->param_count; i++)
            free((void *)(uintptr_t)seen[i]);
    }
}

// A step of Adam; where the recipe has a tail, every third element is in it, from the one called `first` on.
static inline void trial_update(const struct check_case *c, const struct rule *rule, struct unsharded_update update,
                                const float *const *gradient, size_t first, struct unsharded_state *now)
{
    struct unsharded_state tail;
    cr_assert(unsharded_state_open(c, &tail) == ERR_NONE);
    update.tail = true;
    cr_assert(unsharded_adam(c, rule, &update, gradient, now, &tail) == ERR_NONE, "%s", err_message());
    update.tail = false;
    cr_assert(unsharded_adam(c, rule, &update, gradient, now, now) == ERR_NONE, "%s", err_message());
    for (int i = 0; i < c->param_count && adam_recipe_has_tail(adam_recipe_at(rule->recipe)); i++)
        for (size_t k = first; case_is_trained(c, i) && k < c->params[i].count; k += 3) {
            now->param[i][k] = tail.param[i][k];
            now->exp_avg[i][k] = tail.exp_avg[i][k];
            now->exp_avg_sq[i][k] = tail.exp_avg_sq[i][k];
        }
    unsharded_state_close(&tail);
}

static inline void trial_elements(const struct check_case *c, const struct case_values *values, int step,
                                  const struct wrong *wrong, float *const gradient[])
{
    struct place at = {.c = c, .values = values, .step = step};
    for (at.param = 0; at.param < c->param_count; at.param++)
        for (at.k = 0; gradient[at.param] && at.k < c->params[at.param].count; at.k++)
            gradient[at.param][at.k] = wrong->element(&at, gradient[at.param][at.k]);
}

static inline void trial_held(const struct check_case *c, int step, const struct wrong *wrong,
                              const struct unsharded_state *before, struct unsharded_state *after)
{
    struct place at = {.c = c, .step = step};
    for (at.param = 0; at.param < c->param_count; at.param++)
        for (at.k = 0; case_is_trained(c, at.param) && at.k < c->params[at.param].count; at.k++) {
            int i = at.param;
            size_t k = at.k;
            struct held was = {before->param[i][k], before->exp_avg[i][k], before->exp_avg_sq[i][k]};
            struct held is = {after->param[i][k], after->exp_avg[i][k], after->exp_avg_sq[i][k]};
            is = wrong->held(&at, was, is);
            after->param[i][k] = is.param, after->exp_avg[i][k] = is.exp_avg, after->exp_avg_sq[i][k] = is.exp_avg_sq;
        }
}

// The answer to a case by a rule, with an order of addition that alternates, and what is wrong with it.
static inline void trial_answer(const struct check_case *c, const struct case_values *values, const char *folder,
                                struct rule rule, const struct wrong *wrong)
{
    struct unsharded_decision decisions[CASE_STEP_MAX];
    struct unsharded_state now, older, before;
    float *gradient[CASE_PARAM_MAX] = {0};
    for (int i = 0; i < c->param_count; i++)
        if (case_is_trained(c, i))
            gradient[i] = calloc(c->params[i].count + 1, sizeof(float));
    cr_assert(unsharded_state_open(c, &now) == ERR_NONE && unsharded_state_open(c, &older) == ERR_NONE &&
              unsharded_state_open(c, &before) == ERR_NONE);
    cr_assert(unsharded_decide(c, values, SCALER_DEEPSPEED, decisions) == ERR_NONE, "%s", err_message());
    unsharded_begin(c, values, &now);
    unsharded_state_copy(c, &now, &older);
    mkdir(folder, 0777);
    for (int step = 1; step <= c->steps; step++) {
        const struct unsharded_decision *decision = &decisions[step - 1];
        struct rule used = rule;
        trial_write_seen(c, folder, step, &now, &older, wrong);
        unsharded_state_copy(c, &now, &before);
        if (decision->applies > 0) {
            struct unsharded_choice choice = unsharded_choice_at(c, &rule, step % unsharded_choice_count(c, &rule));
            cr_assert(unsharded_gradient(c, values, &rule, &choice, decision->applies,
                                         decisions[decision->applies - 1].scale, gradient) == ERR_NONE);
            if (wrong->gradient)
                wrong->gradient(c, values, step, gradient);
            if (wrong->element)
                trial_elements(c, values, step, wrong, gradient);
            trial_gradients = gradient;
            const float *const *g = (const float *const *)gradient;
            struct unsharded_update update = {.t = decision->t, .lr_step = decision->applies, .leaves_unused = true};
            update.coefficient = unsharded_coefficient(c, &rule, unsharded_norm(c, g));
            if (wrong->update)
                wrong->update(c, step, &update, &used);
            trial_update(c, &used, update, g, wrong->tail_shift, &now);
        }
        if (wrong->state)
            wrong->state(c, step, &before, &now);
        if (wrong->held)
            trial_held(c, step, wrong, &before, &now);
        struct answer_step says = {.t = decision->t,
                                   .skipped = decision->skipped,
                                   .has_loss_scale = true,
                                   .loss_scale = decision->scale_after};
        memcpy(says.param, now.param, sizeof says.param);
        memcpy(says.exp_avg, now.exp_avg, sizeof says.exp_avg);
        memcpy(says.exp_avg_sq, now.exp_avg_sq, sizeof says.exp_avg_sq);
        if (wrong->says)
            wrong->says(c, step, &says);
        cr_assert(answer_write_step(c, folder, step, &says) == ERR_NONE, "%s", err_message());
        unsharded_state_copy(c, &before, &older);
    }
    unsharded_state_close(&now);
    unsharded_state_close(&older);
    unsharded_state_close(&before);
    for (int i = 0; i < c->param_count; i++)
        free(gradient[i]);
}

// Makes and judges such an answer.
static inline void trial_add(struct judge *judge, const struct check_case *c, const struct rule *rule,
                             const struct wrong *wrong)
{
    struct case_values *values;
    struct answer answer;
    char folder[PATH_MAX], path[PATH_MAX];
    folder_make(folder);
    snprintf(path, sizeof path, "%.4000s/answer", folder);
    cr_assert(case_values_open(c, &values) == ERR_NONE, "%s", err_message());
    trial_answer(c, values, path, rule ? *rule : rule_canonical(c), wrong);
    cr_assert(answer_open(c, path, &answer) == ERR_NONE, "%s", err_message());
    cr_assert(judge_answer(judge, c, values, &answer, NULL) == ERR_NONE, "%s", err_message());
    answer_close(&answer);
    case_values_close(values);
    folder_remove(folder);
}

static const struct judge_options any = {.clip = -1, .unused = -1};

// In a part of the judge of its own, if nothing is to be learned from it.
static inline void trial_add_part(struct judge *judge, const struct check_case *c, const struct rule *rule,
                                  const struct wrong *wrong)
{
    struct findings findings = {0};
    struct judge *part;
    if (judge_learns(judge, c)) {
        trial_add(judge, c, rule, wrong);
        return;
    }
    cr_assert(judge_open_part(judge, &findings, &part) == ERR_NONE, "%s", err_message());
    trial_add(part, c, rule, wrong);
    cr_assert(judge_join(judge, part) == ERR_NONE, "%s", err_message());
    judge_close(part);
    findings_free(&findings);
}

// Judges answers, each with its mistakes. Findings are the caller's to free; they point to the cases.
static inline struct findings trial_judge_all(const struct check_case cases[], int count,
                                              const struct judge_options *options, const struct rule *rule,
                                              const struct wrong wrong[])
{
    struct findings findings = {0};
    struct judge *judge;
    cr_assert(judge_open(options, &findings, &judge) == ERR_NONE, "%s", err_message());
    for (int i = 0; i < count; i++)
        trial_add_part(judge, &cases[i], rule, &wrong[i]);
    cr_assert(judge_end(judge) == ERR_NONE, "%s", err_message());
    judge_close(judge);
    return findings;
}

static inline struct findings trial_judge(const struct check_case *c, const struct rule *rule,
                                          const struct wrong *wrong)
{
    static const struct wrong nothing;
    return trial_judge_all(c, 1, &any, rule, wrong ? wrong : &nothing);
}

static inline const struct finding *trial_finding(const struct findings *findings, enum aspect aspect)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->list[i].aspect == aspect)
            return &findings->list[i];
    return NULL;
}

// The finding on an aspect of an answer with one thing wrong.
static inline struct finding aspect_finding(enum aspect aspect, const struct check_case *c, const struct rule *rule,
                                            const struct wrong *wrong)
{
    struct findings findings = trial_judge(c, rule, wrong);
    const struct finding *finding = trial_finding(&findings, aspect);
    cr_assert_not_null(finding);
    struct finding copy = *finding;
    findings_free(&findings);
    return copy;
}

static inline struct finding state_finding(const struct check_case *c, const struct rule *rule,
                                           const struct wrong *wrong)
{
    return aspect_finding(ASPECT_STATE, c, rule, wrong);
}

#define assert_fails(finding, expected_hint)                                                                           \
    cr_assert((finding).verdict == VERDICT_FAIL && (finding).hint == (expected_hint), "%s, %s: %s",                    \
              verdict_name((finding).verdict), hint_name((finding).hint), (finding).text)
