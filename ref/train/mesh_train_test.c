// SPDX-License-Identifier: Apache-2.0
// Training on meshes of replicas: on every mesh, stage, tier, dtype, accumulation and schedule, every bit of every
// replica is unsharded Adam's, and the bytes held and moved are the formulas'. Every rank has micro-batches of its own.
#include "ref/train/mesh_test.h"

enum { MESH_COUNT = 10 };
static const struct {
    int replicas, shards;
} meshes[MESH_COUNT] = {{2, 2}, {3, 2}, {2, 3}, {4, 2}, {2, 4}, {6, 2}, {1, 4}, {4, 1}, {6, 1}, {1, 6}};

static struct offload_trial trial_of(int number, int stage)
{
    const int mesh = number % MESH_COUNT;
    struct offload_trial trial = vary(OFFLOAD_TRIAL(.stage = stage), number);
    trial.replicas = meshes[mesh].replicas;
    trial.world = meshes[mesh].replicas * meshes[mesh].shards;
    trial.bucket = number % 3 ? 5000 : 64;
    trial.model = number % 11 == 0 ? "linear-few" : number % 11 == 1 ? "linear-overflow" : "linear";
    return trial;
}

enum { TRIALS = SANITIZED ? 12 : 60 };

Test(mesh_train, every_stage_concurrent_on_meshes_is_unsharded_adam)
{
    demand_trials(trial_of, 1, 3, TRIALS);
}

Test(mesh_train, offloaded_states_on_meshes_are_unsharded_adams)
{
    for (int number = 0; number < 24; number++) {
        struct offload_trial trial = offloaded(trial_of(number * 5 + 1 + number % 7, offloaded_stage(number)), number);
        trial.delay = number % 6 == 5 ? 2 : 0;
        trial.speculative = !trial.delay && number % 2;
        trial.unchecked = number % 5 == 2;
        offload_demand(&trial);
    }
}

// hpZ: backward gathers from the second copy, also of parameters on the host and on NVMe, and with replicas.
Test(mesh_train, a_secondary_partition_has_the_bits_of_unsharded_adam)
{
    static const int cuts[][3] = {{4, 1, 2}, {4, 1, 4}, {6, 1, 2},  {6, 1, 3},
                                  {8, 2, 2}, {8, 1, 4}, {12, 3, 2}, {6, 6, 0}};
    static const enum ledger_tier tiers[] = {TIER_DEVICE, TIER_HOST, TIER_NVME};
    for (int number = 0; number < TRIALS; number++) {
        struct offload_trial trial = trial_of(number * 7, 3);
        trial.world = cuts[number % 8][0];
        trial.replicas = cuts[number % 8][1];
        trial.secondary = cuts[number % 8][2];
        trial.parameter = tiers[number % 5 % 3];
        trial.optimizer = trial.gradient = trial.parameter;
        trial.delay = number % 4 == 3 && trial.optimizer != TIER_DEVICE ? 2 : 0;
        trial.speculative = number % 4 == 1 && trial.optimizer != TIER_DEVICE;
        trial.max_in_cpu = number % 3 ? 0 : 3000;
        trial.prefetch = number % 4 ? 5000 : 0;
        trial.reuse = number % 6 == 2 ? 100000 : number % 6 == 3 ? 3000 : 0;
        trial.checkpointing = number % 10 == 4;
        offload_demand(&trial);
    }
}

Test(mesh_train, gpts_on_meshes_are_unsharded_adams)
{
    for (int stage = 1; stage <= 3; stage++) {
        struct offload_trial trial = trial_of(stage * 3, stage);
        trial.model = "gpt-nano";
        trial.checkpointing = stage == 2;
        trial.secondary = stage == 3 ? 2 : 0;
        offload_demand(&trial);
    }
}

Test(mesh_train, groups_of_one_have_the_bits_of_plain_stages)
{
    char mesh[FILE_DIGEST_BYTES], plain[FILE_DIGEST_BYTES];
    for (size_t accumulation = 1; accumulation <= 2; accumulation++)
        for (int stage = 1; stage <= 3; stage++)
            for (int dtype = 0; dtype < 5; dtype++) {
                struct offload_trial trial =
                    OFFLOAD_TRIAL(.stage = stage, .world = 4, .accumulation = accumulation, .replicas = 1);
                set_dtypes(&trial, dtypes[dtype]);
                struct offload_trial one = trial;
                one.replicas = 0;
                cr_expect_str_eq(digest_of(trial, mesh), digest_of(one, plain), "replicate=1, %s",
                                 offload_name(&trial));
                trial.replicas = 4;
                one.stage = 0;
                cr_expect_str_eq(digest_of(trial, mesh), digest_of(one, plain), "shard=1, %s", offload_name(&trial));
            }
}

// Where nothing rounds, every mesh of a world ends in the same bits; and where something does, the order shows.
Test(mesh_train, exact_sums_have_one_digest_on_every_mesh)
{
    char digest[FILE_DIGEST_BYTES], first[FILE_DIGEST_BYTES] = "", rounded[FILE_DIGEST_BYTES], other[FILE_DIGEST_BYTES];
    for (int replicas = 1; replicas <= 6; replicas++)
        for (int stage = 1; stage <= 3 && 6 % replicas == 0; stage++) {
            struct offload_trial trial = OFFLOAD_TRIAL(.model = "linear-exact", .stage = stage, .world = 6,
                                                       .accumulation = 2, .replicas = replicas);
            trial.precision = trial.communication = trial.sum = DTYPE_FP32;
            digest_of(trial, digest);
            if (!*first)
                strcpy(first, digest);
            cr_expect_str_eq(digest, first, "%s", offload_name(&trial));
        }
    digest_of(OFFLOAD_TRIAL(.world = 6, .replicas = 2), rounded);
    digest_of(OFFLOAD_TRIAL(.world = 6, .replicas = 3), other);
    cr_expect_str_neq(rounded, other);
}

// A run on one mesh, saved, and continued on another: with exact sums, the bits of a run on either.
Test(mesh_train, checkpoints_continue_on_any_other_mesh)
{
    static const char *const meshes_of[] = {"replicate=2,shard=2", "replicate=4", "shard=4"};
    expect_continuations("--model linear-exact --set bf16.enabled=false", "--preset zero2 --world 4", 3, meshes_of);
}

Test(mesh_train, processes_have_the_bits_of_threads_on_a_mesh)
{
    MPI_OR_SKIP();
    expect_processes_as_threads(
        "--preset zero3 --mesh replicate=2,shard=2 --model linear --steps 3 --schedule chaos:3");
    expect_processes_as_threads("--preset zero2 --mesh replicate=4 --model linear --steps 2 "
                                "--set gradient_accumulation_steps=2");
}

// Rank 1 dies at the beginning of a step, which leaves most of the last step's update undone: no checkpoint has waited
// for it. Each run continues from the checkpoint before.
Test(mesh_train, killed_processes_continue_in_the_bits_of_threads)
{
    MPI_OR_SKIP();
    static const int deaths[] = {2, 4, 6, 8};
    static char output[1 << 16];
    char folder[PATH_MAX], words[512], command[PATH_MAX + 600], whole[33], digest[33];
    folder_make(folder);
    snprintf(words, sizeof words, "--preset zero_infinity --mesh replicate=2,shard=2 --steps 9 --nvme-path %s",
             ZG_BINARY_DIR);
    train_digest(words, whole);
    snprintf(command, sizeof command, "train %s --json --every 2 --checkpoint %s/saved", words, folder);
    for (size_t i = 0; i < sizeof deaths / sizeof deaths[0]; i++) {
        char killed[sizeof command + 64];
        snprintf(killed, sizeof killed, "%s --inject rank:1:kill@%d", command, deaths[i]);
        cr_expect_neq(mpirun(4, "zerogauge", killed, output, sizeof output), 0, "%s", output);
    }
    cr_assert_eq(mpirun(4, "zerogauge", command, output, sizeof output), 0, "%s", output);
    digest_in(output, digest);
    cr_expect_str_eq(digest, whole, "%s", output);
    cr_expect_not_null(strstr(output, "\"resumed_step\":6"), "%s", output);
    folder_remove(folder);
}
