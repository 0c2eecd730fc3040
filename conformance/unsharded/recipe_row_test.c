// SPDX-License-Identifier: Apache-2.0
// The suite's recipes against the reference's, two texts of the same operations; and all of them against Adam itself.
#include "conformance/unsharded/recipe_row.h"

#include "ref/arithmetic/random.h"
#include "ref/recipe/recipe.h"

#include <criterion/criterion.h>

#include <float.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 2003, STEPS = 12 };

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static const struct adam_recipe *row(const char *name)
{
    for (int i = 0; adam_recipe_at(i); i++)
        if (!strcmp(adam_recipe_name(adam_recipe_at(i)), name))
            return adam_recipe_at(i);
    cr_assert_fail("no recipe %s", name);
    return NULL;
}

// Wide exponents, zeros, and numbers whose squares underflow.
static float gradient(uint64_t t, uint64_t i)
{
    uint64_t bits = random_at(random_key(7, t), i);
    float x = random_normal(random_mix(bits)) * ldexpf(1, (int)(bits % 52) - 40);
    return bits >> 40 & 31 ? bits >> 50 & 63 ? x : x * 0x1p-90f : 0;
}

static float parameter(uint64_t i)
{
    return random_normal(random_at(3, i));
}

// lr, beta1, beta2, eps, weight_decay, decoupled, bias_correction; t and resumed_t are set by a test.
static const struct recipe_step VARIANTS[] = {
    {1e-3, 0.9, 0.999, 1e-8, 0, true, true, 0, 0},     {1e-3, 0.9, 0.999, 1e-8, 0.1, true, true, 0, 0},
    {3e-4, 0.9, 0.95, 1e-6, 0.1, false, true, 0, 0},   {0.02, 0.4, 0.95, 1e-8, 0.01, true, true, 0, 0},
    {0.02, 0.0, 0.5, 1e-3, 0.3, false, true, 0, 0},    {1e-3, 0.9, 0.999, 1e-8, 0.1, true, false, 0, 0},
    {1e-3, 0.9, 0.999, 1e-8, 0.1, false, false, 0, 0},
};
enum { VARIANT_COUNT = sizeof VARIANTS / sizeof *VARIANTS };

// Differing words of p, m and v over all steps; the reference resumes at t = resumed_t + 1, if that is not 0.
static size_t differences(const char *name, const char *reference, bool tail, const struct recipe_step *variant,
                          uint64_t resumed_t)
{
    const struct adam_recipe *mine = row(name);
    const struct recipe *theirs = recipe_find(reference);
    cr_assert_not_null(theirs);
    struct adam_hyper hyper = {variant->lr,           variant->beta1,     variant->beta2,          variant->eps,
                               variant->weight_decay, variant->decoupled, variant->bias_correction};
    struct recipe_state history = {0};
    static float a[3][COUNT], b[3][COUNT];
    memset(a, 0, sizeof a);
    for (size_t i = 0; i < COUNT; i++)
        a[0][i] = parameter(i);
    memcpy(b, a, sizeof b);
    size_t count = 0;
    for (uint64_t t = 1; t <= STEPS; t++) {
        struct recipe_step step = *variant;
        struct recipe_scalars scalars;
        struct adam_scalars other;
        step.t = t;
        step.resumed_t = t > resumed_t ? resumed_t : 0;
        if (resumed_t && t == resumed_t + 1)
            history = (struct recipe_state){0};
        mine->begin(&step, &scalars);
        cr_assert_eq(recipe_begin_step(theirs, &hyper, t, &history, &other), 0);
        for (size_t i = 0; i < COUNT; i++) {
            float g = gradient(t, i);
            mine->element(&scalars, tail ? mine->tail : mine->body, g, &a[0][i], &a[1][i], &a[2][i]);
            recipe_element(theirs, &other, tail, g, &b[0][i], &b[1][i], &b[2][i]);
            for (int part = 0; part < 3; part++)
                count += bits_of(a[part][i]) != bits_of(b[part][i]);
        }
    }
    return count;
}

Test(recipe_row, both_texts_of_a_recipe_agree_in_every_bit)
{
    static const struct {
        const char *mine, *theirs;
    } pairs[] = {
        {"torch-cpu", "torch-cpu"},
        {"torch-cpu-nofma", "torch-cpu-nofma"},
        {"torch-fused-cpu", "torch-fused-cpu"},
        {"deepspeed-cpu-gcc", "deepspeed-cpu-gcc-avx512"},
        {"deepspeed-cpu-clang", "deepspeed-cpu-clang"},
        {"deepspeed-cpu-scalar", "deepspeed-cpu-scalar"},
        {"torch-cuda-foreach", "torch-cuda-foreach"},
        {"torch-cuda-single", "torch-cuda-single"},
        {"torch-cuda-fused", "torch-cuda-fused"},
        {"torch-cuda-fused-fp32", "torch-cuda-fused-fp32"},
        {"torch-capturable-foreach", "torch-capturable-foreach"},
        {"torch-capturable-single", "torch-capturable-single"},
        {"apex", "apex"},
        {"apex-other-fusion", "apex-other-fusion"},
        {"apex-nofma", "apex-nofma"},
    };
    for (size_t pair = 0; pair < sizeof pairs / sizeof *pairs; pair++)
        for (int variant = 0; variant < VARIANT_COUNT; variant++)
            for (int tail = 0; tail < 2; tail++) {
                if (!VARIANTS[variant].bias_correction && !strncmp(pairs[pair].mine, "torch", 5))
                    continue;
                size_t count = differences(pairs[pair].mine, pairs[pair].theirs, tail, &VARIANTS[variant], 0);
                cr_expect_eq(count, 0, "%s, variant %d, %s: %zu differ", pairs[pair].mine, variant,
                             tail ? "tail" : "body", count);
            }
}

Test(recipe_row, running_powers_begin_anew_after_a_resume)
{
    for (uint64_t resumed_t = 1; resumed_t < STEPS; resumed_t += 4)
        cr_expect_eq(differences("deepspeed-cpu-gcc", "deepspeed-cpu-gcc-avx512", false, &VARIANTS[1], resumed_t), 0);
    struct recipe_scalars whole, resumed;
    int differ = 0;
    for (uint64_t t = 2; t <= 50; t++) {
        struct recipe_step step = VARIANTS[0];
        step.t = t;
        deepspeed_cpu_begin(&step, &whole);
        step.resumed_t = t - 1;
        deepspeed_cpu_begin(&step, &resumed);
        differ += bits_of(whole.bias2) != bits_of(resumed.bias2);
    }
    cr_expect(differ > 10, "%d of 49", differ);
}

// One step from zero moments, where Adam is p - lr x sign(g), or with decay p x (1 - lr x decay) - lr x sign(g).
Test(recipe_row, the_first_step_of_every_recipe_moves_by_the_learning_rate)
{
    for (int i = 0; adam_recipe_at(i); i++) {
        const struct adam_recipe *recipe = adam_recipe_at(i);
        if (!adam_recipe_does(recipe, true))
            continue;
        struct recipe_step step = VARIANTS[1];
        struct recipe_scalars scalars;
        step.t = 1;
        recipe->begin(&step, &scalars);
        for (int tail = 0; tail < 2; tail++)
            for (int sign = -1; sign <= 1; sign += 2) {
                float p = 2, m = 0, v = 0;
                recipe->element(&scalars, tail ? recipe->tail : recipe->body, (float)sign * 0.75f, &p, &m, &v);
                cr_expect_float_eq(p, 2 - 0.001 * (0.1 * 2 + sign), 1e-6, "%s", recipe->name);
                cr_expect_float_eq(m, 0.1 * 0.75 * sign, 1e-7, "%s", recipe->name);
                cr_expect_float_eq(v, 0.001 * 0.75 * 0.75, 2e-8, "%s", recipe->name);
            }
    }
}

Test(recipe_row, names_are_unique_and_the_first_is_torch_cpu)
{
    cr_expect_str_eq(adam_recipe_name(adam_recipe_at(0)), "torch-cpu");
    cr_expect_null(adam_recipe_at(-1));
    int count = 0;
    for (; adam_recipe_at(count); count++) {
        cr_expect_eq(row(adam_recipe_name(adam_recipe_at(count))), adam_recipe_at(count));
        cr_expect(*adam_recipe_at(count)->source && *adam_recipe_at(count)->checked);
    }
    cr_expect_null(adam_recipe_at(count));
    cr_expect_not(adam_recipe_does(row("llmc-cuda"), false));
    cr_expect(adam_recipe_does(row("llmc-cuda"), true));
    cr_expect(adam_recipe_has_tail(row("deepspeed-cpu-gcc")) && adam_recipe_has_tail(row("torch-fused-cpu")));
    cr_expect_not(adam_recipe_has_tail(row("deepspeed-cpu-clang")));
}

// Ten steps of each pair of recipes on the same gradients: none is a copy of another under a second name.
Test(recipe_row, every_two_recipes_differ_somewhere)
{
    enum { MANY = 64, ELEMENTS = 3000 };
    uint64_t digests[MANY][2] = {{0}};
    int count = 0;
    for (; adam_recipe_at(count); count++)
        for (int tail = 0; tail < 2; tail++) {
            const struct adam_recipe *recipe = adam_recipe_at(count);
            if (!adam_recipe_does(recipe, true))
                continue;
            for (size_t i = 0; i < ELEMENTS; i++) {
                float p = parameter(i) * 0x1p-8f, m = 0, v = 0;
                for (uint64_t t = 1; t <= 10; t++) {
                    struct recipe_step step = VARIANTS[1];
                    struct recipe_scalars scalars;
                    step.t = t;
                    recipe->begin(&step, &scalars);
                    scalars.storage = DTYPE_BF16;
                    recipe->element(&scalars, tail ? recipe->tail : recipe->body, gradient(t, i), &p, &m, &v);
                }
                digests[count][tail] = random_mix(digests[count][tail] ^ bits_of(p) ^ (uint64_t)bits_of(v) << 32);
            }
        }
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            cr_expect(adam_recipe_at(i)->keep != adam_recipe_at(k)->keep ||
                          (digests[i][0] != digests[k][0] || digests[i][1] != digests[k][1]) || digests[i][0] == 0,
                      "%s and %s", adam_recipe_name(adam_recipe_at(i)), adam_recipe_name(adam_recipe_at(k)));
}

// How many of 200,000 roots are one unit low or high; none is further off.
static void count_off(float (*root_of)(float), int *low, int *high)
{
    *low = *high = 0;
    for (uint64_t i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)(random_mix(i) % 0x7f800000);
        float x;
        memcpy(&x, &bits, sizeof x);
        uint32_t root = bits_of(root_of(x)), ieee = bits_of(sqrtf(x));
        cr_assert(root + 1 == ieee || root == ieee || root == ieee + 1, "%a", (double)x);
        *low += root + 1 == ieee;
        *high += root == ieee + 1;
    }
    cr_expect_eq(root_of(0), 0);
    cr_expect(isnan(root_of(-1)) && isinf(root_of(INFINITY)));
}

Test(recipe_row, mkl_square_roots_are_at_most_one_unit_low)
{
    int low, high;
    if (!mkl_sqrt_is_here()) {
        printf("TEST SKIPPED: this processor has no VRSQRT14\n");
        return;
    }
    count_off(mkl_sqrt, &low, &high);
    cr_expect(low > 100 && low < 3000 && high == 0, "%d low, %d high", low, high);
}

Test(recipe_row, mkl_square_roots_in_sse_are_at_most_one_unit_off_to_either_side)
{
    int low, high;
    if (!mkl_sse_sqrt_is_here()) {
        printf("TEST SKIPPED: this processor has no RSQRTPS\n");
        return;
    }
    count_off(mkl_sse_sqrt, &low, &high);
    cr_expect(low > 1000 && low < 40000 && high > 1000 && high < 40000, "%d low, %d high", low, high);
    cr_expect_eq(mkl_sse_sqrt(0x1p-140f), 0x1p-70f);
    cr_expect_eq(mkl_sse_sqrt(FLT_MAX), sqrtf(FLT_MAX));
}

// Two blocks; the values are the libraries' own, of bitsandbytes 0.50.2 and torchao 0.18.0.
Test(recipe_row, blocks_of_8_bits_keep_what_the_libraries_keep)
{
    enum { BLOCKS = 512 };
    static const struct {
        int at;
        float signed_bitsandbytes, signed_torchao, unsigned_bitsandbytes, unsigned_torchao;
    } kept[] = {
        {0, -0x1.8d3p+5f, -0x1.8d3p+5f, 0x1.9p+5f, 0x1.9p+5f},
        {1, -0x1.b07ffep+2f, -0x1.b07ffep+2f, 0x1.a53ffep+2f, 0x1.a53ffep+2f},
        {15, 0x1.16872ap-10f, 0, 0x1.999998p-11f, 0},
        {64, -0x1.547aep-5f, -0x1.547aep-5f, 0x1.48f5c4p-5f, 0x1.48f5c4p-5f},
        {255, -0x1.f0a3dcp-6f, -0x1.f0a3dcp-6f, 0x1.03d70cp-5f, 0x1.03d70cp-5f},
        {256, 0x1.0126e8p-4f, 0x1.0126e8p-4f, 0x1.c9db22p-5f, 0x1.c9db22p-5f},
        {300, 0x1.10f51ap-10f, 0x1.10f51ap-10f, 0x1.916870p-11f, 0x1.5935fcp-10f},
        {511, -0x1.10f51ap-10f, -0x1.4df8b2p-13f, 0x1.916870p-11f, 0x1.c193b2p-13f},
    };
    static const uint32_t folded[] = {0x82e5757b, 0x38c52fc5, 0x05dc00ec, 0x31188267};
    for (int variant = 0; variant < 4; variant++) {
        bool is_signed = variant < 2;
        float moment[BLOCKS];
        for (int i = 0; i < BLOCKS; i++) {
            float x = (float)(i * 37 % 101 - 50) * ldexpf(1, -(i % 19));
            moment[i] = is_signed ? x : fabsf(x);
        }
        (variant % 2 ? torchao_keep : bitsandbytes_keep)(moment, BLOCKS, is_signed);
        uint32_t fold = 0;
        for (int i = 0; i < BLOCKS; i++)
            fold ^= bits_of(moment[i]);
        cr_expect_eq(fold, folded[variant], "variant %d: %08x", variant, fold);
        for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
            const float expected[] = {kept[k].signed_bitsandbytes, kept[k].signed_torchao,
                                      kept[k].unsigned_bitsandbytes, kept[k].unsigned_torchao};
            cr_expect_eq(moment[kept[k].at], expected[variant], "variant %d, element %d: %a", variant, kept[k].at,
                         (double)moment[kept[k].at]);
        }
    }
}

// A block without a largest magnitude, one with numbers that are none, and a last one that is short.
Test(recipe_row, blocks_of_8_bits_hold_zeros_infinities_and_ends)
{
    float moment[260] = {0};
    bitsandbytes_keep(moment, 260, true);
    torchao_keep(moment, 260, false);
    for (int i = 0; i < 260; i++)
        cr_expect_eq(moment[i], 0);
    moment[0] = NAN;
    moment[1] = 1;
    moment[259] = INFINITY;
    bitsandbytes_keep(moment, 260, false);
    cr_expect(moment[0] == 0 && moment[1] == 1 && isnan(moment[259]));
    cr_expect(moment[2] > 0 && moment[2] < 2e-5F, "%a", (double)moment[2]);
}
