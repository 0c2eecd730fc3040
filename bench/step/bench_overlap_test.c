// SPDX-License-Identifier: Apache-2.0
// Tests of `bench overlap`: a timeline's lanes add up, records have their fields, and a run with wrong bits leaves no
// record; on the shadow accelerator, too.
#include "bench/table/benchmarks.h"
#include "bench/step/lane_table.h"
#include "bench/step/overlap_run.h"
#include "bench/harness/printed_test.h"
#include "ref/arithmetic/shadow_test.h"
#include "ref/tier/storage_test.h"
#include "bench/harness/json_test.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

Test(bench_overlap, a_lanes_share_is_the_union_of_its_intervals_on_the_busiest_rank)
{
    enum { MS = 1000000 };
    struct executor_interval first[] = {
        {"between", 0, 9 * MS, 8, 0, 0}, {"a", 10 * MS, 14 * MS, 100, 0, 0}, {"b", 13 * MS, 15 * MS, 20, 0, 0}};
    struct executor_interval second[] = {{"c", 11 * MS, 19 * MS, 40, 0, 0}},
                             compute[] = {{"d", 12 * MS, 13 * MS, 0, 0, 0}};
    struct trace_step steps[] = {{1, 0, 8 * MS}, {2, 10 * MS, 20 * MS}};
    struct trace_step late[] = {{1, 1, 8 * MS}, {2, 10 * MS, 21 * MS}};
    struct trace_rank ranks[] = {
        {.intervals = {[LANE_H2D] = first, [LANE_COMPUTE] = compute},
         .interval_count = {[LANE_H2D] = 3, [LANE_COMPUTE] = 1},
         .steps = steps,
         .step_count = 2},
        {.intervals = {[LANE_H2D] = second}, .interval_count = {[LANE_H2D] = 1}, .steps = late, .step_count = 2},
    };
    const struct trace trace = {2, ranks};
    struct lane_table table;
    lane_table_of(&trace, 1, &table);
    cr_expect_eq(table.step_ms.count, 1);
    cr_expect_float_eq(table.step_ms.values[0], 11, 1e-9);
    cr_expect_float_eq(table.busy_ms[LANE_H2D].values[0], 8, 1e-9);
    cr_expect_float_eq(table.busy_ms[LANE_COMPUTE].values[0], 1, 1e-9);
    cr_expect_float_eq(table.bytes[LANE_H2D], (8 + 120 + 40) / 2.0, 1e-9);
    cr_expect_eq(lane_table_busiest(&table), LANE_H2D);
    lane_table_of(&trace, 0, &table);
    cr_expect_float_eq(table.busy_ms[LANE_H2D].values[0], 8, 1e-9);
    cr_expect_float_eq(table.bytes[LANE_H2D], 0, 1e-9);
}

Test(bench_overlap, a_timeline_has_the_intervals_of_the_last_step)
{
    enum { MS = 1000000 };
    // Before the step; across its start; then two less than a 250th of 1000 ms apart; one more.
    struct executor_interval h2d[] = {{"a", 0, 90 * MS, 1, 0, 0},
                                      {"b", 95 * MS, 110 * MS, 1, 0, 0},
                                      {"c", 200 * MS, 300 * MS, 1, 0, 0},
                                      {"d", 303 * MS, 400 * MS, 1, 0, 0},
                                      {"e", 405 * MS, 1200 * MS, 1, 0, 0}};
    struct trace_step steps[] = {{1, 0, 100 * MS}, {2, 100 * MS, 1100 * MS}};
    struct trace_rank rank = {
        .intervals = {[LANE_H2D] = h2d}, .interval_count = {[LANE_H2D] = 5}, .steps = steps, .step_count = 2};
    const struct trace trace = {1, &rank};
    json_t *timeline = lane_table_timeline(&trace, 1);
    char *text = json_dumps(timeline, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    cr_expect_str_eq(text, "[{\"lane\":\"h2d\",\"begin_ms\":0.0,\"end_ms\":10.0},"
                           "{\"lane\":\"h2d\",\"begin_ms\":100.0,\"end_ms\":300.0},"
                           "{\"lane\":\"h2d\",\"begin_ms\":305.0,\"end_ms\":1000.0}]");
    json_decref(timeline);
    free(text);
}

static const char text_path[] = ZG_SOURCE_DIR "/README.md";
static const char *const first_words[] = {"overlap",     "--nvme-path", storage_folder, "--model", "gpt-nano",
                                          "--sequences", "2",           "--repeat",     "2",       "--text",
                                          text_path,     NULL};
static const struct bench_device *used_device;  // null: the one that --device names

static int bench(int argc, const char **argv)
{
    return bench_overlap_on(used_device, argc, argv);
}

static int run_on(const struct bench_device *device, const char *words, char **text)
{
    used_device = device;
    return printed_run(bench, first_words, words, text);
}

static int run(const char *words, char **text)
{
    return run_on(NULL, words, text);
}

Test(bench_overlap, a_json_line_has_every_lane_and_names_emulated_ones)
{
    char *text;
    cr_assert_eq(run("--emulate nvme-read=0.02,h2d=0.1 --world 2 --json", &text), 0);
    json_t *line = json_loads(text, 0, NULL), *samples, *lanes;
    cr_assert_not_null(line, "%s", text);
    const char *name, *model, *how, *unit, *baseline;
    int world, verified;
    json_int_t tokens;
    double serial, gain, median, limit, ratio;
    static const char *const form =
        "{s:s, s:{s:s, s:i, s:I, s:s}, s:{s:f, s:f, s:o}, s:o, s:f, s:s, s:b, s:{s:s, s:f}, s:f}";
    cr_assert_eq(json_unpack(line, form, "name", &name, "case", "model", &model, "world", &world, "tokens_a_rank",
                             &tokens, "lanes", &how, "detail", "serial_ms", &serial, "gain_over_serial", &gain,
                             "by_lane", &lanes, "samples", &samples, "median", &median, "unit", &unit, "verified",
                             &verified, "yardstick", "name", &baseline, "median", &limit, "ratio", &ratio),
                 0, "%s", text);
    cr_expect_str_eq(name, "overlap");
    cr_expect_str_eq(model, "gpt-nano");
    cr_expect_str_eq(how, "EMULATED h2d=0.1,nvme-read=0.02");
    cr_expect_str_eq(unit, "ms_per_step");
    cr_expect(strstr(baseline, "busy time of "), "%s", baseline);
    cr_expect(world == 2 && tokens == 32 && verified && json_array_size(samples) == 2);
    cr_expect(serial > 0 && median > 0 && limit > 0 && limit <= median && ratio > 0 && ratio <= 1);
    cr_expect_float_eq(gain, serial / median, 1e-4 * gain);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        double busy, share, bytes;
        cr_assert_eq(json_unpack(json_object_get(lanes, ledger_lane_name((enum lane)lane)), "{s:f, s:f, s:f}",
                                 "busy_ms", &busy, "share", &share, "bytes", &bytes),
                     0, "%s", text);
        cr_expect(busy > 0 && share > 0 && share <= 1, "%s", ledger_lane_name((enum lane)lane));
        const char *lane_name = ledger_lane_name((enum lane)lane);
        bool drawn = false;
        size_t index;
        json_t *interval;
        json_array_foreach (json_object_get(line, "timeline"), index, interval)
            drawn |= strcmp(json_string_value(json_object_get(interval, "lane")), lane_name) == 0;
        cr_expect(drawn, "%s is not in the timeline", lane_name);
        cr_expect_eq(bytes > 0, lane != LANE_COMPUTE && lane != LANE_CPU, "%s", ledger_lane_name((enum lane)lane));
    }
    json_decref(line);
    free(text);
}

Test(bench_overlap, the_table_has_a_row_per_lane_and_a_timeline_is_written)
{
    char trace_path[] = "/tmp/zg-overlap-trace-XXXXXX", *text;
    close(mkstemp(trace_path));
    unlink(trace_path);
    char words[99];
    snprintf(words, sizeof words, "--emulate none --eager --trace %s", trace_path);
    cr_assert_eq(run(words, &text), 0);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        char row[32];
        snprintf(row, sizeof row, "\n    %-10s ", ledger_lane_name((enum lane)lane));
        cr_expect(strstr(text, row), "no \"%s\" in\n%s", row + 1, text);
    }
    cr_expect(strstr(text, "eager=yes  checksum=yes  buffered=no  lanes=as they are"), "%s", text);
    cr_expect_null(strstr(text, "EMULATED"), "%s", text);
    json_t *events = json_load_file(trace_path, 0, NULL);
    unlink(trace_path);
    cr_expect_gt(json_array_size(events), 100);
    json_decref(events);
    free(text);
}

Test(bench_overlap, a_bit_that_flips_on_the_disk_leaves_no_record)
{
    // A fault in the first states that are written: later blocks may contain padding.
#define FLIPS "--inject nvme:flip@1,nvme:flip@2,nvme:flip@3,nvme:flip@4,nvme:flip@5,nvme:flip@6,nvme:flip@7"
    char *text;
    cr_expect_eq(run("--emulate none " FLIPS " --no-swap-checksum", &text), 1);
    cr_expect_str_eq(text, "");
    free(text);
    cr_expect_eq(run("--emulate none " FLIPS " --json", &text), 2);
    cr_expect_str_eq(text, "");
    free(text);
}

Test(bench_overlap, on_an_accelerator_lanes_are_not_emulated_and_the_record_names_it)
{
    const struct bench_device device = {&shadow_accelerator, 2};
    char *text;
    cr_assert_eq(run_on(&device, "--world 2 --json", &text), 0);
    // One line; on the CPU there is a second, with the lanes of another machine.
    json_t *line = json_loads(text, 0, NULL);
    cr_assert_not_null(line, "%s", text);
    cr_expect_str_eq(case_text(line, "lanes"), "as they are");
    cr_expect_str_eq(case_text(line, "device"), "shadow");
    cr_expect_eq(json_integer_value(json_object_get(json_object_get(line, "case"), "devices")), 2);
    cr_expect(json_is_true(json_object_get(line, "verified")));
    const json_t *detail = json_object_get(line, "detail"), *lanes = json_object_get(detail, "by_lane");
    cr_expect_eq(json_integer_value(json_object_get(detail, "unlocked_bytes")), 0);
    cr_expect_gt(json_number_value(json_object_get(json_object_get(lanes, "h2d"), "bytes")), 0);
    cr_expect_eq(shadow.block_count, 0, "%d allocations are left", shadow.block_count);
    cr_expect_eq(shadow.lock_count, shadow.unlock_count);
    json_decref(line);
    free(text);
}

static int refuse_to_lock(void *memory, size_t bytes)
{
    (void)memory, (void)bytes;
    return err_set(ERR_IO, "the device pins no more memory");
}

Test(bench_overlap, the_record_counts_host_memory_that_an_accelerator_refused_to_pin)
{
    struct accelerator accelerator = shadow_accelerator;
    accelerator.lock = refuse_to_lock;
    const struct bench_device device = {&accelerator, 1};
    char *text;
    cr_assert_eq(run_on(&device, "--json", &text), 0);
    json_t *line = json_loads(text, 0, NULL);
    const json_t *detail = json_object_get(line, "detail");
    cr_expect_gt(json_integer_value(json_object_get(detail, "unlocked_bytes")), 0, "%s", text);
    json_decref(line);
    free(text);
}

Test(bench_overlap, lanes_are_emulated_on_an_accelerator_with_emulate)
{
    const struct bench_device device = {&shadow_accelerator, 1};
    char *text;
    cr_assert_eq(run_on(&device, "--emulate nvme-read=0.5", &text), 0);
    cr_expect(strstr(text, "lanes=EMULATED nvme-read=0.5  device=shadow  devices=1"), "%s", text);
    cr_expect(strstr(text, " Gflop/s on shadow\n"), "%s", text);
    free(text);
}

// Counts matrix products; a late one has a wrong element.
static atomic_int products;
static int spoilt_product;

static void wrong_matmul(const struct matmul_product *product)
{
    shadow_matmul(product);
    if (++products == spoilt_product)
        shadow_spoil(product);
}

Test(bench_overlap, one_wrong_product_on_an_accelerator_leaves_no_record)
{
    static const char arguments[] = "--json";
    struct accelerator accelerator = shadow_accelerator;
    accelerator.matmul = wrong_matmul;
    const struct bench_device device = {&accelerator, 1};
    char *text;
    cr_assert_eq(run_on(&device, arguments, &text), 0);
    free(text);
    // The first run measures how fast a rank computes and is not verified; pairs follow.
    spoilt_product = products / 2;
    products = 0;
    cr_expect_eq(run_on(&device, arguments, &text), 1);
    cr_expect_str_eq(text, "");
    cr_expect_eq(shadow.block_count, 0, "%d allocations are left", shadow.block_count);
    free(text);
}

Test(bench_overlap, an_absent_device_is_a_skip)
{
    struct bench_device device;
    bool is_absent;
    char *text;
    cr_assert_eq(bench_device_find("cuda", 1, false, &device, &is_absent), ERR_NONE);
    if (is_absent) {
        cr_expect_eq(run("--device cuda", &text), 77);
        cr_expect_str_eq(text, "");
        free(text);
    }
    cr_expect_eq(run("--device gpu", &text), 2);
    free(text);
}

Test(bench_overlap, bad_input_is_refused)
{
    static const char *const bad[] = {"--emulate gpu=3", "--world 0",     "--sequences -1", "--threads 2",
                                      "--engine posix",  "--inject disk", "--sizes 5",      NULL};
    printed_expect_refused(bench_overlap.run, first_words, bad);
}
