// SPDX-License-Identifier: Apache-2.0
// Training with ZeRO++'s quantized communication: in every world, tier, dtype, accumulation and schedule, every bit
// equals unsharded Adam's with the same quantization, and the bytes held and moved equal the formulas'.
#include "ref/train/mesh_test.h"

enum { TRIALS = SANITIZED ? 10 : 40 };

// Ranks, and those of a node.
static const int nodes_of[][2] = {{1, 0}, {2, 0}, {3, 0}, {4, 2}, {4, 1}, {4, 4}, {6, 3}, {6, 2}, {2, 1}, {3, 1}};

enum kind { WEIGHTS, GRADIENTS, BOTH };

static struct offload_trial trial_of(int number, enum kind kind)
{
    static const int blocks[] = {8, 64, 24, 2048};
    struct offload_trial trial = vary(OFFLOAD_TRIAL(), number);
    trial.quantized_weights = kind != GRADIENTS;
    trial.quantized_gradients = kind != WEIGHTS;
    trial.world = kind == WEIGHTS ? 1 + number % 4 : nodes_of[number % 10][0];
    trial.node = kind == WEIGHTS ? 0 : nodes_of[number % 10][1];
    trial.block = blocks[number / 4 % 4];
    trial.bucket = number % 3 ? 5000 : 64;
    trial.prefetch = number % 4 ? 5000 : 0;
    trial.reuse = number % 6 == 2 ? 100000 : 0;
    trial.checkpointing = number % 10 == 4;
    trial.model = number % 11 == 0   ? "linear-few"
                  : number % 11 == 1 ? "linear-overflow"
                  : number % 2       ? "linear"
                                     : "gpt-nano";
    return trial;
}

Test(quantized_train, weights_gradients_and_both_concurrent_have_the_bits_of_unsharded_adam)
{
    for (enum kind kind = WEIGHTS; kind <= BOTH; kind++)
        for (int number = 0; number < TRIALS; number++) {
            struct offload_trial trial = trial_of(number, kind);
            offload_demand(&trial);
        }
}

// In E4M3, with one scale of all shards: uneven ones, and in these models' vectors empty ones.
Test(quantized_train, weights_in_e4m3_have_the_bits_of_unsharded_adam)
{
    static const enum ledger_tier tiers[] = {TIER_DEVICE, TIER_HOST, TIER_NVME};
    for (int number = 0; number < TRIALS; number++) {
        struct offload_trial trial = trial_of(number, WEIGHTS);
        trial.e4m3 = true;
        trial.block = 0;
        trial.world = 1 + number % 5;
        trial.secondary = trial.world == 4 && number % 3 == 0 ? 2 : 0;
        trial.parameter = trial.optimizer = trial.gradient = tiers[number % 7 % 3];
        offload_demand(&trial);
    }
}

// Also from the host and from NVMe, with updates delayed and speculative; weights with replicas; and with hpZ, whose
// second copy has the quantized values, and whose groups are nodes.
Test(quantized_train, every_tier_and_mesh_has_the_bits_of_unsharded_adam)
{
    static const enum ledger_tier tiers[] = {TIER_DEVICE, TIER_HOST, TIER_NVME};
    static const int cuts[][3] = {{4, 1, 2}, {4, 2, 0}, {6, 1, 3}, {3, 1, 0}, {4, 1, 4}, {8, 2, 2}};
    for (int number = 0; number < TRIALS / 2; number++) {
        enum kind kind = cuts[number % 6][1] > 1 ? WEIGHTS : (enum kind)(number % 3);
        struct offload_trial trial = trial_of(number * 7, kind);
        trial.world = cuts[number % 6][0];
        trial.replicas = cuts[number % 6][1];
        trial.secondary = cuts[number % 6][2];
        trial.node = 0;
        trial.parameter = tiers[number % 5 % 3];
        trial.optimizer = trial.gradient = trial.parameter;
        trial.delay = number % 4 == 3 && trial.optimizer != TIER_DEVICE ? 2 : 0;
        trial.speculative = number % 4 == 1 && trial.optimizer != TIER_DEVICE;
        trial.max_in_cpu = number % 3 ? 0 : 3000;
        trial.reuse = number % 5 == 2 ? 3000 : 0;
        offload_demand(&trial);
    }
}

// A loss scale that is too large at first; and one element alone that is infinite, and one that is NaN, each on one
// rank: steps are skipped as in the unsharded run.
Test(quantized_train, steps_that_overflow_are_skipped)
{
    struct offload_trial trial = trial_of(3, BOTH);
    trial.model = "gpt-nano";
    expect_overflow(trial, 6);
    set_dtypes(&trial, dtypes[3]);
    trial.model = "linear-overflow";
    trial.steps = 7;
    for (trial.node = 1; trial.node <= 4; trial.node *= 2)
        cr_expect_eq(offload_demand(&trial).skipped_steps, 2);
}

Test(quantized_train, tiles_and_checkpointing_have_the_bits_of_unsharded_adam)
{
    struct offload_trial trial = trial_of(3, BOTH);
    trial.block = 2048;
    trial.model = "gpt-nano";
    trial.secondary = 2;
    trial.tiles = 2;
    trial.persistence = 100;
    trial.checkpointing = true;
    offload_demand(&trial);
}

// Gradients of the linear models do not depend on parameters, and their losses do; those of GPTs depend on all.
Test(quantized_train, what_is_quantized_shows)
{
    char digests[6][FILE_DIGEST_BYTES];
    struct offload_trial trial = OFFLOAD_TRIAL(.model = "gpt-nano", .block = 64);
    digest_of(trial, digests[0]);
    trial.quantized_weights = true;
    digest_of(trial, digests[1]);
    trial.quantized_gradients = true;
    digest_of(trial, digests[2]);
    trial.quantized_weights = false;
    digest_of(trial, digests[3]);
    trial.block = 8;
    digest_of(trial, digests[4]);
    trial = OFFLOAD_TRIAL(.model = "gpt-nano", .quantized_weights = true, .e4m3 = true);
    digest_of(trial, digests[5]);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++)
            cr_expect_str_neq(digests[i], digests[k], "%d and %d", i, k);
}

// One hop within a node, or one across nodes of a rank, are one quantization; two hops are two.
Test(quantized_train, one_hop_has_one_digest)
{
    char within[FILE_DIGEST_BYTES], across[FILE_DIGEST_BYTES], both[FILE_DIGEST_BYTES];
    struct offload_trial trial =
        OFFLOAD_TRIAL(.model = "gpt-nano", .world = 4, .block = 64, .quantized_gradients = true, .node = 4);
    digest_of(trial, within);
    trial.node = 1;
    cr_expect_str_eq(digest_of(trial, across), within);
    trial.node = 2;
    cr_expect_str_neq(digest_of(trial, both), within);
    // hpZ's groups are nodes.
    trial.node = 0;
    trial.secondary = 2;
    cr_expect_str_eq(digest_of(trial, within), both);
}

// Checkpoints have the parameters as they are: another world loads the same states, and one without quantization does.
Test(quantized_train, checkpoints_are_not_quantized)
{
    static const char *const words[] = {
        "--world 3 --set train_micro_batch_size_per_gpu=4 --preset zero3 "
        "--set zero_optimization.stage3_param_persistence_threshold=0 "
        "--set zero_optimization.zero_quantized_weights=true --set zerogauge.quantization_block=16",
        "--world 2 --set train_micro_batch_size_per_gpu=6 --preset zero3 "
        "--set zero_optimization.stage3_param_persistence_threshold=0 "
        "--set zero_optimization.zero_quantized_weights=true --set zero_optimization.zero_quantized_gradients=true",
        "--world 4 --set train_micro_batch_size_per_gpu=3 --preset zero2"};
    char folder[PATH_MAX], command[2 * PATH_MAX], saved[33], loaded[33];
    for (int from = 0; from < 3; from++) {
        folder_make(folder);
        snprintf(command, sizeof command, "%s --model gpt-nano --steps 2 --save %s/saved", words[from], folder);
        train_digest(command, saved);
        for (int to = 0; to < 3; to++) {
            snprintf(command, sizeof command, "%s --model gpt-nano --steps 2 --resume %s/saved", words[to], folder);
            train_digest(command, loaded);
            cr_expect_str_eq(loaded, saved, "from %s to %s", words[from], words[to]);
        }
        folder_remove(folder);
    }
}

// A run that stops and goes on has the bits of one that does not.
Test(quantized_train, a_checkpoint_continues_the_run)
{
    static const char words[] = "--preset zero3 --model gpt-nano --world 3 "
                                "--set zero_optimization.stage3_param_persistence_threshold=0 "
                                "--set zero_optimization.zero_quantized_weights=true "
                                "--set zero_optimization.zero_quantized_gradients=true";
    char whole[33], command[512];
    snprintf(command, sizeof command, "%s --steps 4", words);
    train_digest(command, whole);
    expect_continuation(words, "--schedule serial", "--schedule chaos:2", whole);
}

Test(quantized_train, processes_have_the_bits_of_threads)
{
    MPI_OR_SKIP();
    expect_processes_as_threads("--preset zero3 --mesh shard=4 --model gpt-nano --steps 3 --schedule chaos:3 "
                                "--set zero_optimization.zero_quantized_weights=true "
                                "--set zero_optimization.zero_quantized_gradients=true "
                                "--set zero_optimization.stage3_param_persistence_threshold=0 "
                                "--set zero_optimization.zero_hpz_partition_size=2 "
                                "--set zerogauge.quantization_block=16");
}
