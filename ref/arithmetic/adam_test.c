// SPDX-License-Identifier: Apache-2.0
// Every build of the kernels against recipe_element, one element at a time.
#include "ref/arithmetic/adam.h"

#include "base/err.h"
#include "ref/arithmetic/isa_test.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>

enum { MANY = 1000000, SHORT = 67, ALIGNMENTS = 16, DECAYS = 3 };

#define EACH_RECIPE(recipe)                                                                                            \
    const struct recipe *recipe = recipe_at(0);                                                                        \
    recipe;                                                                                                            \
    recipe = recipe_after(recipe)

static const struct recipe *recipe_after(const struct recipe *recipe)
{
    int index = 0;
    while (recipe_at(index) != recipe)
        index++;
    return recipe_at(index + 1);
}

static struct adam_scalars scalars_of(const struct recipe *recipe, int decay, uint64_t t)
{
    struct adam_hyper hyper = {.lr = 1e-3,
                               .beta1 = t % 2 ? 0.9 : 0.4,  // below one half, torch interpolates from the other end
                               .beta2 = 0.999,
                               .eps = 1e-8,
                               .weight_decay = decay ? 0.1 : 0,
                               .decoupled = decay == 2,
                               .bias_correction = true};
    struct recipe_state state = {0};
    struct adam_scalars scalars;
    cr_assert_eq(recipe_begin_step(recipe, &hyper, t, &state, &scalars), 0);
    return scalars;
}

// The arrays of one tensor, which begin after `at` unused elements, so that the kernels meet every alignment.
struct tensor {
    float *p, *m, *v;
    void *grad, *model_params;
    size_t count;
};

static struct tensor tensor_make(size_t count)
{
    size_t bytes = (count + 1) * sizeof(float);
    return (struct tensor){malloc(bytes), malloc(bytes), malloc(bytes), malloc(bytes), malloc(bytes), count};
}

static void tensor_free(struct tensor *x)
{
    free(x->p);
    free(x->m);
    free(x->v);
    free(x->grad);
    free(x->model_params);
}

static void tensor_copy(struct tensor *to, const struct tensor *from)
{
    memcpy(to->p, from->p, from->count * sizeof(float));
    memcpy(to->m, from->m, from->count * sizeof(float));
    memcpy(to->v, from->v, from->count * sizeof(float));
    memcpy(to->grad, from->grad, from->count * sizeof(float));
    memset(to->model_params, 0xab, from->count * sizeof(float));
}

// Plausible training values, with zeros and gradients whose square underflows among them.
static void tensor_fill(struct tensor *x, enum dtype grad_dtype, uint64_t key)
{
    float *grad = malloc(x->count * sizeof(float));
    for (size_t i = 0; i < x->count; i++) {
        uint64_t bits = random_at(key, i), more = random_mix(bits);
        x->p[i] = random_normal(bits);
        x->m[i] = random_normal(more) * 0x1p-8f;
        x->v[i] = ldexpf((float)(more >> 40), -44);
        grad[i] = bits % 19 == 0 ? 0 : ldexpf(random_normal(random_mix(more)), bits % 7 == 0 ? -70 : -3);
    }
    dtype_narrow(grad_dtype, grad, x->grad, x->count);
    free(grad);
}

static float gradient_at(const struct adam_step *step, size_t i)
{
    float g;
    dtype_widen(step->grad_dtype, (const char *)step->grad + i * dtype_bytes(step->grad_dtype), &g, 1);
    g = g / step->grad_divisor;
    return g * step->grad_coefficient;
}

// Computes the expected result of adam_update, one element at a time.
static void update_one_by_one(const struct adam_step *step)
{
    size_t tail_start = recipe_tail_start(step->recipe, step->tensor_count);
    for (size_t i = 0; i < step->count; i++) {
        recipe_element(step->recipe, &step->scalars, step->tensor_index + i >= tail_start, gradient_at(step, i),
                       &step->param[i], &step->exp_avg[i], &step->exp_avg_sq[i]);
        if (step->model_params)
            dtype_narrow(step->model_dtype, &step->param[i],
                         (char *)step->model_params + i * dtype_bytes(step->model_dtype), 1);
    }
}

static struct adam_step step_of(const struct recipe *recipe, struct adam_scalars scalars, const struct tensor *x)
{
    return (struct adam_step){.recipe = recipe,
                              .scalars = scalars,
                              .grad = x->grad,
                              .grad_dtype = DTYPE_FP32,
                              .grad_divisor = 1,
                              .grad_coefficient = 1,
                              .param = x->p,
                              .exp_avg = x->m,
                              .exp_avg_sq = x->v,
                              .count = x->count,
                              .tensor_count = x->count};
}

// Elements [begin, begin + count) of the step's arrays, with their position in the tensor.
static struct adam_step step_part(const struct adam_step *step, size_t begin, size_t count)
{
    struct adam_step part = *step;
    part.grad = (const char *)step->grad + begin * dtype_bytes(step->grad_dtype);
    part.param += begin;
    part.exp_avg += begin;
    part.exp_avg_sq += begin;
    if (step->model_params)
        part.model_params = (char *)step->model_params + begin * dtype_bytes(step->model_dtype);
    part.tensor_index += begin;
    part.count = count;
    return part;
}

// Treats NaNs as equal: the processor picks one of two NaN operands by their order, which the compiler chooses.
static bool same(float a, float b)
{
    return f32_bits(a) == f32_bits(b) || (isnan(a) && isnan(b));
}

static void expect_same(const struct tensor *found, const struct tensor *expected, const struct recipe *recipe,
                        int decay)
{
    for (size_t i = 0; i < found->count; i++)
        cr_assert(
            same(found->p[i], expected->p[i]) && same(found->m[i], expected->m[i]) && same(found->v[i], expected->v[i]),
            "%s, %s, decay %d, element %zu of %zu: p %08x of %08x, m %08x of %08x, v %08x of %08x", isa_name(isa_now()),
            recipe->name, decay, i, found->count, f32_bits(found->p[i]), f32_bits(expected->p[i]),
            f32_bits(found->m[i]), f32_bits(expected->m[i]), f32_bits(found->v[i]), f32_bits(expected->v[i]));
}

static const enum dtype FORMATS[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
static const float DIVISORS[] = {1, 2, 3, 131072, 0x1p127f, 0x1p-128f, 6 * 65536.0f, 0.1f};

// The formats and the scaling of a case follow from its key, so that all of them meet all lengths.
static struct adam_step step_chosen(const struct recipe *recipe, struct adam_scalars scalars, const struct tensor *x,
                                    uint64_t key, size_t alignment, size_t count)
{
    struct adam_step step = step_of(recipe, scalars, x);
    step.grad_dtype = FORMATS[random_below(random_at(key, 0), 3)];
    step.grad_divisor = DIVISORS[random_below(random_at(key, 1), 8)];
    step.grad_coefficient = random_at(key, 2) % 2 ? 1 : 0.3f;
    step.model_params = random_at(key, 3) % 4 ? x->model_params : NULL;
    step.model_dtype = FORMATS[random_below(random_at(key, 4), 3)];
    step.tensor_count = count;
    step = step_part(&step, alignment, count);
    step.tensor_index = 0;
    return step;
}

Test(adam, every_length_alignment_format_and_recipe_has_the_bits_of_the_single_element)
{
    struct tensor start = tensor_make(SHORT + ALIGNMENTS + 1), found = tensor_make(start.count),
                  expected = tensor_make(start.count);
    for (EACH_RECIPE(recipe))
        for (int decay = 0; decay < DECAYS; decay++)
            for (size_t count = 0; count <= SHORT; count++)
                for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++) {
                    uint64_t key = random_key(random_key((uint64_t)decay, count), alignment);
                    struct adam_scalars scalars = scalars_of(recipe, decay, 1 + key % 4);
                    struct adam_step reference = step_chosen(recipe, scalars, &expected, key, alignment, count);
                    tensor_fill(&start, reference.grad_dtype, key);
                    tensor_copy(&expected, &start);
                    update_one_by_one(&reference);
                    for (EACH_ISA(isa)) {
                        tensor_copy(&found, &start);
                        struct adam_step step = step_chosen(recipe, scalars, &found, key, alignment, count);
                        adam_update(&step);
                        // All of the arrays, so that a write outside the elements shows, too.
                        expect_same(&found, &expected, recipe, decay);
                        cr_assert_eq(memcmp(found.model_params, expected.model_params, found.count * sizeof(float)), 0,
                                     "%s, %s, the copy", isa_name(isa_now()), recipe->name);
                        cr_assert_eq(memcmp(found.grad, start.grad, found.count * sizeof(float)), 0);
                    }
                }
    tensor_free(&start);
    tensor_free(&found);
    tensor_free(&expected);
}

Test(adam, a_million_values_of_every_exponent_and_kind_have_the_bits_of_the_single_element, .timeout = 500)
{
    struct tensor start = tensor_make(MANY), found = tensor_make(MANY), expected = tensor_make(MANY);
    static const uint32_t specials[] = {0,          0x80000000, 1,          0x807fffff, 0x00800000, 0x7f800000,
                                        0xff800000, 0x7fc00000, 0x7f800001, 0x7f7fffff, 0x3f800000, 0x00000100};
    for (uint64_t i = 0; i < MANY; i++) {
        uint64_t bits = random_at(7, i), more = random_at(8, i), which = random_at(9, i);
        uint32_t parts[4] = {(uint32_t)bits, (uint32_t)(bits >> 32), (uint32_t)more, (uint32_t)(more >> 32)};
        for (int k = 0; k < 4; k++)
            if ((which >> (8 * k)) % 16 == 0)
                parts[k] = specials[(which >> (8 * k + 4)) % 12];
        if (which >> 63)
            parts[2] &= 0x7fffffff;  // v is never negative in training, and sometimes is here
        start.p[i] = f32_of_bits(parts[0]);
        start.m[i] = f32_of_bits(parts[1]);
        start.v[i] = f32_of_bits(parts[2]);
        ((float *)start.grad)[i] = f32_of_bits(parts[3]);
    }
    for (EACH_RECIPE(recipe))
        for (int decay = 0; decay < DECAYS; decay++) {
            struct adam_scalars scalars = scalars_of(recipe, decay, 1 + (uint64_t)decay % 2);
            tensor_copy(&expected, &start);
            struct adam_step reference = step_of(recipe, scalars, &expected);
            update_one_by_one(&reference);
            for (EACH_ISA(isa)) {
                tensor_copy(&found, &start);
                struct adam_step step = step_of(recipe, scalars, &found);
                adam_update(&step);
                expect_same(&found, &expected, recipe, decay);
            }
        }
    tensor_free(&start);
    tensor_free(&found);
    tensor_free(&expected);
}

Test(adam, a_tensor_cut_anywhere_and_by_any_number_of_threads_has_the_bits_of_the_whole)
{
    struct tensor start = tensor_make(60013), whole = tensor_make(60013), cut = tensor_make(60013);
    for (EACH_RECIPE(recipe))
        for (uint64_t trial = 0; trial < 8; trial++) {
            struct adam_scalars scalars = scalars_of(recipe, 2, 1 + trial);
            tensor_fill(&start, DTYPE_BF16, trial);
            tensor_copy(&whole, &start);
            tensor_copy(&cut, &start);
            struct adam_step step = step_of(recipe, scalars, &whole), pieces = step_of(recipe, scalars, &cut);
            step.grad_dtype = pieces.grad_dtype = DTYPE_BF16;
            update_one_by_one(&step);
            for (size_t begin = 0, length; begin < cut.count; begin += length) {
                length = 1 + random_below(random_at(trial, begin), trial % 2 ? 400 : 40000);
                length = length < cut.count - begin ? length : cut.count - begin;
                isa_test_next((int)random_below(random_at(trial, begin + 1), ISA_COUNT) - 1);
                struct adam_step piece = step_part(&pieces, begin, length);
                adam_update_parallel(&piece, 1 + (int)(begin % 4));
            }
            expect_same(&cut, &whole, recipe, 2);
        }
    tensor_free(&start);
    tensor_free(&whole);
    tensor_free(&cut);
}

Test(adam, a_shard_whose_end_is_no_tail_differs_from_one_that_is_taken_for_a_tensor)
{
    const struct recipe *recipe = recipe_find("deepspeed-cpu-gcc-avx512");
    struct tensor shard = tensor_make(1015), tensor = tensor_make(1015);
    struct adam_scalars scalars = scalars_of(recipe, 2, 1);
    tensor_fill(&shard, DTYPE_FP32, 1);
    tensor_copy(&tensor, &shard);
    struct adam_step of_shard = step_of(recipe, scalars, &shard), of_tensor = step_of(recipe, scalars, &tensor);
    of_shard.tensor_count = 2000;
    adam_update(&of_shard);
    adam_update(&of_tensor);
    size_t differ = 0;
    for (size_t i = 0; i < 1015; i++) {
        bool equal = same(shard.m[i], tensor.m[i]) && same(shard.v[i], tensor.v[i]);
        cr_assert(equal || i >= 1008, "element %zu is of the body", i);
        differ += !equal;
    }
    cr_expect(differ > 0);
    tensor_free(&shard);
    tensor_free(&tensor);
}

Test(adam, instruction_sets_have_names_and_unknown_ones_are_refused)
{
    enum isa isa;
    cr_expect_eq(isa_parse("scalar", &isa), 0);
    cr_expect_eq(isa, ISA_SCALAR);
    cr_expect_eq(isa_parse("sse9", &isa), ERR_USAGE);
    cr_expect(strstr(err_message(), "sse9"), "%s", err_message());
    cr_expect_eq(isa_now(), isa_best());
    isa_set(ISA_SCALAR);
    cr_expect_eq(isa_now(), ISA_SCALAR);
}

// Steps of a queue, some of which are made one: whole vectors and a tail, of three tensors that are next to each other,
// and one that is apart; of other scalars, or of none of the model's parameters.
static void queue_steps(const struct recipe *recipe, const size_t counts[4], struct tensor *x, bool queued)
{
    struct adam_queue queue = {.threads = 2};
    size_t at = 0;
    for (int i = 0; i < 4; i++) {
        struct adam_step all = step_of(recipe, scalars_of(recipe, i == 2, 3), x);
        all.model_params = x->model_params;
        all.model_dtype = DTYPE_BF16;
        at += i == 3 ? 5 : 0;
        struct adam_step step = step_part(&all, at, counts[i]);
        step.tensor_index = 0;
        step.tensor_count = counts[i];
        at += counts[i];
        if (queued)
            adam_queue_add(&queue, &step);
        else
            adam_update(&step);
    }
    adam_queue_run(&queue);
}

Test(adam, a_queue_has_the_bits_of_its_steps)
{
    static const size_t counts[][4] = {{48, 32, 64, 16}, {48, 37, 64, 16}, {47, 33, 0, 8}, {9000, 9000, 16, 3}};
    for (EACH_RECIPE(recipe)) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            size_t all = counts[i][0] + counts[i][1] + counts[i][2] + counts[i][3] + 5;
            struct tensor apart = tensor_make(all), queued = tensor_make(all);
            tensor_fill(&apart, DTYPE_FP32, i);
            tensor_copy(&queued, &apart);
            memset(apart.model_params, 0xab, all * sizeof(float));
            queue_steps(recipe, counts[i], &apart, false);
            queue_steps(recipe, counts[i], &queued, true);
            cr_expect_arr_eq(queued.p, apart.p, all * sizeof(float), "%s, %zu", recipe->name, i);
            cr_expect_arr_eq(queued.m, apart.m, all * sizeof(float), "%s, %zu", recipe->name, i);
            cr_expect_arr_eq(queued.v, apart.v, all * sizeof(float), "%s, %zu", recipe->name, i);
            cr_expect_arr_eq(queued.model_params, apart.model_params, all * sizeof(float), "%s, %zu", recipe->name, i);
            tensor_free(&apart);
            tensor_free(&queued);
        }
    }
}
