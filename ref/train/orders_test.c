// SPDX-License-Identifier: Apache-2.0
// Every order of operations that the dependencies of real steps allow has the versions of the order of issue: for the
// presets, and for what runs over from one step into the next. Each row runs once, in that order, and prints the sizes
// of what was explored.
#include "base/folder_test.h"
#include "ref/executor/executor_log.h"
#include "ref/executor/explore.h"
#include "ref/train/offload_test.h"

#include <limits.h>
#include <string.h>

enum { WORLD_MAX = 4, STATE_LIMIT = 1 << 18 };

// GPTs of two buckets or more. In fp16 the scale is too large at first: the first steps are skipped, and later ones are
// clipped.
#define ROW(...)                                                                                                       \
    OFFLOAD_TRIAL(.model = "gpt-nano:layers=1", .world = 1, .schedule = {EXECUTOR_LOG, 0}, .steps = 4, __VA_ARGS__)
#define SKIPS .precision = DTYPE_FP16, .communication = DTYPE_FP16, .sum = DTYPE_FP32, .overflows = true, .clip = 0.1
#define ON_NVME OFFLOAD_ON_NVME, .param_buffers = 4

static const struct row {
    const char *name;
    struct offload_trial trial;
} rows[] = {
    {"data parallelism", ROW(.stage = 0, SKIPS)},
    {"ZeRO-1", ROW(.stage = 1, .world = 2, SKIPS)},
    {"ZeRO-2, accumulation", ROW(.stage = 2, .world = 2, .accumulation = 2, SKIPS)},
    {"ZeRO-3", ROW(.world = 2, SKIPS)},
    {"ZeRO-3, small buckets", ROW(.world = 2, .bucket = 700, .prefetch = 100, SKIPS)},
    {"ZeRO-Offload", ROW(.stage = 2, OFFLOAD_ON_HOST, SKIPS)},
    {"ZeRO-Offload, delayed update", ROW(.stage = 2, OFFLOAD_ON_HOST, .delay = 2, SKIPS)},
    {"ZeRO-Offload, speculative", ROW(.stage = 2, OFFLOAD_ON_HOST, .speculative = true, SKIPS)},
    {"ZeRO-3 Offload", ROW(.parameter = TIER_HOST, OFFLOAD_ON_HOST, SKIPS)},
    {"ZeRO-Infinity", ROW(ON_NVME, SKIPS)},
    {"ZeRO-Infinity, least buffers", ROW(ON_NVME, .param_buffers = 1, .live = 1, .prefetch = 0, SKIPS)},
    {"ZeRO-Infinity, no overlap of reads", ROW(ON_NVME, .pipeline_read = false, .pipeline_write = false, SKIPS)},
    {"ZeRO-Infinity, speculative", ROW(ON_NVME, .speculative = true, SKIPS)},
    {"ZeRO-Infinity, accumulation", ROW(ON_NVME, .accumulation = 2, SKIPS)},
    {"ZeRO-Infinity, checkpoints on NVMe", ROW(ON_NVME, .checkpointing = true, .activation = TIER_NVME, SKIPS)},
    {"ZeRO-Infinity, two ranks", ROW(ON_NVME, .world = 2, SKIPS)},
    {"replicas", ROW(.stage = 2, .world = 4, .replicas = 2, .accumulation = 2, .steps = 6, OFFLOAD_ON_HOST, SKIPS)},
    {"hpZ", ROW(.world = 4, .secondary = 2, .steps = 6, SKIPS)},
    {"ZeRO++", ROW(.world = 4, .steps = 6, .node = 2, .quantized_weights = true, .quantized_gradients = true,
                   .block = 64, SKIPS)},
    {"tensor parallelism", ROW(.stage = 1, .model = "gpt-nano:layers=1,blocks=2", .world = 2, .tensor = 2, SKIPS)},
    {"Muon, matrices in slices",
     ROW(.stage = 1, .model = "gpt-nano:layers=1,blocks=2", .world = 2, .tensor = 2, .muon = true, SKIPS)},
    {"pipeline parallelism", ROW(.stage = 1, .model = "gpt-nano", .world = 2, .pipeline = 2, .accumulation = 2, SKIPS)},
    {"parts of the states", ROW(.model = "gpt-nano", OFFLOAD_ON_HOST, .ratio = 0.5, SKIPS)},
};

static void demand(const char *name, int rank, const struct executor_log *log)
{
    struct explorer *explorer;
    struct explored proof;
    struct walked walked;
    struct left_out left_out;
    cr_assert_eq(explorer_open(log, &explorer), ERR_NONE);
    cr_assert_eq(explorer_prove(explorer, &proof), ERR_NONE);
    cr_expect(proof.right, "%s, rank %d: %s", name, rank, proof.message);
    cr_assert_eq(explorer_walk(explorer, STATE_LIMIT, &walked), ERR_NONE);
    cr_expect_eq(walked.right, proof.right, "%s, rank %d: %s", name, rank, walked.message);
    cr_assert_eq(explorer_leave_out(explorer, &left_out), ERR_NONE);
    cr_expect_eq(left_out.missed, 0u, "%s, rank %d", name, rank);
    cr_expect_gt(left_out.found, 10u, "%s, rank %d", name, rank);
    cr_expect_gt(proof.touch_count, 5u, "%s, rank %d", name, rank);
    if (rank == 0)
        printf(
            "%-36s %5zu operations, %3zu waits, %4zu touches, %7zu conflicts; %s%9llu states, %s%.1e orders; left out: "
            "%4zu found, %4zu implied, %2zu idle, %zu missed\n",
            name, proof.operation_count, proof.wait_count, proof.touch_count, proof.conflict_count,
            walked.complete ? "" : "first ", (unsigned long long)walked.state_count, walked.complete ? "" : "over ",
            walked.orders, left_out.found, left_out.implied, left_out.idle, left_out.missed);
    explorer_close(explorer);
}

// folder: of checkpoints, one of which is continued; null: there are none.
static void explore_row(const struct row *row, const char *folder)
{
    struct executor_log logs[WORLD_MAX] = {0};
    struct train_result result;
    const struct train_setting setting = {.logs = logs, .swap_checksum = true};
    int rc = folder ? offload_run_saving(&row->trial, setting, folder, 2, &result)
                    : offload_run_with(&row->trial, setting, &result);
    cr_assert_eq(rc, ERR_NONE, "%s: %s", row->name, rc ? err_message() : "");
    cr_expect(result.skipped_steps > 0 && result.skipped_steps < row->trial.steps, "%s: %d steps skipped", row->name,
              (int)result.skipped_steps);
    for (int rank = 0; rank < row->trial.world; rank++) {
        demand(row->name, rank, &logs[rank]);
        executor_log_close(&logs[rank]);
    }
    fflush(stdout);
}

Test(orders, every_order_of_a_step_has_the_versions_of_the_order_of_issue)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        explore_row(&rows[i], NULL);
}

static bool is_no_digest(const char *name)
{
    return strcmp(name, "digest") != 0;
}

// Ends the text behind the last operation: what follows are waits for states, when the last step is over.
static void end_with_operation(char *text)
{
    char *end = text;
    for (char *line = text, *next; (next = strchr(line, '\n')); line = next + 1)
        if (!strstr(line, " wait:") || strstr(line, " wait:") > next)
            end = next + 1;
    *end = '\0';
}

// A rank's operations and waits, with what each depends on.
static void tell(const struct row *row, enum train_verification verify, char *out[WORLD_MAX])
{
    struct executor_log logs[WORLD_MAX] = {0};
    struct train_result result =
        offload_succeed(&row->trial, (struct train_setting){.verify = verify, .logs = logs, .swap_checksum = true});
    cr_assert_not(result.difference.found, "%s", row->name);
    for (int rank = 0; rank < row->trial.world; rank++) {
        struct explorer *explorer;
        cr_assert_eq(explorer_open(&logs[rank], &explorer), ERR_NONE);
        cr_assert_eq(explorer_dependencies(explorer, is_no_digest, &out[rank]), ERR_NONE);
        end_with_operation(out[rank]);
        explorer_close(explorer);
        executor_log_close(&logs[rank]);
    }
}

Test(orders, a_verified_run_has_the_operations_and_dependencies_of_one_that_is_not)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *plain[WORLD_MAX], *verified[WORLD_MAX];
        tell(&rows[i], TRAIN_VERIFY_NOT, plain);
        tell(&rows[i], TRAIN_VERIFY, verified);
        for (int rank = 0; rank < rows[i].trial.world; rank++) {
            cr_expect_gt(strlen(plain[rank]), 500u);
            cr_expect_str_eq(verified[rank], plain[rank], "%s, rank %d", rows[i].name, rank);
            free(plain[rank]);
            free(verified[rank]);
        }
    }
}

// A run saves after its steps, and another one of the same row continues from there.
static void continue_row(const struct row *row)
{
    struct row longer = *row;
    char folder[PATH_MAX];
    longer.trial.steps = 2 * row->trial.steps;
    folder_make(folder);
    explore_row(row, folder);
    explore_row(&longer, folder);
    folder_remove(folder);
}

Test(orders, every_order_of_a_step_after_a_checkpoint_has_the_versions_of_the_order_of_issue)
{
    static const char *const names[] = {"ZeRO-3", "ZeRO-Offload, speculative", "ZeRO-Offload, delayed update",
                                        "ZeRO-Infinity"};
    size_t found = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            if (strcmp(rows[i].name, names[k]) == 0) {
                continue_row(&rows[i]);
                found++;
            }
    cr_assert_eq(found, sizeof names / sizeof names[0]);
}
