// SPDX-License-Identifier: Apache-2.0
// States in 16 bits: every build of the kernels, and every cut by threads and blocks, against recipe_element, one
// element at a time, with what is kept of each number.
#include "ref/arithmetic/adam.h"

#include "ref/arithmetic/isa_test.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

enum { COUNT = 20011, STEPS = 3 };

static float wide[3][COUNT], gradient[COUNT], model[COUNT];
static uint32_t kept_param[COUNT], kept_m[COUNT], kept_v[COUNT];  // room for 4 bytes each

static float gradient_of(uint64_t t, uint64_t i)
{
    uint64_t bits = random_at(t, i);
    return bits % 19 == 0 ? 0 : random_normal(bits) * ldexpf(1, (int)(bits % 30) - 20);
}

static struct adam_scalars scalars_of(const struct recipe *recipe, uint64_t t, struct recipe_state *state)
{
    const struct adam_hyper hyper = {1e-2, 0.9, 0.99, 1e-8, 0.1, true, true};
    struct adam_scalars scalars;
    cr_assert_eq(recipe_begin_step(recipe, &hyper, t, state, &scalars), 0);
    return scalars;
}

static void begin(const struct adam_kept *kept)
{
    for (size_t i = 0; i < COUNT; i++) {
        wide[0][i] = dtype_kept(kept->param_dtype, random_normal(random_at(9, i)));
        wide[1][i] = wide[2][i] = 0;
    }
    dtype_narrow(kept->param_dtype, wide[0], kept->param, COUNT);
    dtype_narrow(kept->moment_dtype, wide[1], kept->exp_avg, COUNT);
    dtype_narrow(kept->moment_dtype, wide[2], kept->exp_avg_sq, COUNT);
}

// One step of all elements in `wide`, one by one; `model` receives the parameters before they are rounded.
static void step_one_by_one(const struct recipe *recipe, const struct adam_scalars *scalars,
                            const struct adam_kept *kept)
{
    for (size_t i = 0; i < COUNT; i++) {
        recipe_element(recipe, scalars, i >= recipe_tail_start(recipe, COUNT), gradient[i] / 3.0f * 0.7f, &wide[0][i],
                       &wide[1][i], &wide[2][i]);
        model[i] = wide[0][i];
        wide[0][i] = dtype_kept(kept->param_dtype, wide[0][i]);
        wide[1][i] = dtype_kept(kept->moment_dtype, wide[1][i]);
        wide[2][i] = dtype_kept(kept->moment_dtype, wide[2][i]);
    }
}

static void demand(const struct adam_kept *kept, const struct recipe *recipe, int threads)
{
    const void *const states[] = {kept->param, kept->exp_avg, kept->exp_avg_sq};
    static float now[COUNT];
    for (int i = 0; i < 3; i++) {
        dtype_widen(i == 0 ? kept->param_dtype : kept->moment_dtype, states[i], now, COUNT);
        cr_assert_eq(memcmp(now, wide[i], sizeof now), 0, "%s, state %d, %s and %s, %d threads", recipe_name(recipe), i,
                     dtype_name(kept->param_dtype), dtype_name(kept->moment_dtype), threads);
    }
}

static void train(const struct recipe *recipe, const struct adam_kept *kept, int threads)
{
    struct recipe_state state = {0};
    static float written[COUNT];
    begin(kept);
    for (uint64_t t = 1; t <= STEPS; t++) {
        const struct adam_scalars scalars = scalars_of(recipe, t, &state);
        for (size_t i = 0; i < COUNT; i++)
            gradient[i] = gradient_of(t, i);
        const struct adam_step step = {.recipe = recipe,
                                       .scalars = scalars,
                                       .grad = gradient,
                                       .grad_dtype = DTYPE_FP32,
                                       .grad_divisor = 3.0f,
                                       .grad_coefficient = 0.7f,
                                       .kept = kept,
                                       .model_params = written,
                                       .model_dtype = DTYPE_FP32,
                                       .count = COUNT,
                                       .tensor_count = COUNT};
        adam_update_parallel(&step, threads);
        step_one_by_one(recipe, &scalars, kept);
        demand(kept, recipe, threads);
        cr_assert_eq(memcmp(written, model, sizeof model), 0, "%s, %d threads", recipe_name(recipe), threads);
    }
}

Test(adam_kept, every_format_and_cut_has_the_bits_of_the_single_element)
{
    static const char *const recipes[] = {"torch-cpu", "torch-fused-cpu", "deepspeed-cpu-gcc-avx512"};
    for (EACH_ISA(isa))
        for (int i = 0; i < 9 * 3; i++)
            for (int threads = 1; threads <= 4; threads += 3) {
                const struct adam_kept kept = {kept_param, kept_m, kept_v, (enum dtype)(i % 3),
                                               (enum dtype)(i / 3 % 3)};
                train(recipe_find(recipes[i / 9]), &kept, threads);
            }
}
