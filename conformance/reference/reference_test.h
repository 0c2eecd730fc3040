// SPDX-License-Identifier: Apache-2.0
// For tests of the reference's answers: a case with something of everything, and the reference's answer to it.
#pragma once

#include "base/err.h"
#include "base/file.h"
#include "base/folder_test.h"
#include "conformance/contract/answer.h"
#include "conformance/reference/reference.h"

static char folder[PATH_MAX];
static struct reference_options options;

static inline void setup(void)
{
    folder_make(folder);
    options = (struct reference_options){.clip_form = CLIP_TORCH};
}

static inline void teardown(void)
{
    folder_remove(folder);
}

TestSuite(reference, .init = setup, .fini = teardown);

static inline void add_param(struct check_case *c, const char *name, int shape_rank, size_t rows, size_t columns)
{
    struct case_param *p = &c->params[c->param_count++];
    *p = (struct case_param){.shape = {rows, columns}, .shape_rank = shape_rank, .used = true, .tied_to = -1};
    p->count = shape_rank == 0 ? 1 : shape_rank == 1 ? rows : rows * columns;
    snprintf(p->name, sizeof p->name, "%s", name);
}

// Awkward in everything: primes, a scalar, an empty tensor, one frozen, one unused, one tied, two groups.
static inline struct check_case case_of(const char *name, int stage, int world)
{
    struct check_case c = {
        .note = "a case of the tests",
        .world = world,
        .steps = 3,
        .accumulation = 1,
        .stage = stage,
        .group_count = 2,
        .reduce_bucket = 50,
        .allgather_bucket = 64,
        .prefetch_bucket = 40,
        .sub_group = 16,
        .contiguous_gradients = true,
        .reduce_scatter = true,
        .data = {.family = FAMILY_ROUNDING, .seed = 5, .unit = 1, .reach = 3, .exponent_low = -8, .exponent_high = 2},
    };
    snprintf(c.name, sizeof c.name, "%s", name);
    c.groups[0] = (struct case_group){
        .decoupled = true, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .bias_correction = true};
    c.groups[1] =
        (struct case_group){.beta1 = 0.5, .beta2 = 0.75, .eps = 1e-3, .weight_decay = 0.25, .bias_correction = true};
    for (int i = 0; i < CASE_STEP_MAX; i++)
        c.groups[0].lr[i] = 0.125, c.groups[1].lr[i] = 0.5;
    add_param(&c, "a.weight", 2, 7, 13);
    add_param(&c, "a.scalar", 0, 0, 0);
    add_param(&c, "a.empty", 1, 0, 0);
    add_param(&c, "b.weight", 1, 101, 0);
    add_param(&c, "b.frozen", 1, 19, 0);
    add_param(&c, "b.unused", 1, 5, 0);
    add_param(&c, "c.tied", 2, 7, 13);
    add_param(&c, "c.small", 1, 2, 0);
    add_param(&c, "d.weight", 2, 7, 13);
    c.params[4].frozen = true;
    c.params[5].used = false;
    c.params[6].tied_to = 0;
    c.params[3].group = c.params[7].group = 1;
    return c;
}

static inline struct check_case case_of_number(const char *name, int number, int stage, int world)
{
    char numbered[40];
    snprintf(numbered, sizeof numbered, "%s-%d", name, number);
    return case_of(numbered, stage, world);
}

static inline char *path_of(char out[PATH_MAX], const char *kind, const char *name)
{
    snprintf(out, PATH_MAX, "%.3000s/%s", folder, kind);
    mkdir(out, 0777);
    snprintf(out, PATH_MAX, "%.3000s/%s/%s", folder, kind, name);
    return out;
}

// Writes the case, has it answered, and opens the answer.
static inline void answer(const struct check_case *c, const struct case_values *values, struct answer *out)
{
    char cases[PATH_MAX], state[PATH_MAX], answers[PATH_MAX];
    path_of(cases, "cases", "");
    path_of(state, "state", "");
    cr_assert_eq(case_write(c, values, cases), ERR_NONE, "%s", err_message());
    path_of(cases, "cases", c->name);
    path_of(answers, "answers", c->name);
    int rc = reference_answer(&options, cases, answers, c->world, state);
    cr_assert_eq(rc, ERR_NONE, "%s: %s", c->name, rc ? err_message() : "");
    cr_assert_eq(answer_open(c, answers, out), ERR_NONE, "%s", err_message());
}

static inline void set_precision(struct check_case *c, enum dtype precision)
{
    c->precision = c->communication_dtype = c->accumulation_dtype = precision;
    c->overflow_check = precision != DTYPE_FP32;
}
