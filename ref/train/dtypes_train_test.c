// SPDX-License-Identifier: Apache-2.0
// Dtypes of the model, of communication and of accumulation: a configuration either trains, in the bits of unsharded
// Adam, or is refused before anything runs, with the key to change.
#include "ref/train/train.h"

#include "base/err.h"
#include "ref/model/names/model_find.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

enum { WORLD = 2, STEPS = 2 };

static const char *const NAMES[] = {"fp32", "fp16", "bf16"};

static int load(int stage, const char *model, const char *communication, const char *accumulation, struct config *out)
{
    const struct config_options options = {.world = WORLD, .steps = STEPS};
    char text[512];
    int bytes = snprintf(text, sizeof text,
                         "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 2, "
                         "\"%s\": {\"enabled\": %s}, \"zero_optimization\": {\"stage\": %d}, "
                         "\"communication_data_type\": \"%s\", \"data_types\": {\"grad_accum_dtype\": \"%s\"}}",
                         strcmp(model, "fp16") == 0 ? "fp16" : "bf16", strcmp(model, "fp32") == 0 ? "false" : "true",
                         stage, communication, accumulation);
    return config_load_text("drawn.json", text, (size_t)bytes, &options, out, NULL);
}

static void train(const struct config *config, const char *what)
{
    struct train_setting setting = {.config = config,
                                    .world = WORLD,
                                    .steps = STEPS,
                                    .seed = 3,
                                    .threads = 1,
                                    .verify = true,
                                    .schedule = {EXECUTOR_SERIAL, 0}};
    struct train_result result;
    cr_assert_eq(model_find("linear", &setting.model), ERR_NONE);
    int rc = train_run(&setting, &result);
    cr_assert_eq(rc, ERR_NONE, "%s: %s", what, rc ? err_message() : "");
    cr_assert(!result.difference.found && result.verified_steps == STEPS && result.accounting_equal, "%s", what);
    free(result.step_ns);
}

// True if both formats are of 16 bits, and differ.
static bool clash(const char *a, const char *b)
{
    return strcmp(a, b) != 0 && strcmp(a, "fp32") != 0 && strcmp(b, "fp32") != 0;
}

static bool must_be_refused(int stage, const char *model, const char *communication, const char *accumulation)
{
    if (stage == 0 && strcmp(accumulation, model) != 0 && strcmp(accumulation, "fp32") != 0)
        return true;
    if (clash(communication, accumulation))
        return true;
    return stage < 2 ? clash(model, accumulation) : clash(model, communication);
}

static void check(int stage, const char *model, const char *communication, const char *accumulation)
{
    struct config config;
    char what[128];
    snprintf(what, sizeof what, "stage %d, model %s, communication %s, accumulation %s", stage, model, communication,
             accumulation);
    int rc = load(stage, model, communication, accumulation, &config);
    if (!must_be_refused(stage, model, communication, accumulation)) {
        cr_assert_eq(rc, ERR_NONE, "%s: %s", what, rc ? err_message() : "");
        train(&config, what);
        return;
    }
    cr_assert_eq(rc, ERR_USAGE, "%s: code %d", what, rc);
    cr_assert(strstr(err_message(), "communication_data_type") || strstr(err_message(), "grad_accum_dtype"), "%s: %s",
              what, err_message());
    cr_assert(strstr(err_message(), "expected \""), "%s: %s", what, err_message());
}

Test(dtypes_train, every_three_dtypes_train_or_are_refused_by_their_key)
{
    for (int i = 0; i < 4 * 27; i++)
        check(i / 27, NAMES[i / 9 % 3], NAMES[i / 3 % 3], NAMES[i % 3]);
}
