// SPDX-License-Identifier: Apache-2.0
#include "ref/config/config_accelerate.h"

#include "base/err.h"
#include "base/folder_test.h"

#include <criterion/criterion.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

static struct config_notes notes;

static int load(const char *text, struct config *out)
{
    const struct config_options options = {.world = 4};
    char folder[PATH_MAX], path[PATH_MAX + 16];
    folder_make(folder);
    snprintf(path, sizeof path, "%s/a.yaml", folder);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
    int code = config_load_file(path, &options, out, &notes);
    folder_remove(folder);
    return code;
}

static bool is_noted(const char *key)
{
    for (size_t i = 0; i < notes.count; i++)
        if (notes.notes[i].kind == CONFIG_FOREIGN && strcmp(notes.notes[i].value, key) == 0)
            return true;
    return false;
}

Test(config_accelerate, its_deepspeed_section_means_the_same_as_deepspeeds_keys)
{
    struct config config;
    cr_assert_eq(load("compute_environment: LOCAL_MACHINE\n"
                      "deepspeed_config:\n"
                      "  gradient_accumulation_steps: 2\n"
                      "  gradient_clipping: 0.5\n"
                      "  offload_optimizer_device: cpu\n"
                      "  offload_param_device: 'cpu'\n"
                      "  zero3_init_flag: true\n"
                      "  zero_stage: 3\n"
                      "distributed_type: DEEPSPEED\n"
                      "mixed_precision: bf16\n",
                      &config),
                 ERR_NONE, "%s", err_message());
    cr_expect_eq(config.stage, 3);
    cr_expect_eq(config.accumulation, 2);
    cr_expect_eq(config.micro_batch, 1);
    cr_expect_eq(config.gradient_clipping, 0.5);
    cr_expect_eq(config.offload_optimizer.tier, TIER_HOST);
    cr_expect_eq(config.offload_param.tier, TIER_HOST);
    cr_expect_eq(config.precision, DTYPE_BF16);
    cr_expect(is_noted("compute_environment") && is_noted("deepspeed_config.zero3_init_flag"));
    cr_expect_not(is_noted("deepspeed_config.zero_stage"));
}

Test(config_accelerate, fsdp_settings_are_stages)
{
    static const struct {
        const char *setting;
        int stage;
        enum dtype sums;
    } settings[] = {
        {"fsdp_sharding_strategy: FULL_SHARD", 3, DTYPE_FP32}, {"fsdp_sharding_strategy: 2", 2, DTYPE_FP32},
        {"fsdp_sharding_strategy: NO_SHARD", 0, DTYPE_BF16},   {"fsdp_reshard_after_forward: True", 3, DTYPE_FP32},
        {"fsdp_reshard_after_forward: false", 2, DTYPE_FP32},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct config config;
        char text[256];
        snprintf(text, sizeof text, "fsdp_config: {%s, fsdp_activation_checkpointing: %s}\nmixed_precision: bf16\n",
                 settings[i].setting, i % 2 ? "true" : "false");
        cr_assert_eq(load(text, &config), ERR_NONE, "%s: %s", text, err_message());
        cr_expect_eq(config.stage, settings[i].stage, "%s", text);
        cr_expect_eq(config.accumulation_dtype, settings[i].sums, "%s", text);
        cr_expect_eq(config.activation_checkpointing, i % 2, "%s", text);
    }
}

Test(config_accelerate, what_cannot_be_read_is_refused_by_line_and_key)
{
    static const struct {
        const char *text, *expected;
    } bad[] = {
        {"a: 1\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n",
         "a.yaml:3: fsdp_config.fsdp_sharding_strategy"},
        {"a: 1\nmixed_precision: fp8\n", "a.yaml:2: mixed_precision: is fp8, expected no, bf16 or fp16"},
        {"deepspeed_config: {deepspeed_config_file: ds.json}\n", "is ds.json, give that file"},
        {"deepspeed_config:\n  zero_stage: 4\n", "zero_optimization.stage: is 4, expected"},
        {"mixed_precision: bf16\n", "deepspeed_config.zero_stage: missing"},
        {"a: [1\nb: 2\n", "is not YAML"},
        {"- 1\n", "expected keys"},
        {"", "expected keys"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct config config;
        cr_expect_eq(load(bad[i].text, &config), ERR_USAGE, "%s", bad[i].text);
        cr_expect(strstr(err_message(), bad[i].expected), "%s: %s", bad[i].text, err_message());
    }
}
