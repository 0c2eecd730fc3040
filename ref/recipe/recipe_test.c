// SPDX-License-Identifier: Apache-2.0
// Recipes against golden bits from exact rational arithmetic (recipe_golden.py), which shares nothing with recipe.h.
#include "ref/recipe/recipe.h"

#include "ref/arithmetic/dtype.h"
#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

enum { COUNT = 45 };

static const struct golden {
    const char *recipe;
    double beta1, beta2, decay;
    bool decoupled, correction;
    uint64_t digest;   // of p, m and v
    uint32_t p, m, v;  // bits of the last element
} GOLDEN[] = {
#include "ref/recipe/recipe_golden.h"
};

static const uint64_t STEPS[] = {1, 2, 3, 10};  // the last one as after loading a checkpoint

static const struct adam_hyper HYPER = {1e-3, 0.9, 0.999, 1e-8, 0.1, true, true};

struct tensor {
    float p[COUNT], m[COUNT], v[COUNT];
};

static float golden_parameter(uint64_t i)
{
    uint64_t bits = random_mix(i);
    return f32_of_bits((uint32_t)((bits & 1) << 31 | (118 + (bits >> 1) % 9) << 23 | bits >> 41));
}

static float golden_gradient(uint64_t t, uint64_t i)
{
    uint64_t bits = random_mix(1000 * t + i);
    uint64_t low = bits % 5 == 0 ? 40 : 110;
    uint32_t encoding = (uint32_t)((bits & 1) << 31 | (low + (bits >> 8) % (130 - low)) << 23 | bits >> 41);
    return bits % 19 == 0 ? 0 : f32_of_bits(encoding);
}

static void tensor_run(const struct golden *golden, struct tensor *x)
{
    const struct recipe *recipe = recipe_find(golden->recipe);
    cr_assert_not_null(recipe, "%s", golden->recipe);
    struct adam_hyper hyper = {1e-3,          golden->beta1,     golden->beta2,     1e-8,
                               golden->decay, golden->decoupled, golden->correction};
    struct recipe_state state = {0};
    memset(x, 0, sizeof *x);
    for (size_t i = 0; i < COUNT; i++)
        x->p[i] = golden_parameter(i);
    for (size_t k = 0; k < sizeof STEPS / sizeof *STEPS; k++) {
        struct adam_scalars scalars;
        cr_assert_eq(recipe_begin_step(recipe, &hyper, STEPS[k], &state, &scalars), 0);
        for (size_t i = 0; i < COUNT; i++)
            recipe_element(recipe, &scalars, i >= recipe_tail_start(recipe, COUNT), golden_gradient(STEPS[k], i),
                           &x->p[i], &x->m[i], &x->v[i]);
    }
}

Test(recipe, every_recipe_has_the_bits_of_exact_arithmetic_rounded_after_each_operation)
{
    for (size_t k = 0; k < sizeof GOLDEN / sizeof *GOLDEN; k++) {
        const struct golden *golden = &GOLDEN[k];
        struct tensor x;
        tensor_run(golden, &x);
        uint64_t digest = 0;
        const float *const parts[] = {x.p, x.m, x.v};
        for (size_t part = 0; part < 3; part++)
            for (size_t i = 0; i < COUNT; i++)
                digest = random_mix(digest ^ f32_bits(parts[part][i]));
        uint32_t p = f32_bits(x.p[COUNT - 1]), m = f32_bits(x.m[COUNT - 1]), v = f32_bits(x.v[COUNT - 1]);
        cr_expect(
            p == golden->p && m == golden->m && v == golden->v && digest == golden->digest,
            "%s, beta1 %g, decay %g, decoupled %d, correction %d: digest %016llx, last element p 0x%08x of 0x%08x, "
            "m 0x%08x of 0x%08x, v 0x%08x of 0x%08x",
            golden->recipe, golden->beta1, golden->decay, golden->decoupled, golden->correction,
            (unsigned long long)digest, p, golden->p, m, golden->m, v, golden->v);
    }
}

Test(recipe, the_table_has_every_named_recipe_with_its_source_and_golden_bits)
{
    char names[] =
        "torch-cpu torch-cpu-nofma torch-fused-cpu deepspeed-cpu-gcc-avx512 deepspeed-cpu-gcc-avx2 deepspeed-cpu-clang "
        "deepspeed-cpu-scalar torch-cuda-foreach torch-cuda-single torch-cuda-fused torch-cuda-fused-fp32 "
        "torch-capturable-foreach torch-capturable-single apex apex-other-fusion apex-nofma";
    for (char *rest = names, *name; (name = strsep(&rest, " ")) != NULL;)
        cr_expect_not_null(recipe_find(name), "%s", name);
    cr_expect_str_eq(recipe_name(recipe_at(0)), "torch-cpu");
    cr_expect_null(recipe_find("torch"));
    cr_expect_null(recipe_at(-1));
    for (int i = 0; recipe_at(i); i++) {
        const struct recipe *recipe = recipe_at(i);
        bool has_golden = false;
        for (size_t k = 0; k < sizeof GOLDEN / sizeof *GOLDEN; k++)
            has_golden |= !strcmp(GOLDEN[k].recipe, recipe->name);
        cr_expect(has_golden, "%s has no golden bits", recipe->name);
        cr_expect_eq(recipe_find(recipe->name), recipe);
        cr_expect(*recipe->source && *recipe->version && *recipe->note, "%s", recipe->name);
    }
}

Test(recipe, a_tail_that_fuses_the_other_product_differs_from_the_body_somewhere)
{
    for (int k = 0; recipe_at(k); k++) {
        const struct recipe *recipe = recipe_at(k);
        struct recipe_state state = {0};
        struct adam_scalars scalars;
        cr_assert_eq(recipe_begin_step(recipe, &HYPER, 1, &state, &scalars), 0);
        int differ = 0;
        for (uint64_t i = 0; i < 1000; i++) {
            float p[2] = {golden_parameter(i), golden_parameter(i)}, m[2] = {0.25f, 0.25f}, v[2] = {0.7f, 0.7f};
            for (int tail = 0; tail < 2; tail++)
                recipe_element(recipe, &scalars, tail, golden_gradient(1, i), &p[tail], &m[tail], &v[tail]);
            differ += m[0] != m[1] || v[0] != v[1];
        }
        cr_expect_eq(differ > 0, recipe->lanes > 0, "%s: %d of 1000 differ", recipe->name, differ);
    }
}

Test(recipe, the_tail_is_what_is_left_of_the_last_whole_vector)
{
    const struct recipe *wide = recipe_find("deepspeed-cpu-gcc-avx512"), *pure = recipe_find("torch-cpu");
    cr_expect_eq(recipe_tail_start(wide, 0), 0);
    cr_expect_eq(recipe_tail_start(wide, 15), 0);
    cr_expect_eq(recipe_tail_start(wide, 16), 16);
    cr_expect_eq(recipe_tail_start(wide, 37), 32);
    cr_expect_eq(recipe_tail_start(pure, 37), 37);
}

Test(recipe, torch_refuses_to_leave_the_bias_uncorrected)
{
    struct adam_hyper hyper = HYPER;
    hyper.bias_correction = false;
    struct recipe_state state = {0};
    struct adam_scalars scalars;
    cr_expect_eq(recipe_begin_step(recipe_find("torch-cpu"), &hyper, 1, &state, &scalars), ERR_USAGE);
    cr_expect(strstr(err_message(), "torch-cpu") && strstr(err_message(), "bias_correction"), "%s", err_message());
    cr_expect_eq(recipe_begin_step(recipe_find("torch-cuda-fused"), &hyper, 1, &state, &scalars), ERR_USAGE);
    cr_expect_eq(recipe_begin_step(recipe_find("deepspeed-cpu-clang"), &hyper, 1, &state, &scalars), 0);
    cr_expect_eq(scalars.bias2, 1);
    cr_expect_eq(scalars.step_size, -1e-3f);
    cr_expect_eq(recipe_begin_step(recipe_find("apex"), &hyper, 1, &state, &scalars), 0);
    cr_expect(scalars.bias1 == 1 && scalars.bias2 == 1);
}

Test(recipe, steps_count_from_one)
{
    struct recipe_state state = {0};
    struct adam_scalars scalars;
    for (int i = 0; recipe_at(i); i++)
        cr_expect_eq(recipe_begin_step(recipe_at(i), &HYPER, 0, &state, &scalars), ERR_USAGE);
}

Test(recipe, deepspeed_multiplies_its_powers_and_takes_pow_only_after_a_jump)
{
    const struct recipe *recipe = recipe_find("deepspeed-cpu-gcc-avx512");
    struct recipe_state running = {0};
    struct adam_scalars scalars;
    float product1 = 1, product2 = 1;
    bool differ1 = false, differ2 = false;
    for (uint64_t t = 1; t <= 50; t++) {
        struct recipe_state resumed = {0};
        if (t > 2) {
            cr_assert_eq(recipe_begin_step(recipe, &HYPER, 1, &resumed, &scalars), 0);
            cr_assert_eq(recipe_begin_step(recipe, &HYPER, t, &resumed, &scalars), 0);
            cr_assert_eq(resumed.beta1_power, (float)pow(0.9f, (double)t));
            cr_assert_eq(resumed.beta2_power, (float)pow(0.999f, (double)t));
        }
        cr_assert_eq(recipe_begin_step(recipe, &HYPER, t, &running, &scalars), 0);
        product1 *= 0.9f;
        product2 *= 0.999f;
        cr_assert_eq(running.beta1_power, product1);
        cr_assert_eq(running.beta2_power, product2);
        differ1 |= t > 2 && resumed.beta1_power != product1;
        differ2 |= t > 2 && resumed.beta2_power != product2;
        // The same step again, for the optimizer's next tensor, changes nothing.
        cr_assert_eq(recipe_begin_step(recipe, &HYPER, t, &running, &scalars), 0);
        cr_assert(running.beta1_power == product1 && running.beta2_power == product2);
    }
    cr_expect(differ1 && differ2, "the two histories never differ: the test shows nothing");
    struct adam_hyper other = HYPER;
    other.beta2 = 0.99;
    cr_assert_eq(recipe_begin_step(recipe, &other, 51, &running, &scalars), 0);
    cr_expect_eq(running.beta2_power, (float)pow(0.99f, 51));
}

Test(recipe, hyper_parameters_are_rounded_where_each_implementation_rounds_them)
{
    struct recipe_state state = {0};
    struct adam_scalars torch, deepspeed;
    cr_assert_eq(recipe_begin_step(recipe_find("torch-cpu"), &HYPER, 1, &state, &torch), 0);
    cr_assert_eq(recipe_begin_step(recipe_find("deepspeed-cpu-clang"), &HYPER, 1, &state, &deepspeed), 0);
    cr_expect_eq(f32_bits(torch.v_take), 0x3a83126f);      // f32(1 - 0.999)
    cr_expect_eq(f32_bits(deepspeed.v_take), 0x3a831200);  // 1 - f32(0.999)
}

Test(recipe, negative_decay_counts_in_torch_and_is_ignored_by_deepspeed)
{
    struct adam_hyper hyper = HYPER;
    hyper.weight_decay = -0.1;
    struct recipe_state state = {0};
    struct adam_scalars scalars;
    cr_assert_eq(recipe_begin_step(recipe_find("torch-cpu"), &hyper, 1, &state, &scalars), 0);
    cr_expect_eq(scalars.decay, DECAY_DECOUPLED);
    cr_assert_eq(recipe_begin_step(recipe_find("deepspeed-cpu-clang"), &hyper, 1, &state, &scalars), 0);
    cr_expect_eq(scalars.decay, DECAY_NONE);
}

Test(recipe, torch_counts_steps_in_fp32_and_stays_at_two_to_the_24)
{
    struct adam_hyper slow = HYPER;
    slow.beta2 = 1 - 0x1p-26;  // large enough that the correction still moves there
    struct recipe_state state = {0};
    struct adam_scalars at, beyond, before;
    const struct recipe *recipe = recipe_find("torch-cpu");
    cr_assert_eq(recipe_begin_step(recipe, &slow, 1 << 24, &state, &at), 0);
    cr_assert_eq(recipe_begin_step(recipe, &slow, 1 << 26, &state, &beyond), 0);
    cr_assert_eq(recipe_begin_step(recipe, &slow, 1 << 23, &state, &before), 0);
    cr_expect_eq(at.bias2, beyond.bias2);
    cr_expect_neq(at.bias2, before.bias2);
}

// PyTorch's single-tensor code takes the root as a power, its fused code as a root.
Test(recipe, a_power_of_one_half_and_a_root_give_the_same_bias_correction_in_fp32)
{
    static const double betas[] = {0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999};
    for (size_t b = 0; b < sizeof betas / sizeof *betas; b++)
        for (int t = 1; t < 100000; t++) {
            double bias2 = 1 - pow(betas[b], t);
            cr_assert_eq((float)pow(bias2, 0.5), (float)sqrt(bias2), "beta2 %g, step %d", betas[b], t);
        }
}
