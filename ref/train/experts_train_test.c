// SPDX-License-Identifier: Apache-2.0
// Training with expert parallelism: on every mesh, stage, tier, dtype, accumulation and schedule, every bit of every
// expert on every rank is unsharded Adam's, and the bytes held and moved are the formulas'.
#include "ref/train/mesh_test.h"

static const char *const models[] = {"gpt-nano:layers=1,experts=4,top=2,capacity=1.25", "gpt-nano:experts=4",
                                     "gpt-nano:layers=1,experts=8,top=2,capacity=0.7",
                                     "gpt-nano:layers=1,experts=4,capacity=0.9"};

static const struct {
    int world, experts;
} meshes[] = {{2, 2}, {4, 2}, {4, 4}, {6, 2}, {4, 1}, {2, 2}, {4, 2}};

static struct offload_trial trial_of(int number, int stage)
{
    const int mesh = number % 7;
    struct offload_trial trial = vary(OFFLOAD_TRIAL(.stage = stage), number);
    trial.world = meshes[mesh].world;
    trial.experts = meshes[mesh].experts;
    trial.bucket = number % 3 ? 5000 : 640;
    trial.checkpointing = number % 5 == 3;
    trial.owner_broadcast = stage == 3 && number % 8 == 5;
    trial.model = models[number / 2 % 4];
    trial.steps = 2;
    return trial;
}

enum { TRIALS = SANITIZED ? 6 : 28 };

Test(experts_train, every_stage_concurrent_has_experts_of_unsharded_adam)
{
    demand_trials(trial_of, 0, 3, TRIALS);
}

Test(experts_train, offloaded_experts_are_unsharded_adams)
{
    for (int number = 0; number < TRIALS / 2; number++) {
        struct offload_trial trial = offloaded(trial_of(number * 5 + 1 + number % 7, offloaded_stage(number)), number);
        trial.owner_broadcast = false;
        trial.delay = number % 6 == 5 ? 2 : 0;
        trial.speculative = !trial.delay && number % 2;
        trial.unchecked = number % 5 == 2;
        trial.activation = trial.checkpointing ? TIER_HOST : TIER_DEVICE;
        offload_demand(&trial);
    }
}

// An expert group of one rank is the plain stage. One of all ranks folds all sources in their order: where sums are not
// rounded in between, that is the plain order, too. Groups between these have an order of their own.
Test(experts_train, groups_of_one_and_of_all_have_the_bits_of_plain_stages)
{
    char digest[FILE_DIGEST_BYTES], plain[FILE_DIGEST_BYTES];
    for (int stage = 0; stage <= 3; stage++)
        for (int dtype = 0; dtype < 2; dtype++) {
            struct offload_trial trial = OFFLOAD_TRIAL(.model = models[dtype], .stage = stage, .world = 4);
            trial.accumulation = stage >= 2 && dtype == 0 ? 2 : 1;
            trial.precision = trial.communication = trial.sum = dtypes[dtype][0];
            digest_of(trial, plain);
            for (int experts = 1; experts <= 4; experts *= 2) {
                trial.experts = experts;
                digest_of(trial, digest);
                cr_expect((strcmp(digest, plain) == 0) == (experts != 2), "expert=%d: %s, plain %s, %s", experts,
                          digest, plain, offload_name(&trial));
            }
        }
}

// A run on one mesh, saved, and continued on another. Two ranks, where every mesh has the plain order.
Test(experts_train, checkpoints_continue_on_any_other_mesh)
{
    static const char *const meshes_of[] = {"shard=2", "shard=2,expert=2"};
    static const char words[] = "--model gpt-nano:experts=4,top=2 --set bf16.enabled=false";
    char first[256], second[256], whole[33];
    snprintf(first, sizeof first, "%s --preset zero2 --world 2 --steps 4", words);
    train_digest(first, whole);
    for (int from = 0; from < 2; from++)
        for (int to = 0; to < 2; to++)
            for (int stage = 1; stage <= 3; stage += 2) {
                snprintf(first, sizeof first, "--preset zero%d --mesh %s", stage, meshes_of[from]);
                snprintf(second, sizeof second, "--preset zero%d --mesh %s", 4 - stage, meshes_of[to]);
                expect_continuation(words, first, second, whole);
            }
}

Test(experts_train, processes_have_the_bits_of_threads)
{
    MPI_OR_SKIP();
    expect_processes_as_threads("--preset zero3 --mesh shard=4,expert=2 --model gpt-nano:experts=4,top=2 --steps 3 "
                                "--schedule chaos:3");
    expect_processes_as_threads("--preset zero2 --mesh shard=4,expert=4 --model gpt-nano:experts=4 --steps 2 "
                                "--set gradient_accumulation_steps=2");
}

// An expert that overflows on one rank stops the step of all. 2^40 overflows any gradient in fp16, 2^14 none.
Test(experts_train, an_overflow_skips_the_step_on_every_rank)
{
    static char output[1 << 14];
    for (int stage = 0; stage <= 3; stage++)
        for (int power = 14; power <= 40; power += 26) {
            char command[1024];
            snprintf(command, sizeof command,
                     "'%s/zerogauge' train --preset zero%d --mesh %s=4,expert=4 --model gpt-nano:experts=4,top=2 "
                     "--steps 3 --set bf16.enabled=false --set fp16.enabled=true --set fp16.initial_scale_power=%d "
                     "--set fp16.hysteresis=1 --verify --json 2>&1",
                     ZG_BINARY_DIR, stage, stage ? "shard" : "replicate", power);
            cr_assert_eq(command_run(command, output, sizeof output), 0, "%s: %s", command, output);
            cr_expect(strstr(output, power == 14 ? "\"skipped_steps\":0" : "\"skipped_steps\":3"), "%s", output);
        }
}

Test(experts_train, a_mesh_that_does_not_fit_is_refused_with_its_reason)
{
    expect_refusal("--preset zero3 --mesh shard=3,expert=3 --model gpt-nano:experts=4",
                   "expert=3 does not divide the model's 4 experts");
    expect_refusal("--preset zero3 --mesh shard=2,expert=2 --model gpt-nano",
                   "the model has no experts that expert=2 could cut");
    expect_refusal("--preset zero3 --mesh shard=4,expert=3 --model gpt-nano:experts=3",
                   "expert=3 does not divide the 4 ranks of data");
    expect_refusal("--preset zero3 --mesh replicate=2,shard=2,expert=4 --model gpt-nano:experts=4",
                   "has expert=4 beside replicate=2 and shard=2");
    expect_refusal("--preset zero3 --mesh shard=4,expert=2 --model gpt-nano:experts=4 "
                   "--set zero_optimization.zero_hpz_partition_size=2",
                   "is 2 beside a mesh with expert=2");
    expect_refusal("--preset zero3 --mesh shard=4,expert=2 --model gpt-nano:experts=4 "
                   "--set zerogauge.reduction_group=2",
                   "is 2 beside a mesh with expert=2");
}
