// SPDX-License-Identifier: Apache-2.0
// Fits: planned bytes equal the bytes that training counts, and models have their published parameter counts.
#include "validate/fit.h"

#include "base/err.h"
#include "base/folder_test.h"
#include "plan/planner/plan_model.h"
#include "ref/train/train.h"

#include <stdlib.h>
#include <string.h>

static const struct model *find(const char *name)
{
    const struct model *model;
    cr_assert_eq(plan_model_find(name, 1, &model), ERR_NONE, "%s", err_message());
    return model;
}

// Trains one step under the preset and sums the bytes that rank 0 held on each tier.
static void train(const char *preset, int world, const char *folder, uint64_t held[TIER_COUNT])
{
    static const char *const set[] = {"train_micro_batch_size_per_gpu=1"};
    const char *const paths[] = {folder};
    const struct config_options options = {
        .world = world, .set = set, .set_count = 1, .nvme_paths = paths, .nvme_path_count = 1};
    static struct config config;
    struct text *text;
    struct train_result result;
    cr_assert_eq(config_load_preset(preset, &options, &config, NULL), ERR_NONE, "%s", err_message());
    cr_assert_eq(text_open(ZG_SOURCE_DIR "/README.md", &text), ERR_NONE, "%s", err_message());
    const struct train_setting setting = {.config = &config,
                                          .model = find("gpt-nano"),
                                          .text = text,
                                          .world = world,
                                          .steps = 1,
                                          .seed = 1,
                                          .threads = 1,
                                          .swap_checksum = true,
                                          .buffered = true};
    cr_assert_eq(train_run(&setting, &result), ERR_NONE, "%s: %s", preset, err_message());
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        held[tier] = 0;
        for (int kind = 0; kind < KIND_COUNT; kind++)
            held[tier] += result.held_bytes[tier][kind];
    }
    free(result.step_ns);
    text_close(text);
}

Test(fit, planned_bytes_equal_the_bytes_that_training_holds)
{
    static const char *const presets[] = {"zero0",         "zero1",         "zero2",        "zero3",
                                          "zero2_offload", "zero3_offload", "zero_infinity"};
    char folder[PATH_MAX];
    folder_make(folder);
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        for (int world = 1; world <= 3; world++) {
            uint64_t trained[TIER_COUNT], planned[TIER_COUNT];
            train(presets[i], world, folder, trained);
            cr_assert_eq(fit_bytes(find("gpt-nano"), presets[i], world, planned), ERR_NONE, "%s", err_message());
            for (int tier = 0; tier < TIER_COUNT; tier++)
                cr_expect_eq(planned[tier], trained[tier], "%s, %d ranks, %s: %zu planned, %zu held", presets[i], world,
                             ledger_tier_name((enum ledger_tier)tier), (size_t)planned[tier], (size_t)trained[tier]);
        }
    }
    folder_remove(folder);
}

// The counts are from the models' own cards.
Test(fit, models_have_their_published_parameter_counts)
{
    cr_expect_eq(model_param_elements(find("gpt2-124m"), false), 124439808);
    cr_expect_eq(model_param_elements(find("gpt2-1.5b"), false), 1557611200);
    cr_expect_eq(model_param_elements(find("llama-8b"), false), 8030261248);
    cr_expect_eq(model_param_elements(find("llama-70b"), false), 70553706496);
}

Test(fit, every_layer_of_a_llama_has_its_parameters_once)
{
    const struct model *model = find("llama-8b");
    int seen = 0;
    cr_assert_eq(model->layer_count, 34);
    for (int layer = 0; layer < model->layer_count; layer++)
        for (int i = 0; i < model->layers[layer].param_count; i++) {
            cr_assert_eq(model->layers[layer].params[i], seen);
            cr_assert_eq(model->params[seen++].first_layer, layer);
        }
    cr_expect_eq(seen, model->param_count);
    cr_expect_eq(model_checkpoint_bytes(model, 0, 2), 0);
    cr_expect_eq(model_checkpoint_bytes(model, 1, 2), 2ul * 8192 * 4096 * 4);
}

// The papers' figures for mixed precision: 16 bytes a parameter on one rank, 2 + 14/N and 16/N on several.
Test(fit, large_models_need_the_papers_bytes_and_the_layers_in_use)
{
    const uint64_t psi = 8030261248;
    uint64_t two[TIER_COUNT], eight[TIER_COUNT];
    cr_assert_eq(fit_bytes(find("llama-8b"), "zero2", 2, two), ERR_NONE, "%s", err_message());
    cr_assert_eq(fit_bytes(find("llama-8b"), "zero2", 8, eight), ERR_NONE, "%s", err_message());
    cr_expect(two[TIER_DEVICE] - eight[TIER_DEVICE] >= 14 * (psi / 2 - psi / 8) &&
                  two[TIER_DEVICE] - eight[TIER_DEVICE] <= 14 * (psi / 2 - psi / 8) + (1 << 20),
              "%zu", (size_t)(two[TIER_DEVICE] - eight[TIER_DEVICE]));
    for (size_t i = 0; config_preset_name(i); i++)
        cr_expect_eq(fit_bytes(find("llama-8b"), config_preset_name(i), 2, two), ERR_NONE, "%s", err_message());
    cr_assert_eq(fit_bytes(find("llama-70b"), "zero_infinity", 64, eight), ERR_NONE, "%s", err_message());
    cr_expect_geq(eight[TIER_NVME], 16 * (uint64_t)70553706496 / 64);
    cr_expect_leq(eight[TIER_NVME], 16 * (uint64_t)70553706496 / 64 + (64 << 20));
}

static json_t *records_of(const struct fit_setting *setting)
{
    json_t *records = json_array();
    cr_assert_eq(fit_all(setting, records), ERR_NONE, "%s", err_message());
    return records;
}

static const json_t *record_of(const json_t *records, const char *preset)
{
    size_t i;
    json_t *record;
    json_array_foreach (records, i, record) {
        if (strcmp(json_string_value(json_object_get(record, "preset")), preset) == 0)
            return record;
    }
    cr_assert_fail("%s", preset);
    return NULL;
}

Test(fit, a_record_names_the_tier_that_is_short_and_by_how_much)
{
    static const char *const models[] = {"gpt-nano", NULL};
    uint64_t needs[TIER_COUNT];
    cr_assert_eq(fit_bytes(find("gpt-nano"), "zero_infinity", 2, needs), ERR_NONE);
    struct fit_setting setting = {models, 2, needs[0], needs[1], needs[2]};
    json_t *records = records_of(&setting);
    cr_expect_eq(json_array_size(records), 7);
    cr_expect(json_is_true(json_object_get(record_of(records, "zero_infinity"), "fits")));
    cr_expect_eq(json_integer_value(json_object_get(record_of(records, "zero_infinity"), "nvme_bytes")), needs[2]);
    json_decref(records);
    setting.host_bytes = needs[1] - 1024;
    records = records_of(&setting);
    cr_expect(json_is_false(json_object_get(record_of(records, "zero_infinity"), "fits")));
    cr_expect_str_eq(json_string_value(json_object_get(record_of(records, "zero_infinity"), "reason")),
                     "host is 1 KiB short");
    json_decref(records);
    setting.host_bytes = 0;
    records = records_of(&setting);
    const json_t *unknown = record_of(records, "zero_infinity");
    cr_expect(json_is_null(json_object_get(unknown, "fits")));
    cr_expect_str_eq(json_string_value(json_object_get(unknown, "reason")), "size of host unknown");
    json_decref(records);
}

Test(fit, unknown_models_presets_and_worlds_are_refused_by_name)
{
    const struct model *model;
    uint64_t needs[TIER_COUNT];
    cr_expect_eq(plan_model_find("llama-7", 1, &model), ERR_USAGE);
    cr_expect(strstr(err_message(), "\"llama-7\""), "%s", err_message());
    cr_expect(strstr(err_message(), "llama-70b") && strstr(err_message(), "gpt2-1.5b"), "%s", err_message());
    cr_expect_eq(fit_bytes(find("gpt-nano"), "zero9", 2, needs), ERR_USAGE);
    cr_expect_eq(fit_bytes(find("gpt-nano"), "zero1", 0, needs), ERR_USAGE);
    cr_expect_eq(fit_bytes(find("gpt-nano"), "zero1", 100000, needs), ERR_USAGE);
}

Test(fit, memory_is_divided_by_the_ranks)
{
    static const char *const paths[] = {".", NULL}, *const twice[] = {".", ".", NULL};
    struct fit_setting one = {0}, two = {0}, three = {0};
    cr_assert_eq(fit_available(1, "3M", "5M", paths, &one), ERR_NONE);
    cr_expect_eq(one.device_bytes, 3 << 20);
    cr_expect_eq(one.host_bytes, 5 << 20);
    cr_assert_eq(fit_available(1, NULL, NULL, twice, &two), ERR_NONE);
    cr_assert_eq(fit_available(64, NULL, NULL, paths, &three), ERR_NONE);
    cr_expect_geq(two.nvme_bytes, one.nvme_bytes + one.nvme_bytes / 2);
    cr_expect_leq(three.nvme_bytes, one.nvme_bytes / 60);
    cr_expect(two.host_bytes > 0 && three.host_bytes > 0 && three.host_bytes < two.host_bytes / 30);
    cr_expect_eq(fit_available(1, "many", NULL, paths, &one), ERR_USAGE);
}
