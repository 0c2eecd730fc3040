// SPDX-License-Identifier: Apache-2.0
// Cases for the tests of the suite's own arithmetic.
#pragma once

#include "conformance/unsharded/unsharded.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

// A case of three parameters in two groups, in fp32 throughout, whose sums round.
static inline struct check_case trial_case(int world, int accumulation)
{
    struct check_case c = {
        .name = "trial",
        .world = world,
        .steps = 12,
        .accumulation = accumulation,
        .stage = 2,
        .param_count = 3,
        .group_count = 2,
        .params = {{.name = "a", .shape = {37, 3}, .shape_rank = 2, .count = 111, .used = true, .tied_to = -1},
                   {.name = "b", .shape = {53}, .shape_rank = 1, .count = 53, .used = true, .tied_to = -1, .group = 1},
                   {.name = "c", .shape_rank = 0, .count = 1, .used = true, .tied_to = -1}},
        .groups = {{.beta1 = 0.9,
                    .beta2 = 0.999,
                    .eps = 1e-8,
                    .weight_decay = 0.1,
                    .decoupled = true,
                    .bias_correction = true},
                   {.beta1 = 0.8,
                    .beta2 = 0.95,
                    .eps = 1e-6,
                    .weight_decay = 0.01,
                    .decoupled = true,
                    .bias_correction = true}},
        .data = {.family = FAMILY_ROUNDING,
                 .seed = 5,
                 .unit = 1,
                 .reach = 3,
                 .exponent_low = -12,
                 .exponent_high = 2,
                 .init_exponent = 0},
    };
    for (int step = 0; step < CASE_STEP_MAX; step++) {
        c.groups[0].lr[step] = 1e-3 / (1 + step % 3);
        c.groups[1].lr[step] = 2e-3;
    }
    return c;
}

static inline struct check_case trial_case_of(int world, int accumulation, enum dtype precision,
                                              enum dtype communication, enum dtype accumulation_dtype, int stage)
{
    struct check_case c = trial_case(world, accumulation);
    c.precision = precision;
    c.communication_dtype = communication;
    c.accumulation_dtype = accumulation_dtype;
    c.stage = stage;
    return c;
}

// One array for each trained parameter.
static inline void trial_arrays_open(const struct check_case *c, float *out[CASE_PARAM_MAX])
{
    memset(out, 0, CASE_PARAM_MAX * sizeof *out);
    for (int i = 0; i < c->param_count; i++)
        if (case_is_trained(c, i))
            cr_assert_not_null(out[i] = calloc(c->params[i].count + 1, sizeof(float)));
}

static inline void trial_arrays_close(float *arrays[CASE_PARAM_MAX])
{
    for (int i = 0; i < CASE_PARAM_MAX; i++)
        free(arrays[i]);
}

static inline uint32_t trial_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// Elements of trained parameters whose bits differ.
static inline size_t trial_differences(const struct check_case *c, float *const a[], float *const b[])
{
    size_t count = 0;
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; case_is_trained(c, i) && k < c->params[i].count; k++)
            count += trial_bits(a[i][k]) != trial_bits(b[i][k]);
    return count;
}
