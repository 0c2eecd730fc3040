// SPDX-License-Identifier: Apache-2.0
// Tests of `bench swap`: states on NVMe equal those in memory with any number of buffers, a wrong bit is found and
// leaves no record, and records describe their cases.
#include "bench/table/benchmarks.h"
#include "bench/harness/bench.h"
#include "base/err.h"
#include "bench/harness/printed_test.h"
#include "ref/tier/storage_test.h"
#include "bench/storage/swap_states.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include <string.h>

static const char *const PATHS[] = {storage_folder};

static struct swap_setting setting_of(size_t count, int buffers, enum nvme_engine engine)
{
    return (struct swap_setting){
        .count = count,
        .on_nvme = true,
        .paths = PATHS,
        .path_count = 1,
        .sub_group_count = 2048,
        .buffer_count = buffers,
        .aio = {.block_bytes = 8192,
                .queue_depth = 4,
                .overlap_events = true,
                .intra_op_parallelism = 1,
                .engine = engine},
        .checksum = true,
        .threads = 1,
    };
}

// Opens a pair of sets and makes some steps of both.
struct pair {
    struct swap_states swapped, in_memory;
};

static void pair_open(struct swap_setting setting, int steps, struct pair *out)
{
    cr_assert_eq(swap_states_open(&setting, &out->swapped), ERR_NONE, "%s", err_message());
    setting.on_nvme = false;
    cr_assert_eq(swap_states_open(&setting, &out->in_memory), ERR_NONE, "%s", err_message());
    for (int step = 0; step < steps; step++) {
        cr_assert_eq(swap_states_begin(&out->swapped), ERR_NONE, "%s", err_message());
        cr_assert_eq(swap_states_begin(&out->in_memory), ERR_NONE, "%s", err_message());
        cr_assert_eq(swap_states_update(&out->swapped), ERR_NONE, "%s", err_message());
        cr_assert_eq(swap_states_transfer(&out->swapped), ERR_NONE, "%s", err_message());
        cr_assert_eq(swap_states_update(&out->in_memory), ERR_NONE, "%s", err_message());
    }
}

static void pair_close(struct pair *pair)
{
    swap_states_close(&pair->swapped);
    swap_states_close(&pair->in_memory);
}

Test(bench_swap, any_number_of_buffers_from_the_minimum_gives_the_same_bits)
{
    static const size_t counts[] = {1, 2048, 2049, 10007};
    static const int buffer_counts[] = {SWAP_BUFFERS_MIN, 4, 5, 8};
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++) {
        if (!storage_has((enum nvme_engine)engine))
            return;
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
            for (size_t j = 0; j < sizeof buffer_counts / sizeof buffer_counts[0]; j++) {
                struct pair pair;
                pair_open(setting_of(counts[i], buffer_counts[j], (enum nvme_engine)engine), 3, &pair);
                cr_expect_eq(swap_states_compare(&pair.swapped, &pair.in_memory), ERR_NONE, "%zu, %d buffers: %s",
                             counts[i], buffer_counts[j], err_message());
                pair_close(&pair);
            }
    }
}

Test(bench_swap, concurrent_transfers_leave_the_states_as_they_are)
{
    struct pair pair;
    pair_open(setting_of(10007, 4, NVME_LIBAIO), 0, &pair);
    cr_assert_eq(swap_states_transfer(&pair.swapped), ERR_NONE, "%s", err_message());
    cr_expect_eq(swap_states_compare(&pair.swapped, &pair.in_memory), ERR_NONE, "%s", err_message());
    cr_assert_eq(swap_states_begin(&pair.swapped), ERR_NONE, "%s", err_message());
    cr_assert_eq(swap_states_update(&pair.swapped), ERR_NONE, "%s", err_message());
    cr_expect_eq(swap_states_compare(&pair.swapped, &pair.in_memory), ERR_CHECK, "a step changes them");
    pair_close(&pair);
}

Test(bench_swap, one_wrong_bit_of_any_state_is_found_and_named)
{
    struct pair pair;
    pair_open(setting_of(10007, 3, NVME_LIBAIO), 2, &pair);
    float *const states[] = {pair.in_memory.placement.master, pair.in_memory.placement.exp_avg,
                             pair.in_memory.placement.exp_avg_sq};
    static const char *const names[] = {"fp32 master parameters[10006]", "exp_avg[10006]", "exp_avg_sq[10006]"};
    for (int i = 0; i < 3; i++) {
        uint32_t *bits = (uint32_t *)&states[i][10006];
        *bits ^= 1;
        cr_expect_eq(swap_states_compare(&pair.swapped, &pair.in_memory), ERR_CHECK);
        cr_expect(strstr(err_message(), names[i]), "%s", err_message());
        *bits ^= 1;
    }
    ((uint16_t *)pair.in_memory.placement.parameter)[5] ^= 1;
    cr_expect_eq(swap_states_compare(&pair.swapped, &pair.in_memory), ERR_CHECK);
    cr_expect(strstr(err_message(), "parameter[5]"), "%s", err_message());
    pair_close(&pair);
}

static const char *const first_words[] = {"swap",     "--nvme-path", storage_folder, "--sizes", "10007",
                                          "--repeat", "2",           "--threads",    "1",       NULL};

static int run(const char *words, char **text)
{
    return printed_run(bench_swap.run, first_words, words, text);
}

Test(bench_swap, a_json_line_names_the_case_and_its_baseline)
{
    char *text;
    cr_assert_eq(run("--buffers 3 --sub-groups 2K --engine libaio --json --no-swap-checksum", &text), 0);
    json_t *line = json_loads(text, 0, NULL), *samples, *limits;
    cr_assert_not_null(line, "%s", text);
    const char *name, *engine, *unit, *baseline;
    json_int_t params, sub_group;
    int buffers, checksum, buffered, verified;
    double median, limit, transfer, adam, ratio, bytes;
    static const char *const form = "{s:s, s:{s:I, s:I, s:i, s:s, s:b, s:b}, s:{s:F, s:f, s:f}, s:o, s:f, s:s, s:b, "
                                    "s:{s:s, s:o, s:f}, s:f}";
    cr_assert_eq(json_unpack(line, form, "name", &name, "case", "params", &params, "sub_group_params", &sub_group,
                             "buffers", &buffers, "engine", &engine, "checksum", &checksum, "buffered", &buffered,
                             "detail", "read_and_written_bytes", &bytes, "transfer_ms", &transfer, "adam_ms", &adam,
                             "samples", &samples, "median", &median, "unit", &unit, "verified", &verified, "yardstick",
                             "name", &baseline, "samples", &limits, "median", &limit, "ratio", &ratio),
                 0, "%s", text);
    cr_expect_str_eq(name, "swap");
    cr_expect_str_eq(engine, "libaio");
    cr_expect_str_eq(unit, "ms");
    cr_expect_eq(params, 10007);
    cr_expect_eq(sub_group, 2048);
    cr_expect_eq(buffers, 3);
    cr_expect(!checksum && !buffered && verified);
    // 10007 parameters of 4 bytes round up to 40960.
    cr_expect_eq(bytes, 2 * 3 * 40960);
    cr_expect(json_array_size(samples) == 2 && json_array_size(limits) == 2);
    cr_expect_float_eq(ratio, limit / median, 1e-4 * ratio);
    for (size_t i = 0; i < 2; i++)
        cr_expect_gt(json_real_value(json_array_get(limits, i)), 0);
    cr_expect(transfer > 0 && adam > 0);
    json_decref(line);
    free(text);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        count++;
    return count;
}

Test(bench_swap, listed_values_are_combined_and_the_rest_varies_one_at_a_time)
{
    char *text;
    cr_assert_eq(run("--buffers 3,5 --sub-groups 2K,4K --engine libaio", &text), 0);
    // With and without checksums.
    cr_expect_eq(count_of(text, " %  swap  "), 8, "%s", text);
    cr_expect_eq(count_of(text, "buffers=5  engine=libaio  checksum=yes"), 2, "%s", text);
    cr_expect_eq(count_of(text, "Adam alone"), 8, "%s", text);
    free(text);
}

Test(bench_swap, a_bit_that_flips_on_the_disk_leaves_no_record)
{
    char *text;
    cr_expect_eq(run("--quick --engine libaio --inject nvme:flip@1 --no-swap-checksum --json", &text), 1);
    cr_expect_str_eq(text, "");
    free(text);
    cr_expect_eq(run("--quick --engine libaio --inject nvme:flip@1", &text), 2,
                 "the checksum is wrong when the block is read");
    cr_expect_str_eq(text, "");
    free(text);
}

Test(bench_swap, bad_input_is_refused)
{
    static const char *const bad[] = {"--buffers 2",   "--buffers x", "--engine posix",           "--sub-groups 0",
                                      "--inject disk", "--depth -1",  "--nvme-path /nonexistent", NULL};
    printed_expect_refused(bench_swap.run, first_words, bad);
}
