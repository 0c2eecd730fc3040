// SPDX-License-Identifier: Apache-2.0
#include "ref/train/find_largest.h"

#include "base/err.h"
#include "ref/model/gpt_find.h"
#include "ref/tier/storage_test.h"
#include "ref/train/train_report.h"

#include <criterion/criterion.h>

static struct config config;
static struct text *text;

// The setting of a preset at micro-batch 1, on a text of its own.
static struct train_setting setting_of(const char *preset, int world)
{
    static const char *const set[] = {"train_micro_batch_size_per_gpu=1"}, *const folder[] = {storage_folder};
    const struct config_options options = {
        .world = world, .set = set, .set_count = 1, .nvme_paths = folder, .nvme_path_count = 1};
    cr_assert_eq(config_load_preset(preset, &options, &config, NULL), ERR_NONE, "%s", err_message());
    if (!text) {
        char path[] = "/tmp/zg-text-XXXXXX";
        FILE *file = fdopen(mkstemp(path), "w");
        for (int i = 0; i < 1000; i++)
            fprintf(file, "line %d of the text\n", i);
        fclose(file);
        cr_assert_eq(text_open(path, &text), ERR_NONE, "%s", err_message());
        unlink(path);
    }
    return (struct train_setting){.config = &config,
                                  .world = world,
                                  .text = text,
                                  .seed = 1,
                                  .schedule = {EXECUTOR_OVERLAP, 0},
                                  .threads = 1,
                                  .swap_checksum = true};
}

static void close_text(void)
{
    text_close(text);
}

// The family's place of the largest model that fits, from 0, by trying one after the other.
static int largest_by_hand(struct train_setting setting)
{
    for (int index = 0;; index++) {
        struct train_result result;
        cr_assert_eq(gpt_family(index, &setting.model), ERR_NONE);
        setting.steps = 1;
        int rc = train_run(&setting, &result);
        free(result.step_ns);
        cr_assert(rc == ERR_NONE || rc == ERR_BUDGET, "%s", err_message());
        if (rc == ERR_BUDGET)
            return index - 1;
    }
}

static int position_of(const struct model *wanted)
{
    const struct model *model;
    for (int index = 0;; index++) {
        cr_assert(gpt_family(index, &model) == ERR_NONE && model);
        if (model == wanted)
            return index;
    }
}

Test(find_largest, it_is_the_last_that_fits_and_the_one_after_it_does_not, .fini = close_text)
{
    static const uint64_t budgets[] = {8 << 20, 15 << 20};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        struct find_largest found;
        struct train_setting setting = setting_of(i % 2 ? "zero1" : "zero3", 2);
        setting.device_memory_bytes = budgets[i];
        cr_assert_eq(find_largest(&setting, &found), ERR_NONE, "%s", err_message());
        int position = position_of(found.largest.model);
        cr_assert_eq(position, largest_by_hand(setting));
        cr_assert_eq(position_of(found.next.model), position + 1);
        cr_assert(found.largest.fits && !found.next.fits);
        cr_assert_eq(found.largest.param_elements, model_param_elements(found.largest.model, false));
        cr_assert(strstr(found.next.refusal, "device memory"), "%s", found.next.refusal);
    }
}

// The bytes that it holds are exactly the budget that it needs, on each tier.
Test(find_largest, bytes_held_are_the_budget_that_is_needed, .fini = close_text)
{
    struct find_largest found, exact, less;
    struct train_setting setting = setting_of("zero_infinity", 1);
    setting.device_memory_bytes = 5 << 20;
    cr_assert_eq(find_largest(&setting, &found), ERR_NONE, "%s", err_message());
    setting.device_memory_bytes = found.largest.held_bytes[TIER_DEVICE];
    setting.host_memory_bytes = found.largest.held_bytes[TIER_HOST];
    setting.nvme_space_bytes = found.largest.held_bytes[TIER_NVME];
    cr_assert_eq(find_largest(&setting, &exact), ERR_NONE, "%s", err_message());
    cr_assert_eq(exact.largest.model, found.largest.model);
    uint64_t *const budgets[] = {&setting.device_memory_bytes, &setting.host_memory_bytes, &setting.nvme_space_bytes};
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        cr_assert_gt(*budgets[tier], 0);
        --*budgets[tier];
        // The device's bytes do not depend on the depth: all models of that width are too large.
        int rc = find_largest(&setting, &less);
        cr_assert(tier == TIER_DEVICE ? rc == ERR_BUDGET : rc == ERR_NONE, "%s", ledger_tier_name(tier));
        if (rc == ERR_NONE)
            cr_assert_eq(position_of(less.largest.model), position_of(found.largest.model) - 1, "%s",
                         ledger_tier_name(tier));
        ++*budgets[tier];
    }
}

Test(find_largest, a_family_too_large_is_an_error, .fini = close_text)
{
    struct find_largest found;
    struct train_setting setting = setting_of("zero1", 1);
    setting.device_memory_bytes = 1 << 20;
    cr_assert_eq(find_largest(&setting, &found), ERR_BUDGET);
    cr_assert(strstr(err_message(), "not even gpt:layers=2,width=128"), "%s", err_message());
}
