// SPDX-License-Identifier: Apache-2.0
// Tests of `bench pipeline` and `bench pcie`: every pair of lanes has its record, lanes work for their time and
// together, and their results are verified.
#include "bench/table/benchmarks.h"
#include "results/limits/accepted_range.h"
#include "bench/harness/bench.h"
#include "base/err.h"
#include "bench/step/lane_load.h"
#include "bench/harness/printed_test.h"
#include "ref/arithmetic/shadow_test.h"
#include "ref/tier/storage_test.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include <string.h>

static const char *const folder[] = {storage_folder};
static const struct bench_storage storage = {.paths = folder, .path_count = 1};
static const struct lane_load_setting plain = {.storage = &storage};

Test(bench_pipeline, every_lane_works_for_its_time_and_its_results_are_right)
{
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        struct lane_load *load;
        struct lane_done done;
        const char *name = ledger_lane_name((enum lane)lane);
        cr_assert_eq(lane_load_open((enum lane)lane, &plain, &load), ERR_NONE, "%s: %s", name, err_message());
        for (int i = 0; i < 4; i++) {
            enum lane_way way = i % 2 == 0 ? LANE_DIRECT : LANE_EXECUTED;
            cr_assert_eq(lane_load_run(load, way, 0.01, &done), ERR_NONE, "%s: %s", name, err_message());
            cr_expect(done.items > 0 && done.ns >= 10000000, "%s: %g items, %llu ns", name, done.items,
                      (unsigned long long)done.ns);
            cr_assert_eq(lane_load_check(load), ERR_NONE, "%s: %s", name, err_message());
        }
        lane_load_close(load);
    }
    lane_load_close(NULL);
}

// Warming up works through all of a copy's memory, once for each run, and is verified with it.
Test(bench_pipeline, a_lane_is_warm_before_it_works)
{
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        struct lane_load *load;
        struct lane_done done;
        const char *name = ledger_lane_name((enum lane)lane);
        cr_assert_eq(lane_load_open((enum lane)lane, &plain, &load), ERR_NONE, "%s: %s", name, err_message());
        cr_assert_eq(lane_load_warm(load), ERR_NONE, "%s: %s", name, err_message());
        if (lane == LANE_H2D || lane == LANE_D2H)
            cr_assert_eq(lane_load_check(load), ERR_NONE, "%s: %s", name, err_message());
        cr_assert_eq(lane_load_run(load, LANE_EXECUTED, 0, &done), ERR_NONE, "%s: %s", name, err_message());
        cr_assert_eq(lane_load_check(load), ERR_NONE, "%s: %s", name, err_message());
        lane_load_close(load);
    }
}

static bool spoils;

// The last byte that arrives in host memory is another one.
static int copy_and_spoil(void *to, const void *from, size_t bytes)
{
    TRY(shadow_copy(to, from, bytes));
    if (spoils && !shadow_find(to))
        ((unsigned char *)to)[bytes - 1] ^= 1;
    return ERR_NONE;
}

Test(bench_pipeline, one_wrong_result_is_found_where_lanes_work_together)
{
    struct accelerator accelerator = shadow_accelerator;
    const struct bench_device device = {&accelerator, 1};
    const struct lane_load_setting apart = {.storage = &storage, .device = &device, .copy_bytes = 65536};
    struct lane_part parts[] = {{.name = "compute"}, {.name = "d2h"}, {.name = "cpu"}};
    accelerator.copy = copy_and_spoil;
    cr_assert_eq(lane_load_open(LANE_COMPUTE, &plain, &parts[0].load), ERR_NONE, "%s", err_message());
    cr_assert_eq(lane_load_open(LANE_D2H, &apart, &parts[1].load), ERR_NONE, "%s", err_message());
    cr_assert_eq(lane_load_open(LANE_CPU, &plain, &parts[2].load), ERR_NONE, "%s", err_message());
    cr_expect_eq(lane_parts_run(parts, 3, LANE_DIRECT, 0.001), ERR_NONE, "%s", err_message());
    spoils = true;
    cr_expect_eq(lane_parts_run(parts, 3, LANE_DIRECT, 0.001), ERR_CHECK);
    cr_expect_str_eq(err_message(), "d2h: copied data is wrong");
    for (int i = 0; i < 3; i++)
        lane_load_close(parts[i].load);
}

static const char *const first_words[] = {"pipeline", "--nvme-path", storage_folder, NULL};

#define SHORT "--seconds 0.002 --repeat 2 --quick"

Test(bench_pipeline, the_text_output_is_one_matrix)
{
    char *text;
    cr_assert_eq(printed_run(bench_pipeline.run, first_words, SHORT, &text), 0);
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    cr_expect_eq(lines, 2 + LANE_COUNT, "%s", text);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        char row[32];
        snprintf(row, sizeof row, "\n%-11s ", ledger_lane_name((enum lane)lane));
        cr_expect(strstr(text, row), "no \"%s\" in\n%s", row + 1, text);
    }
    free(text);
}

// Copies of 64 KiB stay in the caches; buffers are rounded to full pieces.
Test(bench_pipeline, copies_may_be_small)
{
    static const size_t sizes[] = {1, 7919, 65536, (8 << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct lane_load_setting setting = {.storage = &storage, .copy_bytes = sizes[i]};
        struct lane_load *load;
        struct lane_done done;
        cr_assert_eq(lane_load_open(LANE_D2H, &setting, &load), ERR_NONE, "%s", err_message());
        cr_assert_eq(lane_load_run(load, LANE_DIRECT, 0.001, &done), ERR_NONE, "%s", err_message());
        cr_expect_eq(lane_load_check(load), ERR_NONE, "%zu bytes: %s", sizes[i], err_message());
        lane_load_close(load);
    }
}

// A throttled lane has its rate, and no other lane slows down.
Test(bench_pipeline, only_the_throttled_lane_is_slow)
{
    static const double rates[LANE_COUNT] = {
        [LANE_COMPUTE] = 1e9,      [LANE_COLLECTIVE] = 0.2e9,  [LANE_H2D] = 0.05e9, [LANE_D2H] = 0.05e9,
        [LANE_NVME_READ] = 0.05e9, [LANE_NVME_WRITE] = 0.05e9, [LANE_CPU] = 0.5e9};
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int throttled = 0; throttled < LANE_COUNT; throttled++) {
            struct emulation emulation = {0};
            const struct lane_load_setting setting = {.storage = &storage, .emulation = &emulation};
            struct lane_load *load;
            struct lane_done done;
            const char *name = ledger_lane_name((enum lane)lane);
            // Each lane with its own rate, and with that of the next lane.
            if (throttled != lane && throttled != (lane + 1) % LANE_COUNT)
                continue;
            emulation.bytes_per_s[throttled] = throttled == lane ? rates[lane] : 1;
            cr_assert_eq(lane_load_open((enum lane)lane, &setting, &load), ERR_NONE, "%s: %s", name, err_message());
            cr_assert_eq(lane_load_run(load, LANE_EXECUTED, 0.005, &done), ERR_NONE, "%s: %s", name, err_message());
            // An emulated disk does not wait for the requests in flight at the end.
            double at_least_ns = throttled == lane ? (done.items - (1 << 20)) / rates[lane] * 1e9 : 0;
            cr_expect_geq((double)done.ns, at_least_ns, "%s: %g items in %g ns", name, done.items, (double)done.ns);
            cr_expect_lt((double)done.ns, 60e9, "%s: as slow as another lane", name);
            cr_assert_eq(lane_load_check(load), ERR_NONE, "%s: %s", name, err_message());
            lane_load_close(load);
        }
}

// Judges a lane alone by the default accepted ranges; FINDING_VALID if none applies.
static enum finding_verdict judged_alone(const struct accepted_ranges *ranges, const json_t *record,
                                         char text[BENCH_FINDING_TEXT_BYTES])
{
    struct bench_finding finding = {.verdict = FINDING_VALID};
    for (size_t i = 0; i < ranges->count; i++)
        if (strcmp(ranges->list[i].id, "pipeline-alone") == 0 && accepted_range_applies(&ranges->list[i], record))
            accepted_range_judge(&ranges->list[i], record, 1, &finding);
    memcpy(text, finding.text, BENCH_FINDING_TEXT_BYTES);
    return finding.verdict;
}

// Expects that a lane alone names its own emulated rate and is out of the accepted range if it has one.
static void expect_emulated(const json_t *record, const char *lane, const char *lanes,
                            const struct accepted_ranges *ranges)
{
    char said[BENCH_FINDING_TEXT_BYTES];
    bool is_read = strcmp(lane, "nvme_read") == 0;
    cr_expect_eq(lanes != NULL, is_read || strcmp(lane, "h2d") == 0, "%s", lane);
    if (!lanes)
        return;
    cr_expect_str_eq(lanes, is_read ? "EMULATED nvme-read=0.02" : "EMULATED h2d=0.1");
    cr_expect_eq(judged_alone(ranges, record, said), FINDING_INVALID, "%s", lane);
    cr_expect(strstr(said, is_read ? "pipeline nvme_read alone " : "pipeline h2d alone "), "%s", said);
}

// Parses a record's lane and the one that runs with it; LANE_COUNT: all; LANE_COUNT + 1: none.
static void take_place(const json_t *record, int *of, int *beside, const struct accepted_ranges *ranges)
{
    const char *lane, *works, *lanes = NULL;
    json_t *samples, *baseline, *ratio;
    cr_assert_eq(json_unpack((json_t *)(uintptr_t)record, "{s:{s:s, s:s, s?s}, s:o, s:o, s:o}", "case", "lane", &lane,
                             "works", &works, "lanes", &lanes, "samples", &samples, "yardstick", &baseline, "ratio",
                             &ratio),
                 0);
    bool alone = strcmp(works, "alone") == 0;
    cr_expect(alone || strncmp(works, "beside ", 7) == 0, "%s", works);
    for (*of = 0; *of < LANE_COUNT - 1 && strcmp(lane, ledger_lane_name((enum lane) * of)) != 0;)
        ++*of;
    *beside = alone ? LANE_COUNT + 1 : 0;
    while (*beside < LANE_COUNT && strcmp(works + 7, ledger_lane_name((enum lane) * beside)) != 0)
        ++*beside;
    cr_expect(alone || *beside < LANE_COUNT || strcmp(works, "beside all") == 0, "%s", works);
    cr_expect_eq(json_array_size(samples), 2);
    cr_expect_str_eq(json_string_value(json_object_get(baseline, "name")),
                     alone ? "the same work called directly" : "the lane alone");
    cr_expect_gt(json_number_value(ratio), 0, "%s %s", lane, works);
    if (alone)
        expect_emulated(record, lane, lanes, ranges);
    else
        cr_expect_str_eq(lanes, "EMULATED h2d=0.1,nvme-read=0.02");
}

Test(bench_pipeline, every_lane_has_a_record_alone_beside_each_other_one_and_beside_all)
{
    static const char words[] = SHORT " --json --emulate h2d=0.1,nvme-read=0.02";
    char *text;
    int seen[LANE_COUNT][LANE_COUNT + 2] = {0};
    struct accepted_ranges ranges = {0};
    cr_assert_eq(accepted_ranges_add("default", &ranges), ERR_NONE, "%s", err_message());
    cr_assert_eq(printed_run(bench_pipeline.run, first_words, words, &text), 0);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        int of, beside;
        json_t *record = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        take_place(record, &of, &beside, &ranges);
        seen[of][beside]++;
        json_decref(record);
    }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int beside = 0; beside < LANE_COUNT + 2; beside++)
            cr_expect_eq(seen[lane][beside], beside != lane, "%d with %d", lane, beside);
    accepted_ranges_free(&ranges);
    free(text);
}

Test(bench_pipeline, bad_input_is_refused)
{
    static const char *const bad[] = {"--sizes 4K",           "--threads 2",     "--seconds -1",  "--engine io_uring",
                                      "--nvme-path /nowhere", "--emulate gpu=1", "--emulate cpu", NULL};
    printed_expect_refused(bench_pipeline.run, (const char *const[]){"pipeline", NULL}, bad);
}

Test(bench_pipeline, without_cuda_bench_pcie_reports_a_skip)
{
    static const char *const first[] = {"pcie", NULL};
    char *text;
    cr_expect_eq(printed_run(bench_pcie.run, first, "--quick --json", &text), 77);
    cr_expect_str_empty(text);
    free(text);
}
