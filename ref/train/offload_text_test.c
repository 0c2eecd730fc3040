// SPDX-License-Identifier: Apache-2.0
// A run of middle size: a GPT of ten million parameters with everything on NVMe, on text.
#include "ref/train/offload_test.h"
#include "ref/model/names/model_find.h"

// The preset at world 2 on the program's own text, a few sequences a step.
static void run(const char *preset, struct train_result *result)
{
    static const char *const folder[] = {storage_folder}, *const set[] = {"train_micro_batch_size_per_gpu=2"};
    const struct config_options options = {
        .world = 2, .set = set, .set_count = 1, .nvme_paths = folder, .nvme_path_count = 1};
    struct config config;
    struct text *text;
    cr_assert_eq(config_load_preset(preset, &options, &config, NULL), ERR_NONE, "%s", err_message());
    struct train_setting setting = {.config = &config,
                                    .world = 2,
                                    .steps = 20,
                                    .seed = 1,
                                    .schedule = {EXECUTOR_OVERLAP, 0},
                                    .threads = 1,
                                    .swap_checksum = true};
    cr_assert_eq(model_find("gpt-10m", &setting.model), ERR_NONE);
    cr_assert_eq(text_open(NULL, &text), ERR_NONE, "%s", err_message());
    setting.text = text;
    int rc = train_run(&setting, result);
    text_close(text);
    free(result->step_ns);
    cr_assert_eq(rc, ERR_NONE, "%s", rc ? err_message() : "");
    cr_assert(result->accounting_equal);
}

Test(offload_text, ten_million_parameters_on_nvme_learn_as_they_do_in_memory_long, .timeout = 580)
{
    struct train_result infinity, memory;
    run("zero_infinity", &infinity);
    cr_expect_eq(infinity.steps, 20);
    cr_expect_lt(infinity.loss, infinity.first_loss - 1.5, "%f to %f", infinity.first_loss, infinity.loss);
    // No state of the model is on the device, or on the host; all of it is on NVMe.
    for (int tier = TIER_DEVICE; tier <= TIER_HOST; tier++)
        for (int kind = KIND_PARAMETER; kind <= KIND_MASTER; kind++)
            cr_expect_eq(infinity.held_bytes[tier][kind], 0);
    cr_expect_geq(infinity.held_bytes[TIER_NVME][KIND_OPTIMIZER], 8 * infinity.param_elements / 2);
    run("zero3", &memory);
    cr_expect_str_eq(infinity.digest, memory.digest);
    cr_expect_eq(infinity.loss, memory.loss);
    cr_expect_eq(memory.held_bytes[TIER_NVME][KIND_OPTIMIZER], 0);
}
