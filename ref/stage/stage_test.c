// SPDX-License-Identifier: Apache-2.0
// The central promise: at every world size, precision, accumulation, schedule and bucket size, every stage computes the
// same bits as unsharded Adam, and holds and moves the bytes of the formulas.
#include "base/err.h"
#include "ref/config/config_plain_test.h"
#include "ref/model/names/model_find.h"
#include "ref/train/offload_test.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct variant {
    int stage, world;
    enum dtype precision;
    size_t accumulation;
    struct executor_schedule schedule;
    size_t bucket;
    const char *model;
    uint64_t steps;
    void (*change)(struct config *config);
};

static struct config config_of(const struct variant *v)
{
    struct config config = config_plain(v->stage, v->precision, v->accumulation, v->bucket);
    config.train_batch = v->accumulation * (size_t)v->world * 2;
    config.micro_batch = 2;
    if (v->change)
        v->change(&config);
    return config;
}

static int run(const struct variant *v, struct train_result *result)
{
    struct config config = config_of(v);
    struct train_setting setting = {
        .config = &config,
        .world = v->world,
        .steps = v->steps,
        .seed = 7,
        .schedule = v->schedule,
        .threads = 1,
        .verify = true,
    };
    TRY(model_find(v->model, &setting.model));
    struct text *text = setting.model->wants_text ? offload_words() : NULL;
    setting.text = text;
    int rc = train_run(&setting, result);
    free(result->step_ns);
    text_close(text);
    return rc;
}

// Runs and demands equality and exact accounting; the digest is the result's.
static void demand(const struct variant *v, struct train_result *result)
{
    char what[256];
    snprintf(what, sizeof what, "stage %d, %s, world %d, %s, accumulation %zu, schedule %d:%d, bucket %zu", v->stage,
             v->model, v->world, dtype_name(v->precision), v->accumulation, (int)v->schedule.mode,
             (int)v->schedule.seed, v->bucket);
    int rc = run(v, result);
    cr_assert_eq(rc, ERR_NONE, "%s: %s", what, rc ? err_message() : "");
    const struct train_difference *d = &result->difference;
    cr_assert(!d->found, "%s: step %d, rank %d, %s of %s, element %d: expected %llx, got %llx", what, (int)d->step,
              d->rank, d->state, d->tensor, (int)d->element, (unsigned long long)d->expected_bits,
              (unsigned long long)d->actual_bits);
    cr_assert_eq(result->verified_steps, v->steps, "%s", what);
    cr_assert_eq(strlen(result->digest), 32, "%s", what);
    offload_demand_accounts(result, what);
}

static const int worlds[] = {1, 2, 3, 4, 8, 11};
static const enum dtype precisions[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
static const size_t accumulations[] = {1, 2, 4};
static const size_t buckets[] = {64, 997, 5000, 100000000};  // tiny, prime, a tensor's size, huge
static const struct executor_schedule schedules[] = {
    {EXECUTOR_SERIAL, 0}, {EXECUTOR_OVERLAP, 0}, {EXECUTOR_CHAOS, 1}, {EXECUTOR_CHAOS, 2}, {EXECUTOR_CHAOS, 3}};
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

// Every combination whose number is `from` modulo `stride`.
static void matrix(int stage, int from, int stride, const char *model)
{
    int number = 0;
    for (int w = 0; w < COUNT(worlds); w++)
        for (int p = 0; p < COUNT(precisions); p++)
            for (int a = 0; a < COUNT(accumulations); a++)
                for (int s = 0; s < COUNT(schedules); s++)
                    for (int b = 0; b < COUNT(buckets); b++) {
                        if (number++ % stride != from)
                            continue;
                        struct train_result result;
                        demand(&(struct variant){stage, worlds[w], precisions[p], accumulations[a], schedules[s],
                                                 buckets[b], model, 3, NULL},
                               &result);
                    }
}

// Strides without a divisor in common with the numbers of choices, so that each choice meets each other one. Sanitizers
// look at memory and threads, for which fewer combinations do, and take ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SAMPLE_STRIDE = 107 };
#else
enum { SAMPLE_STRIDE = 13 };
#endif

Test(stage, ddp_equals_unsharded_adam_concurrent)
{
    matrix(0, 0, SAMPLE_STRIDE, "linear");
}
Test(stage, zero1_equals_unsharded_adam_concurrent)
{
    matrix(1, 1, SAMPLE_STRIDE, "linear");
}
Test(stage, zero2_equals_unsharded_adam_concurrent)
{
    matrix(2, 2, SAMPLE_STRIDE, "linear");
}
Test(stage, zero3_equals_unsharded_adam_concurrent)
{
    matrix(3, 3, SAMPLE_STRIDE, "linear");
}
Test(stage, every_stage_trains_gpt_equal_to_unsharded_adam)
{
    for (int stage = 0; stage < 4; stage++)
        matrix(stage, stage, 83, "gpt-nano");
}
Test(stage, whole_matrix_long)
{
    for (int stage = 0; stage < 4; stage++)
        matrix(stage, 0, 1, "linear");
}
Test(stage, gpt_matrix_long)
{
    for (int stage = 0; stage < 4; stage++)
        matrix(stage, stage, 5, "gpt-nano");
}

Test(stage, fewer_elements_than_ranks)
{
    for (int stage = 0; stage < 4; stage++)
        for (int w = 0; w < COUNT(worlds); w++) {
            struct train_result result;
            demand(&(struct variant){stage, worlds[w], DTYPE_BF16, 2, {EXECUTOR_CHAOS, 5}, 2, "linear-few", 3, NULL},
                   &result);
        }
}

// With one micro-step the two definitions of the gradient sum are one; with exact inputs they always are.
Test(stage, all_stages_have_one_digest)
{
    static const struct {
        const char *model;
        size_t accumulation;
    } cases[] = {{"linear", 1}, {"gpt-nano", 1}, {"linear-exact", 4}};
    for (int c = 0; c < COUNT(cases); c++)
        for (int p = 0; p < COUNT(precisions); p++) {
            char digest[33] = "";
            for (int stage = 0; stage < 4; stage++) {
                struct train_result result;
                const struct variant v = {stage,          3, precisions[p], cases[c].accumulation, schedules[1], 997,
                                          cases[c].model, 4, NULL};
                demand(&v, &result);
                if (stage == 0)
                    memcpy(digest, result.digest, sizeof digest);
                cr_assert_str_eq(result.digest, digest, "%s, %s, stage %d", cases[c].model, dtype_name(precisions[p]),
                                 stage);
            }
        }
}

// With rounding inputs and several micro-steps they are two: a test of the test above.
Test(stage, the_two_sums_differ_where_inputs_round)
{
    struct train_result first, second;
    demand(&(struct variant){1, 3, DTYPE_FP32, 4, {EXECUTOR_SERIAL, 0}, 997, "linear", 2, NULL}, &first);
    demand(&(struct variant){2, 3, DTYPE_FP32, 4, {EXECUTOR_SERIAL, 0}, 997, "linear", 2, NULL}, &second);
    cr_assert_str_neq(first.digest, second.digest);
}

Test(stage, a_run_repeats_itself)
{
    struct train_result first, second;
    demand(&(struct variant){3, 4, DTYPE_BF16, 2, {EXECUTOR_OVERLAP, 0}, 997, "gpt-nano", 4, NULL}, &first);
    demand(&(struct variant){3, 4, DTYPE_BF16, 2, {EXECUTOR_OVERLAP, 0}, 5000, "gpt-nano", 4, NULL}, &second);
    cr_assert_str_eq(first.digest, second.digest);
    cr_assert_eq(memcmp(&first.loss, &second.loss, sizeof first.loss), 0);
}

static void scattered(struct config *config)
{
    config->contiguous_gradients = false;
}

static void wide_communication(struct config *config)
{
    config->communication_dtype = DTYPE_FP32;
}

static void narrow_sum(struct config *config)
{
    config->accumulation_dtype = config->precision;
}

static void narrow_communication(struct config *config)
{
    config->communication_dtype = DTYPE_BF16;
}

Test(stage, dtypes_of_communication_and_sum)
{
    void (*const changes[])(struct config *) = {scattered, wide_communication, narrow_sum};
    struct train_result result;
    for (int stage = 0; stage < 4; stage++)
        for (int c = 0; c < COUNT(changes); c++)
            for (size_t accumulation = 1; accumulation <= 3; accumulation += 2)
                for (int world = 2; world <= 3; world++) {
                    const struct executor_schedule schedule = {EXECUTOR_CHAOS, (uint64_t)c};
                    const struct variant v = {stage, world,    DTYPE_BF16, accumulation, schedule,
                                              997,   "linear", 3,          changes[c]};
                    demand(&v, &result);
                }
    for (int stage = 0; stage < 4; stage++)
        demand(
            &(struct variant){stage, 3, DTYPE_FP32, 3, {EXECUTOR_OVERLAP, 0}, 997, "linear", 3, narrow_communication},
            &result);
}

static void some_persistent(struct config *config)
{
    config->param_persistence_threshold = 64;
    config->model_persistence_threshold = 150;
}

static void all_persistent(struct config *config)
{
    config->param_persistence_threshold = 100000000;
}

static void no_prefetch(struct config *config)
{
    config->prefetch_bucket_size = 0;
}

static void keep_near(struct config *config)
{
    config->max_reuse_distance = 1;
}

static void keep_some(struct config *config)
{
    config->max_reuse_distance = 3000;
    config->max_live_parameters = 12000;
}

static void keep_all(struct config *config)
{
    config->max_reuse_distance = 1000000000;
}

// Knobs of memory and speed change no bit, and the bytes equal the formula's.
Test(stage, zero3_knobs_change_no_bit)
{
    void (*const changes[])(struct config *) = {some_persistent, all_persistent, no_prefetch,
                                                keep_near,       keep_some,      keep_all};
    static const char *const models[] = {"linear", "gpt-nano"};
    for (int m = 0; m < COUNT(models); m++)
        for (size_t accumulation = 1; accumulation <= 2; accumulation++) {
            struct train_result plain;
            struct variant v = {3, 3, DTYPE_BF16, accumulation, {EXECUTOR_OVERLAP, 0}, 997, models[m], 3, NULL};
            demand(&v, &plain);
            for (int c = 0; c < COUNT(changes); c++)
                for (int s = 1; s < 3; s++) {
                    struct train_result result;
                    v.change = changes[c];
                    v.schedule = schedules[s];
                    demand(&v, &result);
                    cr_assert_str_eq(result.digest, plain.digest, "%s, change %d", models[m], c);
                }
        }
}

Test(stage, kept_layers_are_not_gathered_again)
{
    struct train_result plain, kept;
    struct variant v = {3, 2, DTYPE_FP32, 1, {EXECUTOR_OVERLAP, 0}, 997, "gpt-nano", 2, NULL};
    demand(&v, &plain);
    v.change = keep_all;
    demand(&v, &kept);
    uint64_t reduced = plain.moved_bytes[LANE_COLLECTIVE][OPERATION_REDUCE_SCATTER];
    // Psi for the reductions; two gathers of everything (three of the tied embedding's four uses more) against one.
    cr_assert_gt(plain.moved_bytes[LANE_COLLECTIVE][OPERATION_ALL_GATHER], 2 * reduced);
    cr_assert_lt(kept.moved_bytes[LANE_COLLECTIVE][OPERATION_ALL_GATHER], reduced + reduced / 4);
}

// Infinite and NaN gradients: the step is skipped everywhere, moves nothing but the scale, and does not advance t.
Test(stage, overflow_skips_the_step_on_all_ranks)
{
    for (int stage = 0; stage < 4; stage++)
        for (int p = 1; p < COUNT(precisions); p++)
            for (int world = 1; world <= 3; world++)
                for (size_t accumulation = 1; accumulation <= 2; accumulation++) {
                    struct train_result result;
                    const struct executor_schedule schedule = {EXECUTOR_CHAOS, 9};
                    const struct variant v = {
                        stage, world, precisions[p], accumulation, schedule, 997, "linear-overflow", 8, NULL};
                    demand(&v, &result);
                    // Step 3 on rank 0, step 6 on rank 1 where there is one.
                    cr_assert_eq(result.skipped_steps, world == 1 ? 1 : 2, "world %d skipped %d", world,
                                 (int)result.skipped_steps);
                }
}

static void clip_hard(struct config *config)
{
    config->gradient_clipping = 1e-3;
}

static void clip_hard_as_torch(struct config *config)
{
    config->gradient_clipping = 1e-3;
    config->clip_form = CLIP_TORCH;
}

static void clip_never(struct config *config)
{
    config->gradient_clipping = 1e9;
}

static void clip_off(struct config *config)
{
    config->gradient_clipping = 0;
}

Test(stage, clipping_at_every_stage)
{
    for (int stage = 0; stage < 4; stage++) {
        struct train_result hard, torch, never, off;
        struct variant v = {stage, 3, DTYPE_FP32, 2, {EXECUTOR_OVERLAP, 0}, 997, "gpt-nano", 3, clip_hard};
        demand(&v, &hard);
        v.change = clip_hard_as_torch;
        demand(&v, &torch);
        v.change = clip_never;
        demand(&v, &never);
        v.change = clip_off;
        demand(&v, &off);
        cr_assert_str_neq(hard.digest, off.digest);
        cr_assert_str_eq(never.digest, off.digest);
    }
}

static const char *recipe_under_test;
static bool decoupled_under_test;

static void use_recipe(struct config *config)
{
    snprintf(config->recipe, sizeof config->recipe, "%s", recipe_under_test);
    config->adam.decoupled = decoupled_under_test;
}

// Recipes whose tail differs from their body are cut as well as any: the position in the tensor decides.
Test(stage, every_recipe_survives_every_cut)
{
    for (int i = 0; recipe_at(i); i++)
        for (int decoupled = 0; decoupled < 2; decoupled++) {
            char digest[33] = "";
            for (int stage = 0; stage < 4; stage++) {
                struct train_result result;
                recipe_under_test = recipe_name(recipe_at(i));
                decoupled_under_test = decoupled;
                demand(&(struct variant){stage, 3, DTYPE_FP32, 1, {EXECUTOR_OVERLAP, 0}, 997, "linear", 4, use_recipe},
                       &result);
                if (stage == 0)
                    memcpy(digest, result.digest, sizeof digest);
                cr_assert_str_eq(result.digest, digest, "%s, stage %d", recipe_under_test, stage);
            }
        }
}

Test(stage, a_budget_refuses_on_every_rank)
{
    struct config config = config_of(&(struct variant){.stage = 1, .world = 4, .accumulation = 1, .bucket = 1000});
    struct train_setting setting = {
        .config = &config, .world = 4, .steps = 1, .device_memory_bytes = 40000, .schedule = {EXECUTOR_OVERLAP, 0}};
    cr_assert_eq(model_find("linear", &setting.model), ERR_NONE);
    struct train_result result;
    cr_assert_eq(train_run(&setting, &result), ERR_BUDGET);
    cr_assert(strstr(err_message(), "rank"), "%s", err_message());
    free(result.step_ns);
}

Test(stage, the_loss_falls_on_text)
{
    struct train_result result;
    struct variant v = {3, 2, DTYPE_BF16, 1, {EXECUTOR_OVERLAP, 0}, 5000, "gpt-nano", 60, NULL};
    demand(&v, &result);
    cr_assert_lt(result.loss, result.first_loss - 0.5, "%f to %f", result.first_loss, result.loss);
}
