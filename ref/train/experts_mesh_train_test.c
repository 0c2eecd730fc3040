// SPDX-License-Identifier: Apache-2.0
// Experts with replicas, pipelines and tensor parallelism: at every stage that the mesh allows, tier, dtype,
// accumulation and schedule, every bit of every expert on every rank is unsharded Adam's, and the bytes held and moved
// are the formulas'.
#include "ref/train/mesh_test.h"

static const char *const models[] = {"gpt-nano:layers=2,experts=4,top=2,capacity=0.9",
                                     "gpt-nano:layers=2,experts=8,aux_loss=0.02"};

// Replicas, shards, ranks of an expert group. A group of one rank and one of all ranks have orders of their own.
static const int replica_meshes[][3] = {{2, 2, 2}, {2, 4, 2}, {3, 2, 2}, {2, 4, 4}, {2, 2, 1}};
// Stages of the pipeline, replicas, shards, ranks of an expert group.
static const int pipeline_meshes[][4] = {{2, 1, 2, 2}, {2, 1, 4, 2}, {2, 2, 2, 2}, {2, 1, 4, 4}};

static struct offload_trial trial_of(int number, int stage)
{
    struct offload_trial trial = OFFLOAD_TRIAL(.stage = stage, .accumulation = 1 + (size_t)(number / 2) % 3);
    trial.model = models[number % 2];
    trial.schedule = schedules[number % 4];
    set_dtypes(&trial, dtypes[number % 5]);
    trial.bucket = number % 3 ? 5000 : 640;
    trial.overlap_comm = number % 4 < 2;
    trial.contiguous = number % 5 != 0;
    trial.clip = number % 2 ? 0.05 : 0;
    trial.checkpointing = number % 5 == 3;
    trial.steps = 2;
    return trial;
}

static struct offload_trial beside_replicas(int number, int stage)
{
    const int *mesh = replica_meshes[(number + stage) % 5];
    struct offload_trial trial = trial_of(number, stage);
    trial.replicas = mesh[0];
    trial.world = mesh[0] * mesh[1];
    trial.experts = mesh[2];
    trial.persistence = number % 4 == 0 ? 100 : 0;
    return trial;
}

static struct offload_trial beside_pipeline(int number, int stage)
{
    const int *mesh = pipeline_meshes[number % 4];
    struct offload_trial trial = trial_of(number, stage);
    trial.pipeline = mesh[0];
    trial.replicas = stage == 0 ? mesh[1] * mesh[2] : mesh[1];
    trial.world = mesh[0] * mesh[1] * mesh[2];
    trial.experts = mesh[3];
    trial.gpipe = number % 3 == 1;
    return trial;
}

// Tensor ranks, stages of the pipeline, replicas, shards, ranks of an expert group. 20 slots are no multiple of 8 rows.
static const int tensor_meshes[][5] = {
    {2, 1, 1, 2, 2}, {4, 1, 1, 2, 2}, {2, 1, 1, 4, 2}, {2, 1, 2, 2, 2}, {2, 2, 1, 2, 2}};

static struct offload_trial beside_tensor(int number, int stage)
{
    static const char *const cut[] = {"gpt-nano:layers=2,experts=4,top=2,capacity=0.9,aux_loss=0.1,blocks=4,heads=4",
                                      "gpt-nano:layers=2,experts=4,blocks=4,heads=4,rank=3,targets=c_attn+attn.c_proj"};
    const int *mesh = tensor_meshes[number % (stage < 2 ? 5 : 4)];
    struct offload_trial trial = trial_of(number, stage);
    trial.model = cut[number % 2];
    trial.tensor = mesh[0];
    trial.pipeline = mesh[1];
    trial.replicas = stage == 0 ? mesh[2] * mesh[3] : mesh[2];
    trial.world = mesh[0] * mesh[1] * mesh[2] * mesh[3];
    trial.experts = mesh[4];
    return trial;
}

enum { TRIALS = SANITIZED ? 2 : 5 };

Test(experts_mesh_train, every_stage_concurrent_has_experts_of_replicas_of_unsharded_adam)
{
    demand_trials(beside_replicas, 1, 3, TRIALS);
}

// Stages 2 and 3 have no pipelines.
Test(experts_mesh_train, concurrent_experts_in_pipelines_have_the_bits_of_plain_ones)
{
    for (int number = 0; number < 2 * TRIALS; number++)
        expect_digest_of_whole(beside_pipeline(number / 2, number % 2));
}

Test(experts_mesh_train, concurrent_experts_cut_by_tensor_parallelism_have_the_bits_of_whole_ones)
{
    for (int number = 0; number < 2 * TRIALS; number++)
        expect_digest_of_whole(beside_tensor(number / 2, number % 4));
}

// Muon updates each expert's matrices whole.
Test(experts_mesh_train, matrices_of_experts_concurrent_move_as_whole_ones)
{
    for (int number = 0; number < 2 * TRIALS; number++) {
        struct offload_trial beside[] = {beside_tensor(number / 2, number % 4),
                                         beside_replicas(number, 1 + number % 3)};
        beside[0].muon = beside[1].muon = true;
        expect_digest_of_whole(beside[0]);
        offload_demand(&beside[1]);
    }
}

Test(experts_mesh_train, offloaded_experts_are_unsharded_adams)
{
    for (int number = 0; number < TRIALS; number++) {
        struct offload_trial trial = offloaded(beside_replicas(number * 3 + 1, offloaded_stage(number)), number);
        if (number % 3 == 2) {
            trial = beside_pipeline(number, 1);
            trial.optimizer = trial.gradient = TIER_HOST;
        } else if (number % 3 == 1) {
            trial = offloaded(beside_tensor(number, offloaded_stage(number)), number);
        }
        trial.delay = number % 4 == 1 ? 2 : 0;
        trial.speculative = !trial.delay && number % 2 == 0;
        trial.steps = 3;
        offload_demand(&trial);
    }
}

Test(experts_mesh_train, an_overflow_skips_the_step_of_every_replica_and_stage_of_the_pipeline)
{
    expect_overflow(beside_pipeline(0, 1), 8);
    expect_overflow(beside_replicas(0, 2), 8);
}

// Another mesh loads what one has saved; where both sum in the same order, training goes on to the same bits.
Test(experts_mesh_train, checkpoints_continue_on_any_other_mesh)
{
    static const char *const meshes_of[] = {"replicate=2,shard=2,expert=2", "pipeline=2,replicate=2,shard=2,expert=2",
                                            "tensor=2,shard=4,expert=4"};
    static const char words[] =
        "--preset zero1 --model gpt-nano:layers=2,experts=4,top=2,blocks=2 --set bf16.enabled=false";
    char folder[PATH_MAX], command[2 * PATH_MAX], saved[33], loaded[33], first[256], second[256];
    for (int from = 0; from < 3; from++) {
        folder_make(folder);
        snprintf(command, sizeof command, "%s --mesh %s --steps 2 --save %s/saved", words, meshes_of[from], folder);
        train_digest(command, saved);
        for (int to = 0; to < 3; to++) {
            snprintf(command, sizeof command, "%s --mesh %s --steps 2 --resume %s/saved", words, meshes_of[to], folder);
            train_digest(command, loaded);
            cr_expect_str_eq(saved, loaded, "from %s to %s", meshes_of[from], meshes_of[to]);
        }
        folder_remove(folder);
    }
    snprintf(command, sizeof command, "%s --mesh %s --steps 4", words, meshes_of[0]);
    train_digest(command, saved);
    for (int from = 0; from < 2; from++) {
        snprintf(first, sizeof first, "--mesh %s", meshes_of[from]);
        snprintf(second, sizeof second, "--mesh %s", meshes_of[1 - from]);
        expect_continuation(words, first, second, saved);
    }
}

Test(experts_mesh_train, processes_have_the_bits_of_threads)
{
    MPI_OR_SKIP();
    expect_processes_as_threads("--preset zero1 --mesh pipeline=2,shard=2,expert=2 --model gpt-nano:layers=2,experts=4 "
                                "--steps 2 --set gradient_accumulation_steps=2");
}
