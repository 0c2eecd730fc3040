// SPDX-License-Identifier: Apache-2.0
// Training with products in bf16: equal to unsharded Adam with the same products, whatever the threads and the ranks
// that share a micro-batch's work.
#include "ref/arithmetic/onednn.h"
#include "ref/model/names/model_find.h"
#include "ref/train/mesh_test.h"

#define MODEL "--model gpt:layers=2,width=256,heads=4,length=128 --steps 2"

static bool bf16_is_here(void)
{
    if (onednn_load() == ERR_NONE)
        return true;
    printf("TEST SKIPPED: %s\n", err_message());
    return false;
}

Test(products, in_bf16_every_stage_equals_unsharded_adam_with_any_number_of_threads)
{
    static const char *const presets[] = {"zero1", "zero2_offload", "zero_infinity"};
    char folder[PATH_MAX], words[2 * PATH_MAX], digest[33], first[33] = "", floats[33];
    if (!bf16_is_here())
        return;
    folder_make(folder);
    for (int i = 0; i < 3; i++) {
        snprintf(words, sizeof words,
                 "--preset %s --world 2 --verify --products bf16 --threads %d --nvme-path %s --buffered " MODEL,
                 presets[i], i + 1, folder);
        train_digest(words, digest);
        cr_expect(!*first || strcmp(digest, first) == 0, "%s: %s and %s", words, digest, first);
        strcpy(first, digest);
    }
    folder_remove(folder);
    train_digest("--preset zero1 --world 2 " MODEL, floats);
    cr_expect_str_neq(floats, first, "products in bf16 have sums of their own");
}

Test(products, in_bf16_have_one_digest_on_every_mesh)
{
    static const char *const meshes[] = {"tensor=2,shard=2 --threads 2", "pipeline=2,shard=2", "shard=2 --threads 3"};
    char words[256], digest[33], whole[33];
    if (!bf16_is_here())
        return;
    train_digest("--preset zero1 --mesh shard=2 --model gpt-tiny:blocks=4 --steps 2 --verify --products bf16", whole);
    for (int i = 0; i < 3; i++) {
        snprintf(words, sizeof words,
                 "--preset zero1 --mesh %s --model gpt-tiny:blocks=4 --steps 2 --verify --products bf16", meshes[i]);
        train_digest(words, digest);
        cr_expect_str_eq(digest, whole, "%s", words);
    }
}

// With the settings that hide a processor's instructions from oneDNN.
Test(products, in_bf16_without_the_instructions_leave_a_result_that_can_be_freed)
{
    static const struct config config = {.precision = DTYPE_BF16};
    struct train_setting setting = {.config = &config, .world = 2, .steps = 1, .bf16_products = true};
    struct train_result result;
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
    cr_assert_eq(model_find("gpt-nano", &setting.model), ERR_NONE);
    memset(&result, 0xff, sizeof result);
    cr_expect_eq(train_run(&setting, &result), ERR_USAGE);
    cr_expect(strstr(err_message(), "products in bf16 need oneDNN"), "%s", err_message());
    cr_expect_null(result.step_ns);
    cr_expect_not(result.difference.found);
}

Test(products, in_bf16_are_refused_or_said_to_have_no_effect)
{
    static char output[1 << 16];
    cr_expect_eq(
        command_run("'" ZG_BINARY_DIR "/zerogauge' train --preset zero1 --products int8 2>&1", output, sizeof output),
        2);
    cr_expect(strstr(output, "--products int8: expected float, bf16 or cublas"), "%s", output);
    if (!bf16_is_here())
        return;
    cr_expect_eq(command_run("'" ZG_BINARY_DIR "/zerogauge' train --preset zero1 --model linear --steps 1 "
                             "--set bf16.enabled=false --products bf16 2>&1",
                             output, sizeof output),
                 0);
    cr_expect(strstr(output, "--products: accepted, but has no effect here: the model is not in bf16"), "%s", output);
    cr_expect_null(strstr(output, "products in bf16"), "%s", output);
}
