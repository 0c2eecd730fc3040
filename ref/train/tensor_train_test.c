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

// The same ranks of data parallelism, each with the whole model.
static struct offload_trial without_tensor(struct offload_trial trial)
{
    trial.world /= trial.tensor;
    trial.tensor = 0;
    return trial;
}

static void expect_unsharded_adam(int stage)
{
    char cut[FILE_DIGEST_BYTES], whole[FILE_DIGEST_BYTES];
    for (int number = 0; number < 2 * MESH_COUNT; number++) {
        struct offload_trial trial = trial_of(number + stage, stage);
        digest_of(trial, cut);
        cr_expect_str_eq(cut, digest_of(without_tensor(trial), whole), "%s", offload_name(&trial));
    }
}

Test(tensor_train, data_parallelism_concurrent_on_parts_is_unsharded_adam)
{
    expect_unsharded_adam(0);
}

Test(tensor_train, zero1_concurrent_on_parts_is_unsharded_adam)
{
    expect_unsharded_adam(1);
}

Test(tensor_train, zero2_concurrent_on_parts_is_unsharded_adam)
{
    expect_unsharded_adam(2);
}

Test(tensor_train, zero3_concurrent_on_parts_is_unsharded_adam)
{
    expect_unsharded_adam(3);
}

Test(tensor_train, offloaded_states_of_parts_are_unsharded_adams)
{
    for (int number = 0; number < 8; number++) {
        struct offload_trial trial = offloaded(trial_of(number * 3 + 1, offloaded_stage(number)), number);
        struct train_result result;
        trial.activation = trial.checkpointing && number % 2 ? TIER_HOST : TIER_DEVICE;
        trial.delay = number % 4 == 1 ? 2 : 0;
        trial.speculative = !trial.delay && number >= 4;
        offload_demand(&trial, &result);
    }
}

// A loss scale that overflows: all ranks skip the same steps, also those whose part has no infinity.
Test(tensor_train, an_overflow_in_one_part_skips_the_step_of_all)
{
    struct offload_trial trial = trial_of(2, 2);
    struct train_result result;
    set_dtypes(&trial, dtypes[3]);
    cr_assert_eq(trial.precision, DTYPE_FP16);
    trial.steps = 4;
    trial.overflows = true;
    offload_demand(&trial, &result);
    cr_expect_gt(result.skipped_steps, 0);
    cr_expect_lt(result.skipped_steps, 4);
}

Test(tensor_train, processes_have_the_bits_of_threads)
{
    MPI_OR_SKIP();
    expect_processes_as_threads("--preset zero2 --mesh tensor=2,shard=2 --model gpt-nano:blocks=2 --steps 3 "
                                "--schedule chaos:3");
}

// A run on one mesh, saved, and continued on another, has the bits of a run on either.
static void expect_continuations(const char *words)
{
    enum { MESHES = 3 };
    static const char *const meshes_of[MESHES] = {"shard=2", "tensor=2,shard=2", "tensor=4,shard=2"};
    char first[256], second[256], whole[33];
    snprintf(first, sizeof first, "%s --preset zero2 --mesh shard=2 --steps 4", words);
    train_digest(first, whole);
    for (int from = 0; from < MESHES; from++)
        for (int to = 0; to < MESHES; to++) {
            snprintf(first, sizeof first, "--preset zero%d --mesh %s", 1 + from, meshes_of[from]);
            snprintf(second, sizeof second, "--preset zero%d --mesh %s", 3 - to, meshes_of[to]);
            expect_continuation(words, first, second, whole);
        }
}

Test(tensor_train, checkpoints_continue_on_any_other_mesh)
{
    expect_continuations("--model gpt-nano:blocks=4,heads=4 --verify");
}

Test(tensor_train, adapters_continue_on_any_other_mesh)
{
    expect_continuations("--model gpt-nano:layers=1,blocks=4,heads=4 --lora rank=3,targets=all-linear --verify");
}

static void expect_refusal(const char *arguments, const char *expected)
{
    static char output[1 << 16];
    char command[PATH_MAX + 512];
    snprintf(command, sizeof command, "'%s/zerogauge' train --preset zero1 --steps 1 %s 2>&1", ZG_BINARY_DIR,
             arguments);
    cr_expect_eq(command_run(command, output, sizeof output), 2, "%s", output);
    cr_expect(strstr(output, expected), "expected \"%s\", got:\n%s", expected, output);
}

Test(tensor_train, what_cannot_be_cut_is_refused)
{
    expect_refusal("--mesh tensor=2 --model gpt-nano", "tensor=2 does not divide the 1 blocks of the model gpt-nano");
    expect_refusal("--mesh tensor=3 --model gpt-nano:blocks=2", "tensor=3 does not divide the 2 blocks");
    expect_refusal("--mesh tensor=2 --model linear", "the model linear cannot be cut");
    expect_refusal("--model gpt-nano:blocks=3", "cannot have 3 blocks");
    expect_refusal("--model gpt-nano:blocks=2,tiles=2", "has both blocks and tiles");
}
