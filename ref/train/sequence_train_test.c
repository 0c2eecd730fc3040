// SPDX-License-Identifier: Apache-2.0
// Training with sequence parallelism: on every mesh, at every stage, dtype, accumulation and schedule, every bit of
// every part is unsharded Adam's, the bytes held and moved are the formulas', and the digest is the undivided model's.
#include "ref/train/mesh_test.h"

static const struct {
    const char *model;
    int replicas, shards, tensor, pipeline, experts;  // experts: 0 without
} meshes[] = {
    {"gpt-nano:blocks=2,sequence_parallel=1", 1, 2, 2, 1, 0},
    {"gpt-nano:layers=1,blocks=4,heads=4,sequence_parallel=1", 2, 1, 4, 1, 0},
    {"gpt-nano:layers=1,blocks=4,heads=4,length=12,vocabulary=260,sequence_parallel=1", 1, 3, 2, 1, 0},
    {"gpt-nano:layers=1,blocks=2,sequence_parallel=1,rank=5,alpha=8,targets=all-linear", 1, 2, 2, 1, 0},
    {"gpt-nano:layers=1,blocks=2,sequence_parallel=1,experts=4,top=2,capacity=0.7", 1, 2, 2, 1, 2},
};
enum { MESH_COUNT = sizeof meshes / sizeof meshes[0] };

static struct offload_trial trial_of(int number, int stage)
{
    const int mesh = number % MESH_COUNT;
    struct offload_trial trial = OFFLOAD_TRIAL(.stage = stage, .accumulation = 1 + (size_t)number / 2 % 2, .steps = 2);
    trial.model = meshes[mesh].model;
    // Stage 0 has replicas alone.
    trial.replicas = stage == 0 ? meshes[mesh].replicas * meshes[mesh].shards : meshes[mesh].replicas;
    trial.tensor = meshes[mesh].tensor;
    trial.pipeline = meshes[mesh].pipeline;
    trial.experts = meshes[mesh].experts;
    trial.world = meshes[mesh].replicas * meshes[mesh].shards * meshes[mesh].tensor * meshes[mesh].pipeline;
    trial.schedule = schedules[(number + stage) % 4];
    set_dtypes(&trial, dtypes[(number + stage) % 6]);
    trial.bucket = number % 3 ? 5000 : 300;
    trial.clip = number % 2 ? 0.05 : 0;
    trial.checkpointing = (number + stage) % 3 == 1;
    return trial;
}

Test(sequence_train, every_stage_concurrent_is_unsharded_adam)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int number = 0; number < MESH_COUNT; number++)
            expect_digest_of_whole(trial_of(number, stage));
}

Test(sequence_train, pipelines_concurrent_pass_rows_on)
{
    for (int stage = 0; stage <= 1; stage++) {
        struct offload_trial trial = trial_of(0, stage);
        trial.accumulation = 3;
        trial.checkpointing = trial.gpipe = stage == 1;
        trial.pipeline = 2;
        trial.world *= 2;
        expect_digest_of_whole(trial);
    }
}

Test(sequence_train, offloaded_states_are_unsharded_adams)
{
    for (int number = 0; number < 4; number++) {
        struct offload_trial trial = offloaded(trial_of(number + 1, offloaded_stage(number)), number);
        trial.checkpointing = number % 2;
        trial.activation = trial.checkpointing ? TIER_HOST : TIER_DEVICE;
        trial.speculative = number >= 2;
        offload_demand(&trial);
    }
}

// A loss scale that overflows: all ranks skip the same steps.
Test(sequence_train, an_overflow_skips_the_step_of_all)
{
    expect_overflow(trial_of(1, 2), 4);
}

static struct train_result collect(const char *model, int ranks, bool again)
{
    return offload_demand(&OFFLOAD_TRIAL(.model = model, .stage = 0, .steps = 2, .accumulation = 2, .replicas = 1,
                                         .checkpointing = again, .tensor = ranks, .world = ranks));
}

// A sum over T ranks is an all-reduce in two halves, an all-to-all of slices and an all-gather. The outputs of norms
// are gathered once more, and the gradients of norms and of the biases of c_proj are sums.
Test(sequence_train, traffic_is_that_of_sums_and_of_norms)
{
    enum { LAYERS = 2, ROWS = 2 * 16, WIDTH = 16, VECTORS = WIDTH * (6 * LAYERS + 2) };
    for (uint64_t ranks = 2; ranks <= 4; ranks += 2)
        for (uint64_t again = 0; again < 2; again++) {
            struct train_result divided = collect("gpt-nano:blocks=4,heads=4,sequence_parallel=1", (int)ranks, again);
            struct train_result plain = collect("gpt-nano:blocks=4,heads=4", (int)ranks, again);
            const uint64_t *sent = divided.moved_bytes[LANE_COLLECTIVE], *before = plain.moved_bytes[LANE_COLLECTIVE];
            // Of each float that all ranks have together, in two steps of two micro-steps.
            uint64_t each = sizeof(float) * (ranks - 1) * 2 * 2;
            uint64_t sums = (2 * (2 * LAYERS + 1) + LAYERS * again) * ROWS * WIDTH;
            uint64_t norms = (2 * LAYERS + 1 + again) * ROWS * WIDTH;
            cr_expect_eq(sent[OPERATION_ALL_TO_ALL], each * (sums + VECTORS));
            cr_expect_eq(before[OPERATION_ALL_TO_ALL], each * sums);
            cr_expect_eq(sent[OPERATION_ALL_GATHER] - before[OPERATION_ALL_GATHER], each * (norms + VECTORS));
        }
}

Test(sequence_train, processes_have_the_bits_of_threads)
{
    MPI_OR_SKIP();
    expect_processes_as_threads("--preset zero2 --mesh tensor=2,shard=2 --sequence-parallel --model gpt-nano:blocks=2 "
                                "--steps 2");
}

// A run on one mesh, saved, and continued on another, has the bits of a run on either.
Test(sequence_train, checkpoints_continue_on_any_other_mesh)
{
    static const char *const meshes_of[] = {"shard=2", "tensor=2,shard=2", "tensor=4,shard=2"};
    expect_continuations("--model gpt-nano:layers=1,blocks=4,heads=4 --sequence-parallel --verify",
                         "--preset zero2 --mesh shard=2", 3, meshes_of);
}

Test(sequence_train, what_cannot_be_divided_is_refused)
{
    expect_refusal("--preset zero1 --sequence-parallel --mesh tensor=2 --model gpt-nano", "expected blocks=B");
    expect_refusal("--preset zero1 --sequence-parallel --mesh tensor=2 --model gpt-nano:blocks=2,length=7",
                   "the sequence of 7 tokens");
    expect_refusal("--preset zero1 --sequence-parallel --mesh tensor=2 --model linear",
                   "the model linear has no sequences");
    expect_refusal("--preset zero1 --model gpt-nano:blocks=2,sequence_parallel=2",
                   "has sequence_parallel=2, expected 1");
    expect_refusal("--preset zero1 --sequence-parallel --mesh tensor=2 --model gpt-nano:blocks=2,sequence_parallel=1",
                   "sequence_parallel is given twice");
}
