// SPDX-License-Identifier: Apache-2.0
// For tests of checkpoints: small runs that save, stop and continue.
#pragma once

#include "base/folder_test.h"
#include "ref/config/config_plain_test.h"
#include "ref/train/offload_test.h"
#include "ref/train/train_checkpoint.h"

static char folder[PATH_MAX];

static inline void folder_setup(void)
{
    folder_make(folder);
}

static inline void folder_teardown(void)
{
    folder_remove(folder);
}

struct trial {
    const char *model, *recipe;  // NULL: "linear", "torch-cpu"
    int stage, world;
    enum dtype precision;
    size_t accumulation;  // 0: 1
    size_t bucket;        // 0: 997
    uint64_t steps, every;
    const char *save, *resume, *checkpoint;
    bool async;  // the saves
    struct executor_schedule schedule;
    bool verify;
    const char *inject;
    void (*change)(struct config *config);
    void (*progress)(void *context, const struct train_progress *progress);
    void *progress_context;
};

// Every world of up to 4 ranks has the same samples in each step.
static inline struct config trial_config(const struct trial *t)
{
    size_t accumulation = t->accumulation ? t->accumulation : 1, bucket = t->bucket ? t->bucket : 997;
    struct config config = config_plain(t->stage, t->precision, accumulation, bucket);
    config.train_batch = 12 * accumulation;
    config.micro_batch = 12 / (size_t)t->world;
    config.scheduler.type = SCHEDULER_WARMUP;
    config.scheduler.warmup_max_lr = 1e-2;
    config.scheduler.warmup_num_steps = 10;
    config.scheduler.warmup_linear = true;
    config.param_persistence_threshold = bucket % 3 == 0 ? 100 : 0;
    if (t->recipe)
        snprintf(config.recipe, sizeof config.recipe, "%s", t->recipe);
    config.async_save = t->async;
    if (t->change)
        t->change(&config);
    return config;
}

// notes may be null.
static inline int trial_run(const struct trial *t, struct train_result *result, char *notes)
{
    struct config config = trial_config(t);
    struct train_checkpoints checkpoints;
    struct train_setting setting = {
        .config = &config,
        .world = t->world,
        .steps = t->steps,
        .seed = 7,
        .schedule = t->schedule,
        .threads = 1,
        .buffered = true,
        .swap_checksum = true,
        .verify = t->verify,
        .checkpoints = &checkpoints,
        .progress = t->progress,
        .progress_context = t->progress_context,
    };
    if (t->inject)
        TRY(inject_parse(t->inject, &setting.inject));
    TRY(model_find(t->model ? t->model : "linear", &setting.model));
    static struct text *text;  // for all runs of the process
    if (setting.model->wants_text)
        setting.text = text = text ? text : offload_words();
    const struct train_checkpoint_options options = {
        .save = t->save, .resume = t->resume, .checkpoint = t->checkpoint, .every = t->every};
    char own[NOTES_BYTES];
    *result = (struct train_result){0};
    int rc = train_checkpoints_open(&options, &setting, &checkpoints, notes ? notes : own);
    if (rc == ERR_NONE) {
        rc = train_run(&setting, result);
        free(result->step_ns);
    }
    train_checkpoints_close(&checkpoints);
    return rc;
}

// The same, and expects success: no difference from the oracle if t->verify, and accounting equal to the formulas.
static inline struct train_result trial_pass(const struct trial *t)
{
    struct train_result result;
    int rc = trial_run(t, &result, NULL);
    cr_assert_eq(rc, ERR_NONE, "stage %d, world %d, %s, steps %d: %s", t->stage, t->world, dtype_name(t->precision),
                 (int)t->steps, err_message());
    const struct train_difference *d = &result.difference;
    cr_assert(!d->found, "stage %d, world %d, step %d: %s of %s", t->stage, t->world, (int)d->step, d->state,
              d->tensor);
    char name[128];
    snprintf(name, sizeof name, "stage %d, world %d, from step %d", t->stage, t->world, (int)result.resumed_step + 1);
    offload_demand_accounts(&result, name);
    if (t->verify)
        cr_assert_eq(result.verified_steps, result.steps - result.resumed_step);
    return result;
}

// Saves a checkpoint of linear-few, 3 elements over 2 ranks, in the folder. Returns the checkpoint's own folder, valid
// until the next call.
static inline const char *trial_save_small(void)
{
    static char path[PATH_MAX + 16];
    struct trial trial = {.model = "linear-few",
                          .stage = 2,
                          .world = 2,
                          .precision = DTYPE_FP16,
                          .steps = 3,
                          .recipe = "deepspeed-cpu-scalar",
                          .save = folder};
    trial_pass(&trial);
    snprintf(path, sizeof path, "%s/step-00000003", folder);
    return path;
}
