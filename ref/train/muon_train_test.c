// SPDX-License-Identifier: Apache-2.0
// Training with Muon: at every stage and on every tier, every bit equals the unsharded run's, and every byte held and
// moved the formulas'.
#include "base/command_test.h"
#include "base/folder_test.h"

#include <criterion/criterion.h>
#include <string.h>

#define MUON "--set optimizer.type=Muon --set optimizer.params.muon_lr=0.02 --set optimizer.params.adam_lr=0.001 "

static char output[1 << 16], digests[2][40];

// The exit status of a run with these words. Where it succeeds it is verified, and *digest is its states'.
static int train(const char *words, char digest[40])
{
    char command[1024];
    snprintf(command, sizeof command, "%s/zerogauge train --model gpt-nano --steps 4 --verify %s 2>&1", ZG_BINARY_DIR,
             words);
    int status = command_run(command, output, sizeof output);
    const char *at = strstr(output, "state digest ");
    if (status == 0) {
        cr_expect_not_null(
            strstr(output, strstr(words, "=Muon") ? "unsharded Muon in every bit, " : "unsharded Adam in every bit, "),
            "%s: %s", words, output);
        cr_expect_null(strstr(output, "!="), "%s: %s", words, output);
        cr_assert_not_null(at, "%s", output);
        snprintf(digest, 40, "%.32s", at + strlen("state digest "));
    }
    return status;
}

Test(muon_train, stages_tiers_and_schedules_have_the_same_bits)
{
    char folder[PATH_MAX], words[512];
    folder_make(folder);
    static const char *const rows[] = {
        "--preset zero0",
        "--preset zero1 --set zero_optimization.reduce_bucket_size=1000",
        "--preset zero2 --schedule chaos:3",
        "--preset zero3",
        "--preset zero3 --set zero_optimization.stage3_param_persistence_threshold=10",
        "--preset zero3 --set zerogauge.partitioning=owner_broadcast",
        "--preset zero2_offload --set zero_optimization.sub_group_size=100",
        "--preset zero2_offload --set zerogauge.speculative_update=true",
        "--preset zero3_offload",
        "--preset zero_infinity --set zero_optimization.sub_group_size=100",
        "--preset zero_infinity --set zero_optimization.stage3_param_persistence_threshold=1000",
    };
    for (int world = 2; world <= 3; world++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            snprintf(words, sizeof words, MUON "--world %d %s%s%s", world, rows[i],
                     strstr(rows[i], "infinity") ? " --buffered --nvme-path " : "",
                     strstr(rows[i], "infinity") ? folder : "");
            cr_assert_eq(train(words, digests[i > 0]), 0, "%s: %s", words, output);
            cr_expect(i == 0 || strcmp(digests[0], digests[1]) == 0, "%s: %s, not %s", rows[i], digests[1], digests[0]);
        }
    folder_remove(folder);
}

Test(muon_train, other_settings_have_the_bits_of_the_unsharded_run)
{
    static const char *const rows[] = {
        "--world 2 --preset zero1 --set optimizer.type=AdamW",
        MUON "--world 2 --preset zero1",
        MUON "--world 2 --preset zero1 --set optimizer.params.nesterov=false",
        MUON "--world 2 --preset zero1 --set optimizer.params.ns_steps=4",
        MUON "--world 2 --preset zero1 --set optimizer.params.momentum=0.3",
        MUON "--world 2 --preset zero1 --set optimizer.params.adjust_lr_fn=match_rms_adamw",
        MUON "--world 2 --preset zero1 --set optimizer.params.weight_decay=0.5",
        MUON "--world 2 --preset zero3 --set gradient_accumulation_steps=3",
        MUON "--world 2 --preset zero2 --set bf16.enabled=false --set fp16.enabled=true",
        MUON "--world 2 --preset zero2 --set gradient_clipping=0.1",
        MUON "--world 2 --preset zero2_offload --set zerogauge.delayed_update.start_step=2",
        MUON "--world 4 --preset zero3 --mesh replicate=2,shard=2",
        MUON "--world 2 --preset zero1 --mesh pipeline=2,shard=1",
        "--set optimizer.type=Muon --world 2 --preset zero1 --set scheduler.type=WarmupLR",
    };
    char all[sizeof rows / sizeof *rows][40];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert_eq(train(rows[i], all[i]), 0, "%s: %s", rows[i], output);
        for (size_t k = 0; k < i; k++)
            cr_expect(strcmp(all[i], all[k]) != 0 || strstr(rows[i], "pipeline"), "%s: as %s", rows[i], rows[k]);
    }
}

Test(muon_train, a_matrix_has_one_moment)
{
    // 10,944 parameters, 6,144 of them in hidden matrices.
    cr_assert_eq(train(MUON "--world 2 --preset zero0", digests[0]), 0, "%s", output);
    cr_expect_not_null(strstr(output, "  optimizer                   62,976            62,976  =\n"), "%s", output);
}

Test(muon_train, a_checkpoint_continues_the_run_at_another_world)
{
    char folder[PATH_MAX], words[PATH_MAX + 128];
    folder_make(folder);
    snprintf(words, sizeof words, MUON "--world 2 --preset zero3 --steps 2 --save %s/saved", folder);
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "%s/zerogauge train --model gpt-nano %s 2>&1", ZG_BINARY_DIR, words);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
    snprintf(words, sizeof words, MUON "--world 2 --preset zero1 --resume %s/saved", folder);
    cr_assert_eq(train(words, digests[0]), 0, "%s", output);
    cr_assert_eq(train(MUON "--world 2 --preset zero3", digests[1]), 0, "%s", output);
    cr_expect_str_eq(digests[0], digests[1]);
    folder_remove(folder);
}

// A matrix has no second moment, by which Adam would divide.
Test(muon_train, a_checkpoint_is_of_one_optimizer)
{
    char folder[PATH_MAX], words[3 * PATH_MAX];
    static const struct {
        const char *words;  // after `cd FOLDER; zerogauge`
        int status;
        const char *message;
    } rows[] = {
        {"train --model gpt-nano --steps 2 --preset zero1 --save muon " MUON, 0, ""},
        {"train --model gpt-nano --steps 2 --preset zero1 --save adam", 0, ""},
        {"train --model gpt-nano --steps 3 --preset zero1 --resume muon", 2, "optimizer Muon; this run has Adam"},
        {"train --model gpt-nano --steps 3 --preset zero1 --resume adam " MUON, 2, "optimizer Adam; this run has Muon"},
        {"train --model gpt-nano --steps 3 --preset zero1 --resume muon --set optimizer.params.momentum=0.5 " MUON, 0,
         "muon was lr 0.02"},
        {"convert muon states", 2, "was made with optimizer Muon; other formats"},
        {"export muon weights", 0, "10,944 parameters"},
    };
    folder_make(folder);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(words, sizeof words, "cd %s; %s/zerogauge %s 2>&1", folder, ZG_BINARY_DIR, rows[i].words);
        cr_expect_eq(command_run(words, output, sizeof output), rows[i].status, "%s: %s", words, output);
        cr_expect_not_null(strstr(output, rows[i].message), "%s: %s", words, output);
    }
    folder_remove(folder);
}

Test(muon_train, what_cuts_a_matrix_that_a_rank_owns_is_refused_by_key)
{
    static const char *const rows[][2] = {
        {MUON "--preset zero3 --world 4 --set zero_optimization.zero_hpz_partition_size=2",
         "zero_hpz_partition_size: cuts the matrices"},
        {MUON "--preset zero3 --world 2 --set zero_optimization.zero_quantized_weights=true",
         "zero_quantized_weights: cuts the matrices"},
        {MUON "--preset zero1 --world 2 --set scheduler.type=WarmupLR", "and a scheduler has one rate for all"},
        {"--preset zero1 --set optimizer.params.momentum=0.9", "momentum: is a parameter of Muon alone"},
        {"--preset zero1 --set optimizer.type=SGD", "is \"SGD\", expected \"Adam\", \"AdamW\" or \"Muon\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_eq(train(rows[i][0], digests[0]), 2, "%s: %s", rows[i][0], output);
        cr_expect_not_null(strstr(output, rows[i][1]), "%s: %s", rows[i][0], output);
    }
}
