// SPDX-License-Identifier: Apache-2.0
// A run that continues from a checkpoint, with another stage, world or bucket size, has the bits of an uninterrupted
// run.
#include "ref/checkpoint/checkpoint_test.h"

TestSuite(checkpoint, .init = folder_setup, .fini = folder_teardown);

// Saves at step `at`, continues as `then` up to `steps`, and expects the digest of the uninterrupted run.
static void stop_and_go_on(struct trial first, struct trial then, uint64_t at, const char *digest)
{
    uint64_t steps = first.steps;
    first.steps = at;
    first.save = folder;
    first.verify = false;
    trial_pass(&first);
    then.steps = steps;
    then.resume = folder;
    then.verify = true;
    struct train_result result = trial_pass(&then);
    cr_assert_eq(result.resumed_step, at);
    cr_assert_eq(result.steps, steps);
    cr_assert_str_eq(result.digest, digest, "%s, stage %d to %d, world %d, %s, accumulation %zu, stopped at %d",
                     first.model ? first.model : "linear", first.stage, then.stage, first.world,
                     dtype_name(first.precision), first.accumulation, (int)at);
    folder_remove(folder);
    cr_assert_eq(mkdir(folder, 0777), 0);
}

// True if the two stages sum gradients in the same order.
static bool alike(const struct trial *a, const struct trial *b)
{
    return a->accumulation <= 1 || (a->stage < 2) == (b->stage < 2);
}

static void every_stage_to_every_stage(struct trial trial, uint64_t at)
{
    for (trial.world = 1; trial.world <= 4; trial.world++)
        for (trial.stage = 0; trial.stage < 4; trial.stage++) {
            struct train_result whole = trial_pass(&trial);
            struct trial then = trial;
            then.bucket = trial.bucket == 64 ? 3000 : 64;
            then.schedule.mode = EXECUTOR_OVERLAP;
            for (then.stage = 0; then.stage < 4; then.stage++)
                if (alike(&trial, &then))
                    stop_and_go_on(trial, then, at, whole.digest);
        }
}

Test(checkpoint, every_stage_continues_from_every_stage_concurrent)
{
    every_stage_to_every_stage((struct trial){.steps = 4}, 2);
}

// linear-overflow: steps 3, 6, 9 overflow, so that the loss scale, its hysteresis and the skipped steps matter.
Test(checkpoint, a_changing_loss_scale_continues)
{
    every_stage_to_every_stage(
        (struct trial){.model = "linear-overflow", .precision = DTYPE_FP16, .accumulation = 3, .steps = 8}, 4);
}

Test(checkpoint, bf16_keeps_its_master_weights)
{
    every_stage_to_every_stage((struct trial){.precision = DTYPE_BF16, .steps = 5, .bucket = 64}, 3);
}

Test(checkpoint, a_gpt_continues_with_its_data)
{
    struct trial trial = {.model = "gpt-nano", .steps = 5, .precision = DTYPE_BF16};
    for (trial.world = 2; trial.world <= 3; trial.world++) {
        trial.stage = trial.world;
        struct train_result whole = trial_pass(&trial);
        struct trial then = trial;
        then.stage = 3 - trial.stage;
        then.schedule = (struct executor_schedule){EXECUTOR_CHAOS, 5};
        stop_and_go_on(trial, then, 3, whole.digest);
    }
}

// DeepSpeed's recipes carry powers of beta in fp32, which differ from the results of pow.
// The loss scale changes by powers of two, which do not change these models' gradients, so the test compares it
// directly. With a window of 2 it grows between two overflows; with 5 it never grows, and sinks when the hysteresis is
// used up.
static void window_of_2(struct config *config)
{
    config->loss_scale.window = 2;
}

static void window_of_5(struct config *config)
{
    config->loss_scale.window = 5;
    config->loss_scale.hysteresis = 3;
}

static void keep_scale(void *context, const struct train_progress *progress)
{
    *(double *)context = progress->scale;
}

static void stop_at_every_step(void (*change)(struct config *config))
{
    double whole_scale = 0, scale = 0;
    struct trial trial = {.model = "linear-overflow",
                          .recipe = "deepspeed-cpu-gcc-avx512",
                          .stage = 2,
                          .world = 3,
                          .precision = DTYPE_FP16,
                          .steps = 20,
                          .change = change,
                          .progress = keep_scale,
                          .progress_context = &whole_scale};
    struct train_result whole = trial_pass(&trial);
    cr_assert_neq(whole_scale, 1024.0);
    trial.progress_context = &scale;
    for (uint64_t at = 1; at < trial.steps; at++) {
        struct trial then = trial;
        then.stage = 3;
        stop_and_go_on(trial, then, at, whole.digest);
        cr_assert_eq(scale, whole_scale, "stopped at %d: %g, not %g", (int)at, scale, whole_scale);
    }
}

Test(checkpoint, a_run_can_stop_at_every_step_of_a_growing_loss_scale)
{
    stop_at_every_step(window_of_2);
}
Test(checkpoint, a_run_can_stop_at_every_step_of_a_sinking_loss_scale)
{
    stop_at_every_step(window_of_5);
}

static void delay(struct config *config)
{
    config->delayed_update_start_step = 3;
    config->offload_optimizer.tier = TIER_HOST;
    config->offload_optimizer.ratio = 1.0;
    config->offload_optimizer.buffer_count = 8;
    config->gradient_tier = TIER_HOST;
    config->sub_group_size = 700;
}

// From step 3 on the model uses parameters one update older than the optimizer's.
Test(checkpoint, a_waiting_update_keeps_waiting)
{
    for (int precision = 0; precision < 3; precision++)
        for (uint64_t at = 1; at < 7; at++) {
            struct trial trial = {.model = "gpt-nano",
                                  .stage = 3,
                                  .world = 2,
                                  .change = delay,
                                  .steps = 7,
                                  .precision = (enum dtype)precision};
            struct train_result whole = trial_pass(&trial);
            struct trial then = trial;
            then.stage = 1 + (int)(at % 3);
            stop_and_go_on(trial, then, at, whole.digest);
        }
}

static void to_host(struct config *config)
{
    config->offload_optimizer = (struct config_offload_optimizer){.tier = TIER_HOST, .buffer_count = 8, .ratio = 1.0};
    config->gradient_tier = TIER_HOST;
    config->sub_group_size = 700;
}

static void to_nvme(struct config *config)
{
    to_host(config);
    config->offload_optimizer.tier = config->gradient_tier = TIER_NVME;
    config->offload_optimizer.pipeline_read = config->offload_optimizer.pipeline_write = true;
    config->offload_param = (struct config_offload_param){.tier = TIER_NVME, .buffer_count = 8, .buffer_size = 20000};
    config->aio =
        (struct nvme_aio){.block_bytes = 4096, .queue_depth = 4, .intra_op_parallelism = 1, .engine = NVME_LIBAIO};
    snprintf(config->nvme_paths[0], sizeof config->nvme_paths[0], "%s", "/tmp");
    config->nvme_path_count = 1;
}

static void in_memory(struct config *config)
{
    (void)config;
}

Test(checkpoint, every_tier_continues_from_every_tier)
{
    void (*const tiers[])(struct config * config) = {in_memory, to_host, to_nvme};
    for (int precision = 0; precision < 2; precision++)
        for (int from = 0; from < 3; from++) {
            struct trial trial = {.model = "linear-overflow",
                                  .stage = 3,
                                  .world = 3,
                                  .change = tiers[from],
                                  .precision = precision ? DTYPE_FP16 : DTYPE_FP32,
                                  .steps = 5};
            struct train_result whole = trial_pass(&trial);
            for (int to = 0; to < 3; to++) {
                struct trial then = trial;
                then.change = tiers[to];
                then.bucket = 200;
                stop_and_go_on(trial, then, 3, whole.digest);
            }
        }
}

Test(checkpoint, fewer_elements_than_ranks_are_enough)
{
    every_stage_to_every_stage((struct trial){.model = "linear-few", .steps = 3}, 1);
}

Test(checkpoint, frequent_stops_change_no_bit)
{
    struct trial trial = {.stage = 1, .world = 2, .precision = DTYPE_FP16, .accumulation = 3, .steps = 9};
    struct train_result whole = trial_pass(&trial), last = {0};
    trial.checkpoint = folder;
    trial.every = 2;
    for (trial.steps = 1; trial.steps <= 9; trial.steps++) {
        trial.stage = !trial.stage;
        trial.verify = trial.steps == 9;
        last = trial_pass(&trial);
        cr_assert_eq(last.resumed_step, trial.steps - 1);
        cr_assert_eq(last.saved_step, trial.steps);
    }
    cr_assert_str_eq(last.digest, whole.digest);
    // A second run has no step left.
    trial.steps = 9;
    last = trial_pass(&trial);
    cr_assert_eq(last.resumed_step, 9);
    cr_assert_eq(last.saved_step, 0);
    cr_assert_str_eq(last.digest, whole.digest);
    uint64_t *steps;
    size_t count;
    cr_assert_eq(checkpoint_list(folder, &steps, &count), ERR_NONE);
    cr_assert_eq(count, 2);
    cr_assert(steps[0] == 9 && steps[1] == 8);
    free(steps);
}

// Another number of ranks sums in another order, so the following steps have other bits; but the states keep every bit,
// and the following steps do not depend on how they are partitioned.
Test(checkpoint, every_world_continues_from_every_world_concurrent)
{
    for (int from = 1; from <= 4; from++)
        for (int stage = 0; stage < 4; stage++) {
            struct trial trial = {.model = "linear-overflow",
                                  .stage = stage,
                                  .world = from,
                                  .precision = DTYPE_FP16,
                                  .accumulation = 3,
                                  .steps = 4,
                                  .save = folder};
            struct train_result saved = trial_pass(&trial);
            for (int to = 1; to <= 4; to++) {
                char digests[4][33];
                for (int then = 0; then < 4; then++) {
                    struct trial loaded = trial;
                    loaded.save = NULL;
                    loaded.resume = folder;
                    loaded.stage = then;
                    loaded.world = to;
                    loaded.bucket = 64;
                    struct train_result result = trial_pass(&loaded);
                    cr_assert_eq(result.steps, 4);
                    cr_assert_eq(result.skipped_steps, saved.skipped_steps);
                    cr_assert_str_eq(result.digest, saved.digest, "world %d to %d, stage %d to %d", from, to, stage,
                                     then);
                    loaded.steps = to == from % 4 + 1 ? 7 : 4;
                    strcpy(digests[then], loaded.steps == 7 ? trial_pass(&loaded).digest : "");
                }
                cr_assert_str_eq(digests[0], digests[1], "world %d to %d, from stage %d", from, to, stage);
                cr_assert_str_eq(digests[2], digests[3], "world %d to %d, from stage %d", from, to, stage);
            }
            folder_remove(folder);
            cr_assert_eq(mkdir(folder, 0777), 0);
        }
}

static void lower_rate(struct config *config)
{
    config->adam.lr = 5e-4;
}

static void other_scale(struct config *config)
{
    config->loss_scale.static_scale = 2;
}

Test(checkpoint, differences_are_refused_or_noted)
{
    struct trial trial = {.stage = 1, .world = 2, .steps = 2, .save = folder, .accumulation = 3};
    trial_pass(&trial);
    trial.save = NULL;
    trial.resume = folder;
    trial.steps = 3;
    static const struct {
        struct trial change;
        int rc;
        const char *words;
    } cases[] = {
        {{.model = "linear-exact"}, ERR_USAGE, "linear-exact"},
        {{.model = "linear-few"}, ERR_USAGE, "linear-few"},
        {{.precision = DTYPE_BF16}, ERR_USAGE, "precision"},
        {{.recipe = "deepspeed-cpu-gcc-avx512"}, ERR_USAGE, "recipe"},
        {{.accumulation = 1}, ERR_USAGE, "train_batch_size"},
        {{.change = other_scale}, ERR_USAGE, "loss_scale"},
        {{.steps = 1}, ERR_USAGE, "--steps 1"},
        {{.change = lower_rate}, ERR_NONE, "lr was 0.001"},
        {{.change = lower_rate, .verify = true}, ERR_USAGE, "--verify"},
        {{.world = 3}, ERR_NONE, "world was 2 until step 2 and is 3"},
        {{.world = 3, .verify = true}, ERR_USAGE, "--verify"},
        {{.stage = 2}, ERR_NONE, "gradient_sum was over micro-steps, then over ranks"},
        {{.verify = true}, ERR_NONE, "step-00000002"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct trial *change = &cases[i].change;
        struct trial then = trial;
        then.model = change->model ? change->model : then.model;
        then.recipe = change->recipe;
        then.precision = change->precision;
        then.accumulation = change->accumulation ? change->accumulation : then.accumulation;
        then.steps = change->steps ? change->steps : then.steps;
        then.world = change->world ? change->world : then.world;
        then.stage = change->stage ? change->stage : then.stage;
        then.change = change->change;
        then.verify = change->verify;
        struct train_result result;
        char notes[NOTES_BYTES];
        cr_assert_eq(trial_run(&then, &result, notes), cases[i].rc, "%s: %s", cases[i].words, err_message());
        cr_assert_not_null(strstr(cases[i].rc == ERR_NONE ? notes : err_message(), cases[i].words), "%s: %s, %s",
                           cases[i].words, notes, err_message());
    }
}

// A run that changed once differs from an unsharded run from step 1, however it continues.
Test(checkpoint, a_change_is_remembered)
{
    struct trial trial = {.stage = 1, .world = 2, .steps = 2, .checkpoint = folder};
    trial_pass(&trial);
    trial.change = lower_rate;
    trial.steps = 3;
    trial_pass(&trial);
    trial.verify = true;
    trial.steps = 4;
    struct train_result result;
    cr_assert_eq(trial_run(&trial, &result, NULL), ERR_USAGE);
    trial.verify = false;
    trial.change = NULL;
    trial_pass(&trial);
    trial.verify = true;
    trial.steps = 5;
    cr_assert_eq(trial_run(&trial, &result, NULL), ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "--verify"));
}

Test(checkpoint, a_folder_belongs_to_one_run)
{
    struct trial trial = {.stage = 1, .world = 2, .steps = 2, .save = folder};
    trial_pass(&trial);
    struct train_result result;
    cr_assert_eq(trial_run(&trial, &result, NULL), ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "step 2 already"), "%s", err_message());
    struct store store;
    cr_assert_eq(store_open(folder, &store), ERR_NONE);
    cr_assert_eq(store.newest, 2);
    trial.save = NULL;
    trial.checkpoint = folder;
    trial.steps = 3;
    cr_assert_eq(trial_run(&trial, &result, NULL), ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "another run"), "%s", err_message());
    store_close(&store);
    trial_pass(&trial);
    trial.checkpoint = "/nonexistent/folder";
    cr_assert_eq(trial_run(&trial, &result, NULL), ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "/nonexistent/folder"));
    trial.checkpoint = NULL;
    trial.resume = "/nonexistent/folder";
    cr_assert_eq(trial_run(&trial, &result, NULL), ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "/nonexistent/folder"));
}
