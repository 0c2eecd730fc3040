// SPDX-License-Identifier: Apache-2.0
// Training on meshes with tensor parallelism: at every stage, tier, dtype, accumulation and schedule, every bit of
// every part is unsharded Adam's, the bytes held and moved are the formulas', and the digest is the uncut model's.
#include "ref/train/mesh_test.h"

static const struct {
    const char *model;
    int replicas, shards, tensor;
} meshes[] = {
    {"gpt-nano:blocks=2", 1, 2, 2},
    {"gpt-nano:blocks=2", 2, 1, 2},
    {"gpt-nano:blocks=4,heads=4,rank=5,alpha=8,targets=all-linear", 1, 2, 4},
    {"gpt-nano:blocks=4,heads=4", 1, 1, 4},
    {"gpt-nano:layers=1,blocks=2,rank=40,targets=attn.c_proj+c_fc", 2, 1, 2},
    {"gpt-nano:blocks=4,heads=4", 1, 3, 2},
    {"gpt-nano:blocks=2,vocabulary=258,length=7", 2, 2, 2},
};
enum { MESH_COUNT = sizeof meshes / sizeof meshes[0] };

static struct offload_trial trial_of(int number, int stage)
{
    const int mesh = number % MESH_COUNT, dtype = number % 6;
    struct offload_trial trial = OFFLOAD_TRIAL(.stage = stage, .accumulation = 1 + (size_t)number / 2 % 2);
    trial.model = meshes[mesh].model;
    // Stage 0 has replicas alone.
    trial.replicas = stage == 0 ? meshes[mesh].replicas * meshes[mesh].shards : meshes[mesh].replicas;
    trial.tensor = meshes[mesh].tensor;
    trial.world = meshes[mesh].replicas * meshes[mesh].shards * meshes[mesh].tensor;
    trial.schedule = schedules[number % 4];
    set_dtypes(&trial, dtypes[dtype]);
    trial.bucket = number % 3 ? 5000 : 300;
    trial.clip = number % 2 ? 0.05 : 0;
    trial.persistence = number % 5 == 0 ? 100 : 0;
    trial.checkpointing = number % 3 == 1;
    return trial;
}

Test(tensor_train, every_stage_concurrent_on_parts_is_unsharded_adam)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int number = 0; number < 2 * MESH_COUNT; number++)
            expect_digest_of_whole(trial_of(number + stage, stage));
}

Test(tensor_train, offloaded_states_of_parts_are_unsharded_adams)
{
    for (int number = 0; number < 8; number++) {
        struct offload_trial trial = offloaded(trial_of(number * 3 + 1, offloaded_stage(number)), number);
        trial.activation = trial.checkpointing && number % 2 ? TIER_HOST : TIER_DEVICE;
        trial.delay = number % 4 == 1 ? 2 : 0;
        trial.speculative = !trial.delay && number >= 4;
        offload_demand(&trial);
    }
}

// Muon updates each matrix whole.
Test(tensor_train, matrices_that_are_cut_move_as_whole_ones_concurrent)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int number = 0; number < MESH_COUNT; number++) {
            struct offload_trial trial = trial_of(number + 2 * stage, stage);
            trial.muon = true;
            expect_digest_of_whole(trial);
        }
    for (int number = 0; number < 8; number++) {
        struct offload_trial trial = offloaded(trial_of(number * 3 + 2, offloaded_stage(number)), number);
        trial.muon = true;
        trial.delay = number % 4 == 1 ? 2 : 0;
        trial.speculative = !trial.delay && number >= 4;
        offload_demand(&trial);
    }
}

// A loss scale that overflows: all ranks skip the same steps, also those whose part has no infinity.
Test(tensor_train, an_overflow_in_one_part_skips_the_step_of_all)
{
    struct offload_trial trial = trial_of(2, 2);
    expect_overflow(trial, 4);
    trial.muon = true;
    expect_overflow(trial, 4);
}

Test(tensor_train, processes_have_the_bits_of_threads)
{
    MPI_OR_SKIP();
    expect_processes_as_threads("--preset zero2 --mesh tensor=2,shard=2 --model gpt-nano:blocks=2 --steps 3 "
                                "--schedule chaos:3");
}

static const char *const meshes_of[] = {"shard=2", "tensor=2,shard=2", "tensor=4,shard=2"};

// A run on one mesh, saved, and continued on another, has the bits of a run on either.
Test(tensor_train, checkpoints_continue_on_any_other_mesh)
{
    expect_continuations("--model gpt-nano:blocks=4,heads=4 --verify", "--preset zero2 --mesh shard=2", 3, meshes_of);
}

Test(tensor_train, adapters_continue_on_any_other_mesh)
{
    expect_continuations("--model gpt-nano:layers=1,blocks=4,heads=4 --lora rank=3,targets=all-linear --verify",
                         "--preset zero2 --mesh shard=2", 3, meshes_of);
}

Test(tensor_train, what_cannot_be_cut_is_refused)
{
    expect_refusal("--preset zero1 --mesh tensor=2 --model gpt-nano",
                   "tensor=2 does not divide the 1 blocks of the model gpt-nano");
    expect_refusal("--preset zero1 --mesh tensor=3 --model gpt-nano:blocks=2", "tensor=3 does not divide the 2 blocks");
    expect_refusal("--preset zero1 --mesh tensor=2 --model linear", "the model linear cannot be cut");
    expect_refusal("--preset zero1 --model gpt-nano:blocks=3", "cannot have 3 blocks");
    expect_refusal("--preset zero1 --model gpt-nano:blocks=2,tiles=2", "has both blocks and tiles");
}
