// SPDX-License-Identifier: Apache-2.0
// The memory that stays resident when a run has ended.
#include "base/err.h"
#include "base/process/launch_watch.h"
#include "ref/arithmetic/onednn.h"
#include "ref/model/names/model_find.h"
#include "ref/train/mesh_test.h"
#include "ref/train/train.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

// In bf16 the first block that is freed has all parameters, so that malloc takes those of unsharded Adam from its
// heaps, and what oneDNN keeps of each product lies behind them.
static void run_verified(const char *name)
{
    struct train_result result;
    struct config config;
    const struct model *model;
    struct text *text;
    const char *set[] = {"train_micro_batch_size_per_gpu=1"};
    const struct config_options options = {.world = 1, .set = set, .set_count = 1};
    cr_assert_eq(config_load_preset("zero0", &options, &config, NULL), ERR_NONE, "%s", err_message());
    cr_assert_eq(config.precision, DTYPE_BF16);
    cr_assert_eq(model_find(name, &model), ERR_NONE, "%s", err_message());
    cr_assert_eq(text_open(NULL, &text), ERR_NONE, "%s", err_message());
    const struct train_setting setting = {.config = &config,
                                          .model = model,
                                          .text = text,
                                          .world = 1,
                                          .steps = 1,
                                          .threads = 1,
                                          .bf16_products = true,
                                          .verify = true};
    cr_assert_eq(train_run(&setting, &result), ERR_NONE, "%s", err_message());
    cr_assert(!result.difference.found && result.accounting_equal);
    free(result.step_ns);
    text_close(text);
}

// The processor has the products of bf16, and the kernel restarts its count of the most that was resident. A sanitizer
// keeps freed memory.
static bool can_be_measured(void)
{
    if (!SANITIZED && onednn_load() == ERR_NONE && process_peak_restart() == ERR_NONE)
        return true;
    printf("TEST SKIPPED: %s\n", SANITIZED ? "a sanitizer keeps freed memory" : err_message());
    return false;
}

static uint64_t resident_bytes(void)
{
    cr_assert_eq(process_peak_restart(), ERR_NONE, "%s", err_message());
    return process_peak(getpid());
}

// Unsharded Adam has 24 bytes for each of 6 million parameters. What is left is of libraries, such as buffers for
// products.
Test(memory_train, a_run_leaves_none_of_what_it_freed)
{
    enum { LEFT_BYTES_MAX = 48 << 20, COMPARED_BYTES_MIN = 128 << 20 };
    if (!can_be_measured())
        return;
    run_verified("gpt:layers=1,width=32,heads=1,length=16");
    uint64_t before_bytes = resident_bytes();
    run_verified("gpt:layers=2,width=512,heads=4,length=16");
    uint64_t peak_bytes = process_peak(getpid()), after_bytes = resident_bytes();
    cr_assert_geq(peak_bytes, before_bytes + COMPARED_BYTES_MIN, "%llu bytes at most, %llu before",
                  (unsigned long long)peak_bytes, (unsigned long long)before_bytes);
    cr_expect_leq(after_bytes, before_bytes + LEFT_BYTES_MAX, "%llu bytes are resident, %llu were before",
                  (unsigned long long)after_bytes, (unsigned long long)before_bytes);
}
