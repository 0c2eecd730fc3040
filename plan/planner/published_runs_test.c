// SPDX-License-Identifier: Apache-2.0
// Published runs: what was done is not said to be impossible, what failed is not said to fit, and sources to which
// nothing is fitted are predicted well.
#include "plan/planner/published.h"

#include "base/err.h"
#include "base/folder_test.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(published, .init = folder_enter, .fini = folder_leave);

enum { SIDE_COUNT = 2 };

struct runs {
    struct published_errors errors[SIDE_COUNT];  // fitted, held out
    size_t count, beyond_count, done_count, failed_count, held_out_sources;
    const char *held_out;  // the last of these sources
};

static void note_error(struct runs *runs, const struct published_row *row, double predicted, double published)
{
    struct published_errors *errors = &runs->errors[row->held_out];
    errors->list[errors->count++] = fabs(predicted / published - 1);
}

static int note_speed(const struct published_row *row, void *context)
{
    struct runs *runs = context;
    runs->count++;
    runs->beyond_count += *row->beyond != 0;
    if (*row->beyond)
        return ERR_NONE;
    cr_expect_neq(row->plan.verdict, PLAN_DOES_NOT_FIT, "%s: %g GiB", row->name,
                  (double)row->plan.needed_bytes[TIER_DEVICE] / (1 << 30));
    if (row->held_out && runs->held_out != row->source) {
        runs->held_out_sources++;
        runs->held_out = row->source;
    }
    note_error(runs, row, (double)row->plan.tokens / row->plan.step_s / row->world, row->tokens_per_s);
    return ERR_NONE;
}

static int note_memory(const struct published_row *row, void *context)
{
    struct runs *runs = context;
    runs->count++;
    runs->beyond_count += *row->beyond != 0;
    if (*row->beyond)
        return ERR_NONE;
    bool failed = row->memory == MEMORY_FAILED;
    *(failed ? &runs->failed_count : &runs->done_count) += 1;
    cr_expect_neq(row->plan.verdict, failed ? PLAN_FITS : PLAN_DOES_NOT_FIT, "%s: %s", row->source, row->name);
    if (row->peak_gib > 0)
        note_error(runs, row, published_predicted_gib(row), row->peak_gib);
    return ERR_NONE;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// The error that this part of the runs does not exceed.
static double error_at(struct published_errors *errors, double part)
{
    qsort(errors->list, errors->count, sizeof errors->list[0], compare);
    return errors->list[(size_t)((double)(errors->count - 1) * part)];
}

Test(published, speeds_of_held_out_sources_have_a_median_error_of_at_most_a_tenth)
{
    static struct runs runs;
    cr_assert_eq(published_each(plan_throughput_texts, NULL, note_speed, &runs), ERR_NONE, "%s", err_message());
    cr_expect_geq(runs.count, 250);
    cr_expect_geq(runs.beyond_count, 4);
    cr_expect_geq(runs.held_out_sources, 6);
    cr_expect_geq(runs.errors[1].count, 30);
    for (int side = 0; side < SIDE_COUNT; side++) {
        cr_expect_leq(error_at(&runs.errors[side], 0.5), 0.1);
        cr_expect_leq(error_at(&runs.errors[side], 0.9), 0.25);
    }
}

Test(published, memory_of_held_out_sources_has_a_median_error_of_at_most_eight_percent)
{
    static struct runs runs;
    cr_assert_eq(published_each(plan_memory_texts, NULL, note_memory, &runs), ERR_NONE, "%s", err_message());
    cr_expect_geq(runs.count, 150);
    cr_expect_geq(runs.done_count, 100);
    cr_expect_geq(runs.failed_count, 15);
    for (int side = 0; side < SIDE_COUNT; side++) {
        cr_assert_geq(runs.errors[side].count, 35);
        cr_expect_leq(error_at(&runs.errors[side], 0.5), 0.08);
    }
}

Test(published, unknown_sources_and_words_are_refused)
{
    static const struct {
        const char *key, *value, *message;
    } cases[] = {
        {"framework", "jax", "--framework jax: expected one of deepspeed, fsdp2, hf, torchtune, megatron"},
        {"logits", "none", "--logits none: expected one of hf, shifted, fp32, 16bit, chunked, fused"},
        {"weights", "int4", "--weights int4: expected one of mixed, 16bit, nf4"},
        {"moments", "4bit", "--moments 4bit: expected one of weights, 8bit"},
        {"memory", "peak", "expected allocated, reserved, device, fitted or failed"},
        {"memory", "allocated\", \"peak_gib\": 0, \"logits\": \"fp32", "peak_gib: is 0, expected more than 0"}};
    static struct runs runs;
    cr_expect_eq(published_each(plan_throughput_texts, "nobody", note_speed, &runs), ERR_USAGE);
    cr_expect(strstr(err_message(), "nobody"), "%s", err_message());
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        FILE *file = fopen("own.json", "w");
        fprintf(
            file,
            "{\"source\": \"mine\", \"set\": [], \"rows\": [{\"row\": \"one\", \"model\": \"llama-8b\", \"machine\": "
            "\"dgx-h100\", \"world\": 8, \"sequence_length\": 512, \"micro_batch\": 1, \"accumulation\": 1, "
            "\"stage\": 3, \"checkpointed\": 1, %s\"%s\": \"%s\"}]}",
            strcmp(cases[i].key, "memory") == 0 ? "" : "\"memory\": \"fitted\", ", cases[i].key, cases[i].value);
        fclose(file);
        cr_expect_eq(published_each(plan_memory_texts, "own.json", note_memory, &runs), ERR_USAGE);
        cr_expect(strstr(err_message(), cases[i].message), "%s", err_message());
    }
}
