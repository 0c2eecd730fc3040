// SPDX-License-Identifier: Apache-2.0
// Training in pipelines: with both schedules, every stage of ZeRO that a pipeline allows, tier, dtype, accumulation and
// executor, every bit is unsharded Adam's, the bytes held and sent are the formulas', and the digest equals
// that of data parallelism without a pipeline.
#include "ref/train/mesh_test.h"

static const char MODEL[] = "gpt:layers=4,width=16,heads=2,length=16,vocabulary=256";

// Stages of the pipeline, shards, replicas.
static const int meshes[][3] = {{2, 1, 1}, {4, 1, 1}, {2, 2, 1}, {2, 3, 1}, {4, 2, 1}, {2, 2, 2}, {2, 1, 2}};

static struct offload_trial trial_of(int number, int stage)
{
    const int *mesh = meshes[number % 7];
    struct offload_trial trial =
        OFFLOAD_TRIAL(.model = MODEL, .stage = stage, .accumulation = 1 + (size_t)(number * 3) % 5, .steps = 2);
    trial.pipeline = mesh[0];
    // Stage 0 partitions nothing: its ranks of data parallelism are replicas.
    trial.replicas = stage == 0 ? mesh[1] * mesh[2] : mesh[2];
    trial.world = mesh[0] * mesh[1] * mesh[2];
    trial.gpipe = number % 2;
    trial.schedule = schedules[number % 4];
    set_dtypes(&trial, dtypes[number % 5]);
    trial.bucket = number % 3 ? 5000 : 64;
    trial.overlap_comm = number % 4 < 2;
    trial.contiguous = number % 3 != 0;
    trial.clip = number % 2 ? 0.05 : 0;
    trial.checkpointing = number % 3 == 1;
    trial.tiles = number % 6 == 2 ? 2 : 1;
    return trial;
}

enum { TRIALS = SANITIZED ? 6 : 21 };

Test(pipeline_train, both_stages_concurrent_in_pipelines_are_unsharded_adam)
{
    demand_trials(trial_of, 0, 1, TRIALS);
}

Test(pipeline_train, offloaded_states_in_pipelines_are_unsharded_adams)
{
    static const enum ledger_tier tiers[][3] = {
        // optimizer, gradient, activation checkpoints
        {TIER_HOST, TIER_HOST, TIER_DEVICE},
        {TIER_HOST, TIER_HOST, TIER_HOST},
        {TIER_DEVICE, TIER_DEVICE, TIER_NVME},
    };
    for (int number = 0; number < 9; number++) {
        struct offload_trial trial = trial_of(number * 4 + 1, 1);
        trial.optimizer = tiers[number % 3][0];
        trial.gradient = tiers[number % 3][1];
        trial.activation = tiers[number % 3][2];
        trial.checkpointing = true;
        trial.delay = number % 3 == 0 && number % 2 ? 2 : 0;
        trial.speculative = !trial.delay && trial.optimizer != TIER_DEVICE;
        trial.steps = 3;
        offload_demand(&trial);
    }
}

// fp16 with a loss scale so high that steps overflow, in one stage of the pipeline or the other.
Test(pipeline_train, an_overflow_anywhere_skips_the_step_everywhere)
{
    struct offload_trial trial = trial_of(3, 1);
    trial.pipeline = 2;
    trial.world = 4;
    trial.replicas = 1;
    trial.schedule = schedules[0];
    expect_overflow(trial, 16);
}

Test(pipeline_train, the_digest_is_that_of_the_same_data_ranks_without_a_pipeline)
{
    char pipeline[FILE_DIGEST_BYTES], plain[FILE_DIGEST_BYTES];
    for (int stage = 0; stage <= 1; stage++)
        for (int dtype = 0; dtype < 5; dtype++) {
            struct offload_trial one = OFFLOAD_TRIAL(.model = MODEL, .stage = stage, .world = 2, .accumulation = 3);
            set_dtypes(&one, dtypes[dtype]);
            digest_of(one, plain);
            for (int stages = 2; stages <= 4; stages += 2) {
                struct offload_trial trial = one;
                trial.pipeline = stages;
                trial.replicas = stage == 0 ? 2 : 1;
                trial.world = 2 * stages;
                trial.gpipe = stages == 4;
                cr_expect_str_eq(digest_of(trial, pipeline), plain, "%s", offload_name(&trial));
            }
        }
}

// Of one GPT with frozen weights the ends share no gradient.
Test(pipeline_train, adapters_in_a_pipeline_are_unsharded_adams)
{
    struct offload_trial trial = trial_of(2, 1);
    trial.model = "gpt-nano:rank=4";
    trial.tiles = 1;
    offload_demand(&trial);
}

Test(pipeline_train, what_a_pipeline_cannot_do_is_refused_with_the_reason)
{
    const struct train_setting setting = {.verify = true};
    struct offload_trial trial = trial_of(0, 2);
    offload_expect_refusal(&trial, setting, "has pipeline=2 and zero_optimization.stage is 2, expected stage 0 or 1");
    trial = trial_of(0, 1);
    trial.model = "gpt:layers=3,width=16,heads=2,length=16,vocabulary=256";
    offload_expect_refusal(&trial, setting, "pipeline=2 does not divide the model's 3 layers");
    trial.model = "linear";
    offload_expect_refusal(&trial, setting, "cannot be cut");
}

// A run in one pipeline, saved, and continued in another or in none: the bits of a run without interruption.
Test(pipeline_train, checkpoints_continue_in_any_other_pipeline)
{
    static const char *const meshes_of[] = {"--mesh pipeline=2,shard=2", "--mesh shard=2", "--mesh pipeline=4,shard=2"};
    static const char words[] =
        "--preset zero1 --verify --model gpt:layers=4,width=16,heads=2,length=16,vocabulary=256 "
        "--set gradient_accumulation_steps=3 --set zerogauge.delayed_update.start_step=2 "
        "--set zero_optimization.offload_optimizer.device=cpu";
    char command[512], whole[33];
    snprintf(command, sizeof command, "%s --mesh shard=2 --steps 4", words);
    train_digest(command, whole);
    for (int from = 0; from < 3; from++)
        expect_continuation(words, meshes_of[from], meshes_of[(from + 1) % 3], whole);
}

Test(pipeline_train, processes_have_the_bits_of_threads_in_a_pipeline)
{
    MPI_OR_SKIP();
    expect_processes_as_threads("--preset zero1 --mesh pipeline=2,shard=2 --model gpt-nano --steps 3 "
                                "--set gradient_accumulation_steps=4");
    expect_processes_as_threads("--preset zero1 --mesh pipeline=2,shard=2 --model gpt-nano --steps 2 "
                                "--set gradient_accumulation_steps=3 --set zerogauge.pipeline_schedule=gpipe "
                                "--schedule chaos:3");
}
