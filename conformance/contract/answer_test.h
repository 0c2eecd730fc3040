// SPDX-License-Identifier: Apache-2.0
// For tests of answers: a case with something of everything, and a whole answer to it.
#pragma once

#include "conformance/contract/answer.h"
#include "base/err.h"
#include "base/folder_test.h"

enum { FIXTURE_MATRIX, FIXTURE_SCALAR, FIXTURE_EMPTY, FIXTURE_FROZEN, FIXTURE_TIED, FIXTURE_UNUSED, FIXTURE_PARAMS };
enum { FIXTURE_COUNT_MAX = 35, FIXTURE_SKIPPED_STEP = 2 };

static void fixture_param(struct check_case *c, const char *name, int shape_rank, size_t first, size_t second)
{
    struct case_param *param = &c->params[c->param_count++];
    *param = (struct case_param){.shape_rank = shape_rank, .shape = {first, second}, .used = true, .tied_to = -1};
    snprintf(param->name, sizeof param->name, "%s", name);
    param->count = 1;
    for (int i = 0; i < shape_rank; i++)
        param->count *= param->shape[i];
}

// Two ranks, three steps (the second is skipped), two micro-steps, fp16 with a loss scale.
static void fixture_case(struct check_case *c)
{
    *c = (struct check_case){.name = "fixture", .world = 2, .steps = 3, .accumulation = 2, .stage = 2};
    c->precision = c->communication_dtype = DTYPE_FP16;
    c->overflow_check = true;
    c->loss_scale = (struct case_loss_scale){.kind = SCALE_DYNAMIC, .scale = 256, .window = 2, .hysteresis = 1};
    fixture_param(c, "layer.0.weight", 2, 5, 7);
    fixture_param(c, "scalar", 0, 0, 0);
    fixture_param(c, "empty", 2, 0, 3);
    fixture_param(c, "frozen", 1, 3, 0);
    fixture_param(c, "head", 2, 5, 7);
    fixture_param(c, "unused", 1, 2, 0);
    c->params[FIXTURE_FROZEN].frozen = true;
    c->params[FIXTURE_TIED].tied_to = FIXTURE_MATRIX;
    c->params[FIXTURE_UNUSED].used = false;
    c->group_count = 1;
}

// Every value of an answer is another one.
static float fixture_value(int step, int kind, int param, size_t i)
{
    return (float)(step * 1000 + kind * 200 + param * 40) + (float)i;
}

// As [FIXTURE_COUNT_MAX] each; the step points into it.
struct fixture_arrays {
    float values[4][FIXTURE_PARAMS][FIXTURE_COUNT_MAX];
};

static void fixture_step(const struct check_case *c, int step, struct fixture_arrays *arrays, struct answer_step *out)
{
    *out = (struct answer_step){.t = (uint64_t)step,
                                .skipped = step == FIXTURE_SKIPPED_STEP,
                                .has_loss_scale = true,
                                .loss_scale = 256.0 / step,
                                .has_norm = true,
                                .norm = 1.5 * step,
                                .has_grad = true};
    for (int kind = 0; kind < 4; kind++)
        for (int param = 0; param < c->param_count; param++) {
            float **of_kind[] = {out->param, out->exp_avg, out->exp_avg_sq, out->grad};
            for (size_t i = 0; i < c->params[param].count; i++)
                arrays->values[kind][param][i] = fixture_value(step, kind, param, i);
            of_kind[kind][param] = param == FIXTURE_EMPTY ? NULL : arrays->values[kind][param];
        }
}

// Writes a step, which `change` has changed, if it is not null. Returns as answer_write_step does.
static inline int fixture_write_step(const struct check_case *c, const char *folder, int step,
                                     void (*change)(struct answer_step *state))
{
    static struct fixture_arrays arrays;
    struct answer_step state;
    fixture_step(c, step, &arrays, &state);
    if (change)
        change(&state);
    return answer_write_step(c, folder, step, &state);
}

static void fixture_write_seen(const struct check_case *c, const char *folder, int step, int rank)
{
    static uint16_t values[CASE_ACCUMULATION_MAX][FIXTURE_PARAMS][FIXTURE_COUNT_MAX];
    const void *params[CASE_ACCUMULATION_MAX][FIXTURE_PARAMS];
    const void *const *seen[CASE_ACCUMULATION_MAX] = {0};
    for (int micro = 0; micro < c->accumulation; micro++) {
        for (int param = 0; param < c->param_count; param++) {
            for (size_t i = 0; i < c->params[param].count; i++)
                dtype_narrow(DTYPE_FP16, &(float){(float)(step * 100 + rank * 50 + micro * 25 + param)},
                             &values[micro][param][i], 1);
            params[micro][param] = values[micro][param];
        }
        seen[micro] = params[micro];
    }
    cr_assert_eq(answer_write_seen(c, folder, step, rank, seen), ERR_NONE, "%s", err_message());
}

// A whole answer in an existing folder.
static inline void fixture_answer(const struct check_case *c, const char *folder)
{
    struct answer_usage usage[2] = {
        {.held_bytes = {1, 2, 3, 4, 5}, .sent_bytes = {6, 7}, .calls = {8, 9}},
        {.held_bytes = {11, UINT64_MAX, 13, 14, 15}, .sent_bytes = {UINT64_MAX, UINT64_MAX}, .calls = {UINT64_MAX, 0}}};
    for (int step = 1; step <= c->steps; step++) {
        cr_assert_eq(fixture_write_step(c, folder, step, NULL), ERR_NONE, "%s", err_message());
        for (int rank = 0; rank < c->world; rank++)
            fixture_write_seen(c, folder, step, rank);
    }
    cr_assert_eq(answer_write_usage(c, folder, usage), ERR_NONE, "%s", err_message());
}
