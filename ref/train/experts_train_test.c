// SPDX-License-Identifier: Apache-2.0
// Training with expert parallelism: on every mesh, stage, tier, dtype, accumulation and schedule, every bit of every
// expert on every rank is unsharded Adam's, and the bytes held and moved are the formulas'.
#include "base/folder_test.h"
#include "ref/comm/mpirun_test.h"
#include "ref/train/offload_trial.h"

#include <limits.h>

static const char *const models[] = {"gpt-nano:layers=1,experts=4,top=2,capacity=1.25", "gpt-nano:experts=4",
                                     "gpt-nano:layers=1,experts=8,top=2,capacity=0.7",
                                     "gpt-nano:layers=1,experts=4,capacity=0.9"};

static const struct {
    int world, experts;
} meshes[] = {{2, 2}, {4, 2}, {4, 4}, {6, 2}, {4, 1}, {2, 2}, {4, 2}};

static const struct executor_schedule schedules[] = {
    {EXECUTOR_SERIAL, 0}, {EXECUTOR_OVERLAP, 0}, {EXECUTOR_CHAOS, 1}, {EXECUTOR_CHAOS, 2}};

// Precision, communication and accumulation of gradients.
static const enum dtype dtypes[][3] = {{DTYPE_FP32, DTYPE_FP32, DTYPE_FP32}, {DTYPE_BF16, DTYPE_BF16, DTYPE_BF16},
                                       {DTYPE_BF16, DTYPE_FP32, DTYPE_FP32}, {DTYPE_FP16, DTYPE_FP16, DTYPE_FP32},
                                       {DTYPE_FP32, DTYPE_BF16, DTYPE_FP32}, {DTYPE_BF16, DTYPE_BF16, DTYPE_FP32}};

static struct offload_trial trial_of(int number, int stage)
{
    const int mesh = number % 7, dtype = number % 6;
    struct offload_trial trial = OFFLOAD_TRIAL(.stage = stage, .accumulation = 1 + (size_t)(number / 2) % 3);
    trial.world = meshes[mesh].world;
    trial.experts = meshes[mesh].experts;
    trial.schedule = schedules[number / 3 % 4];
    trial.precision = dtypes[dtype][0];
    trial.communication = dtypes[dtype][1];
    trial.sum = dtypes[dtype][2];
    trial.bucket = number % 3 ? 5000 : 640;
    trial.overlap_comm = number % 4 < 2;
    trial.contiguous = number % 5 != 0;
    trial.clip = number % 2 ? 0.05 : 0;
    trial.persistence = number % 7 == 0 ? 100 : 0;
    trial.checkpointing = number % 5 == 3;
    trial.owner_broadcast = stage == 3 && number % 8 == 5;
    trial.model = models[number / 2 % 4];
    trial.steps = 2;
    return trial;
}

// Sanitizers look at memory and threads, for which fewer trials do.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TRIALS = 6 };
#else
enum { TRIALS = 28 };
#endif

static void expect_unsharded_adam(int stage)
{
    for (int number = 0; number < TRIALS; number++) {
        struct offload_trial trial = trial_of(number, stage);
        struct train_result result;
        offload_demand(&trial, &result);
    }
}

Test(experts_train, data_parallel_concurrent_experts_are_unsharded_adams)
{
    expect_unsharded_adam(0);
}

Test(experts_train, zero1_concurrent_experts_are_unsharded_adams)
{
    expect_unsharded_adam(1);
}

Test(experts_train, zero2_concurrent_experts_are_unsharded_adams)
{
    expect_unsharded_adam(2);
}

Test(experts_train, zero3_concurrent_experts_are_unsharded_adams)
{
    expect_unsharded_adam(3);
}

Test(experts_train, offloaded_experts_are_unsharded_adams)
{
    static const enum ledger_tier tiers[][3] = {
        // optimizer, gradient, parameter
        {TIER_HOST, TIER_HOST, TIER_DEVICE},
        {TIER_HOST, TIER_HOST, TIER_HOST},
        {TIER_NVME, TIER_NVME, TIER_NVME},
        {TIER_NVME, TIER_HOST, TIER_DEVICE},
    };
    for (int number = 0; number < TRIALS / 2; number++) {
        int tier = number % 4,
            stage = tiers[tier][0] == TIER_NVME || tiers[tier][2] != TIER_DEVICE ? 3 : 1 + number % 3;
        struct offload_trial trial = trial_of(number * 5 + 1 + number % 7, stage);
        struct train_result result;
        trial.optimizer = tiers[tier][0];
        trial.gradient = tiers[tier][1];
        trial.parameter = tiers[tier][2];
        trial.owner_broadcast = false;
        trial.delay = number % 6 == 5 ? 2 : 0;
        trial.unchecked = number % 5 == 2;
        trial.activation = trial.checkpointing ? TIER_HOST : TIER_DEVICE;
        offload_demand(&trial, &result);
    }
}

static const char *digest_of(struct offload_trial trial, char digest[FILE_DIGEST_BYTES])
{
    struct train_result result;
    offload_demand(&trial, &result);
    return strcpy(digest, result.digest);
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
    static char output[1 << 16];
    static const char *const meshes_of[] = {"shard=2", "shard=2,expert=2"};
    char folder[PATH_MAX], command[3 * PATH_MAX], digest[33], whole[33];
    const char *train =
        ZG_BINARY_DIR "/zerogauge train --model gpt-nano:experts=4,top=2 --set bf16.enabled=false --json";
    folder_make(folder);
    snprintf(command, sizeof command, "%s --preset zero2 --world 2 --steps 4 2>&1", train);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
    digest_in(output, whole);
    for (int from = 0; from < 2; from++)
        for (int to = 0; to < 2; to++)
            for (int stage = 1; stage <= 3; stage += 2) {
                snprintf(command, sizeof command,
                         "%s --preset zero%d --mesh %s --steps 2 --save %s/%d%d%d 2>&1 && %s --preset zero%d --mesh %s "
                         "--steps 4 --resume %s/%d%d%d 2>&1",
                         train, stage, meshes_of[from], folder, from, to, stage, train, 4 - stage, meshes_of[to],
                         folder, from, to, stage);
                cr_assert_eq(command_run(command, output, sizeof output), 0, "%s: %s", command, output);
                const char *last = strstr(output, "\"resumed_step\":2");
                cr_assert_not_null(last, "%s", output);
                while (last > output && last[-1] != '\n')
                    last--;
                digest_in(last, digest);
                cr_expect_str_eq(digest, whole, "from %s to %s", meshes_of[from], meshes_of[to]);
            }
    folder_remove(folder);
}

Test(experts_train, processes_have_the_bits_of_threads)
{
    MPI_OR_SKIP();
    static char output[1 << 16];
    static const char *const runs[] = {
        "--preset zero3 --mesh shard=4,expert=2 --model gpt-nano:experts=4,top=2 --steps 3 --schedule chaos:3",
        "--preset zero2 --mesh shard=4,expert=4 --model gpt-nano:experts=4 --steps 2 --set "
        "gradient_accumulation_steps=2",
    };
    for (int i = 0; i < 2; i++) {
        char command[PATH_MAX + 512], threads[33], processes[33];
        snprintf(command, sizeof command, "'%s/zerogauge' train %s --verify --json 2>&1", ZG_BINARY_DIR, runs[i]);
        cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
        digest_in(output, threads);
        char words[512];
        snprintf(words, sizeof words, "train %s --verify --json", runs[i]);
        cr_assert_eq(mpirun(4, "zerogauge", words, output, sizeof output), 0, "%s", output);
        digest_in(output, processes);
        cr_expect_eq(strlen(threads), 32);
        cr_expect_str_eq(processes, threads, "%s", runs[i]);
    }
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
    static const struct {
        const char *words, *message;
    } cases[] = {
        {"--mesh shard=3,expert=3 --model gpt-nano:experts=4", "expert=3 does not divide the model's 4 experts"},
        {"--mesh shard=2,expert=2 --model gpt-nano", "expert=2 does not divide the model's 0 experts"},
        {"--mesh shard=4,expert=3 --model gpt-nano:experts=3", "expert=3 does not divide the 4 ranks of data"},
        {"--mesh replicate=2,shard=2,expert=2 --model gpt-nano:experts=4", "has replicate=2 beside expert=2"},
        {"--mesh shard=4,expert=2 --model gpt-nano:experts=4 --set zero_optimization.zero_hpz_partition_size=2",
         "is 2 beside a mesh with expert=2"},
        {"--mesh shard=4,expert=2 --model gpt-nano:experts=4 --set zerogauge.reduction_group=2",
         "is 2 beside a mesh with expert=2"},
    };
    static char output[1 << 14];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[1024];
        snprintf(command, sizeof command, "'%s/zerogauge' train --preset zero3 --steps 1 %s 2>&1", ZG_BINARY_DIR,
                 cases[i].words);
        cr_expect_eq(command_run(command, output, sizeof output), 2, "%s: %s", command, output);
        cr_expect(strstr(output, cases[i].message), "%s: %s", command, output);
    }
}
