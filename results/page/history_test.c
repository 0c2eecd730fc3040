// SPDX-License-Identifier: Apache-2.0
// Several runs: trends, accepted ranges and metrics, from copies of a published run in which some figures differ.
#include "results/page/history.h"

#include "base/folder_test.h"
#include "bench/harness/printed_test.h"
#include "results/limits/accepted_range.h"
#include "results/page/result_report.h"
#include "results/page/rich_test.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <math.h>

enum { FIGURES = 2 };

static struct result_file published;
static size_t figures[FIGURES];  // lines of results that no finding judges, from 0

static bool is_judged(size_t line)
{
    bool judged = false;
    for (size_t i = 0; i < published.line_count; i++)
        judged |= json_integer_value(json_object_get(published.lines[i], "line")) == (json_int_t)line + 1;
    return judged;
}

static void setup(void)
{
    glob_t found;
    size_t count = 0;
    sample_folder_make();
    cr_assert_eq(glob(ZG_SOURCE_DIR "/results/published/*.jsonl", 0, NULL, &found), 0);
    cr_assert_eq(result_open(found.gl_pathv[0], &published), ERR_NONE, "%s", err_message());
    globfree(&found);
    for (size_t i = 0; i < published.line_count && count < FIGURES; i++) {
        const char *kind = json_string_value(json_object_get(published.lines[i], "record"));
        if (strcmp(kind, "bench") == 0 && !is_judged(i))
            figures[count++] = i;
    }
    cr_assert_eq(count, FIGURES);
}

static void teardown(void)
{
    result_close(&published);
    sample_folder_remove();
}

TestSuite(history, .init = setup, .fini = teardown);

// Writes the published run as that of a day of October, with both figures scaled.
static const char *write_run(int day, double first, double second)
{
    const double factors[FIGURES] = {first, second};
    const char **lines = calloc(published.line_count + 1, sizeof *lines);
    char name[32], started[32];
    snprintf(name, sizeof name, "%02d.jsonl", day);
    snprintf(started, sizeof started, "2026-10-%02dT00:00:00Z", day);
    for (size_t i = 0; i < published.line_count; i++) {
        json_t *record = json_deep_copy(published.lines[i]);
        if (i == 0)
            json_object_set_new(record, "started", json_string(started));
        for (int figure = 0; figure < FIGURES; figure++)
            if (i == figures[figure])
                sample_scale(record, factors[figure]);
        lines[i] = json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(9));
        json_decref(record);
    }
    const char *path = sample_write(name, lines);
    for (size_t i = 0; i < published.line_count; i++)
        free((char *)(uintptr_t)lines[i]);
    free(lines);
    return path;
}

// Runs `zerogauge report`; the caller frees its output.
static char *report(int expected_status, int argc, const char *argv[])
{
    struct printed printed = printed_begin();
    int status = report_main(argc, argv);
    char *text = printed_end(printed);
    cr_expect_eq(status, expected_status, "%s: %d", argv[1], status);
    return text;
}

// Returns the part of the text from one heading to the next; "" without it.
static char *section(const char *text, const char *heading)
{
    const char *begin = strstr(text, heading);
    const char *end = begin ? strstr(begin + strlen(heading), "\n## ") : NULL;
    return strndup(begin ? begin : "", end ? (size_t)(end - begin) : begin ? strlen(begin) : 0);
}

Test(history, a_trend_finds_changes_and_a_latest_run_that_stands_out)
{
    for (int day = 1; day <= 20; day++) {
        double noise = 1 + 0.002 * (day * 7 % 5);
        write_run(day, (day < 11 ? 1 : 0.8) * noise, (day < 20 ? 1 : 1.3) * noise);
    }
    sample_put("broken.jsonl", "{}\n", 3);
    char *text = report(0, 3, (const char *[]){"report", "--trend", sample_folder});
    char *changes = section(text, "## Changes"), *latest = section(text, "## The latest run is an outlier");
    cr_expect(strstr(text, "# 20 runs from 2026-10-01T00:00:00Z to 2026-10-20T00:00:00Z"), "%.300s", text);
    cr_expect(strstr(text, "20 VALID, 0 INVALID, 0 INCOMPLETE; 1 files left out"), "%.300s", text);
    cr_expect(strstr(changes, "2026-10-11T00:00:00Z"), "%s", changes);
    cr_expect(strstr(changes, "-20.0 %, better") || strstr(changes, "-19.8 %, better") ||
                  strstr(changes, "-20.2 %, better"),
              "%s", changes);
    cr_expect(strstr(latest, "%, worse"), "%s", latest);
    cr_expect(strstr(text, "| 1 changes in "), "%s", changes);
    cr_expect(strstr(text, " figures; in 1 the latest run is an outlier |"), "%s", latest);
    free(changes);
    free(latest);
    free(text);
    free(report(2, 3, (const char *[]){"report", "--trend", "/proc/self/fdinfo"}));
}

Test(history, a_folder_is_no_pattern)
{
    static const char *const folders[] = {"runs[1]", "runs*", "a\\b", "what?"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[PATH_MAX], moved[PATH_MAX];
        strcpy(path, sample_path(folders[i]));
        cr_assert_eq(mkdir(path, 0700), 0);
        snprintf(moved, sizeof moved, "%.4000s/run.jsonl", path);
        cr_assert_eq(rename(write_run(1, 1, 1), moved), 0);
        char *text = report(0, 3, (const char *[]){"report", "--trend", path});
        cr_expect(strstr(text, "# 1 runs from "), "%s: %.200s", folders[i], text);
        free(text);
    }
}

Test(history, ranges_of_several_runs_say_how_many)
{
    char paths[6][PATH_MAX], to[PATH_MAX];
    const char *argv[9] = {"report", "--save-ranges", strcpy(to, sample_path("fleet.json"))};
    struct accepted_ranges ranges = {0};
    for (int day = 1; day <= 6; day++)
        argv[2 + day] = strcpy(paths[day - 1], write_run(day, 1 + 0.01 * day, 1));
    free(report(0, 9, argv));
    cr_assert_eq(accepted_ranges_add(to, &ranges), ERR_NONE, "%s", err_message());
    cr_expect_gt(ranges.count, 100);
    cr_expect(strstr(ranges.list[0].source, ": 6 of 6 runs, medians from "), "%s", ranges.list[0].source);
    cr_expect(ranges.list[0].full_only, "the published run is full");
    accepted_ranges_free(&ranges);
    free(report(2, 9, argv));
    char invalid[PATH_MAX];
    rich_write(strcpy(invalid, sample_path("invalid.jsonl")), NULL, 1);
    argv[2] = "other.json";
    argv[3] = invalid;
    free(report(2, 4, argv));
    cr_expect(access("other.json", F_OK) != 0, "an INVALID run makes no ranges");
}

// Values around a level, uniform within 3 %.
static void level(double *values, size_t begin, size_t end, double centre)
{
    for (size_t i = begin; i < end; i++)
        values[i] = centre * (1 + 0.06 * ((double)(random_at(7, i) >> 11) * 0x1p-53 - 0.5));
}

Test(change_point, noise_has_no_change)
{
    double values[400];
    struct change_point found[CHANGE_MAX];
    level(values, 0, 400, 40);
    for (size_t count = 0; count <= 400; count += 20)
        cr_expect_eq(change_points_find(values, count, found), 0, "%zu values", count);
    for (size_t i = 0; i < 400; i++)
        values[i] = 40;
    cr_expect_eq(change_points_find(values, 400, found), 0, "a constant");
}

Test(change_point, a_step_is_found_where_it_is)
{
    double values[40];
    struct change_point found[CHANGE_MAX];
    for (size_t at = 8; at <= 32; at++) {
        level(values, 0, at, 40);
        level(values, at, 40, 34);
        cr_assert_eq(change_points_find(values, 40, found), 1, "at %zu", at);
        cr_expect_eq(found[0].at, at);
        cr_expect_float_eq(found[0].before, 40, 1);
        cr_expect_float_eq(found[0].after, 34, 1);
        cr_expect_lt(found[0].p, CHANGE_LEVEL);
    }
}

Test(change_point, several_steps_come_in_order_with_the_medians_between_them)
{
    double values[60];
    struct change_point found[CHANGE_MAX];
    level(values, 0, 20, 40);
    level(values, 20, 40, 50);
    level(values, 40, 60, 40);
    cr_assert_eq(change_points_find(values, 60, found), 2);
    cr_expect(found[0].at == 20 && found[1].at == 40);
    cr_expect_float_eq(found[0].after, 50, 1);
    cr_expect_float_eq(found[1].before, 50, 1);
}

Test(change_point, few_values_one_far_off_and_small_steps_are_no_changes)
{
    double values[40];
    struct change_point found[CHANGE_MAX];
    level(values, 0, 40, 40);
    values[20] = 4;
    cr_expect_eq(change_points_find(values, 40, found), 0, "one value far off");
    for (size_t i = 0; i < 40; i++)
        values[i] = i < 20 ? 40 : 40.4;
    cr_expect_eq(change_points_find(values, 40, found), 0, "one percent");
    for (size_t i = 0; i < 6; i++)
        values[i] = i < 3 ? 40 : 20;
    cr_expect_eq(change_points_find(values, 6, found), 0, "three values on each side may be chance");
    for (size_t i = 0; i < 40; i++)
        values[i] = i % 2 ? 1.7e308 : 1;
    cr_expect_eq(change_points_find(values, 40, found), 0, "sums of deviations that overflow");
}

TestSuite(compare, .init = sample_folder_make, .fini = sample_folder_remove);

static json_t *bench_of(size_t count, const double *values, bool lower)
{
    json_t *samples = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(samples, json_real(values[i]));
    return json_pack("{s:o, s:b}", "samples", samples, "lower_is_better", lower);
}

static void expect(size_t count, const double *a_values, const double *b_values, bool lower, enum comparison expected)
{
    double p;
    json_t *a = bench_of(count, a_values, lower), *b = bench_of(count, b_values, lower);
    cr_expect_eq(compare_bench(a, b, &p), expected, "%zu values, %s is better: p %g", count, lower ? "less" : "more",
                 p);
    json_decref(a);
    json_decref(b);
}

Test(compare, the_unit_decides_which_direction_is_better)
{
    const double slow[] = {5.1, 5.2, 5.3, 5.4, 5.5, 5.6}, fast[] = {4.1, 4.2, 4.3, 4.4, 4.5, 4.6};
    expect(6, slow, fast, true, COMPARISON_BETTER);
    expect(6, fast, slow, true, COMPARISON_WORSE);
    expect(6, slow, fast, false, COMPARISON_WORSE);
    expect(6, fast, slow, false, COMPARISON_BETTER);
    expect(6, fast, fast, true, COMPARISON_NOISE);
}

// Five samples of each can just reach the level; four cannot.
Test(compare, few_samples_decide_nothing)
{
    const double low[] = {1, 2, 3, 4, 5}, high[] = {101, 102, 103, 104, 105}, mixed[] = {1.5, 2.5, 3.5, 4.5, 6};
    expect(5, low, high, true, COMPARISON_WORSE);
    expect(4, low, high, true, COMPARISON_FEW);
    expect(1, low, high, true, COMPARISON_FEW);
    expect(5, low, mixed, true, COMPARISON_NOISE);
}

static void set_gpu(const struct result_file *file, json_t *changes)
{
    json_t *gpu = json_loads(SAMPLE_GPU, 0, NULL);
    cr_assert_eq(json_object_update(gpu, changes), 0);
    cr_assert_eq(json_object_set_new(json_object_get(file->run, "machine"), "gpus", json_pack("[o]", gpu)), 0);
}

// gpu: what is another in the second file's GPU; null: there are no GPUs.
static char *comparison_with(const char *a_path, const char *b_path, json_t *gpu)
{
    struct result_file a, b;
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_eq(result_open(a_path, &a), ERR_NONE, "%s", err_message());
    cr_assert_eq(result_open(b_path, &b), ERR_NONE, "%s", err_message());
    json_t *unchanged = json_object();
    if (gpu) {
        set_gpu(&a, unchanged);
        set_gpu(&b, gpu);
    }
    cr_assert_eq(result_compare(&a, &b, out), ERR_NONE);
    result_close(&a);
    result_close(&b);
    json_decref(unchanged);
    json_decref(gpu);
    fclose(out);
    return text;
}

static char *comparison_of(const char *a_path, const char *b_path)
{
    return comparison_with(a_path, b_path, NULL);
}

Test(compare, a_gpu_that_is_set_differently_is_named)
{
    char path[PATH_MAX];
    rich_write(strcpy(path, sample_path("a")), NULL, 1);
    char *text = comparison_with(
        path, path, json_pack("{s:f, s:i, s:s}", "clock_mhz", 1200.0, "throttle_reasons", 4, "id", "another GPU"));
    cr_expect_not(strstr(text, "Not comparable"), "%s", text);
    free(text);
    text = comparison_with(path, path, json_pack("{s:i, s:s, s:n}", "power_limit_w", 400, "driver", "570.1", "mig"));
    cr_expect(strstr(text, "GPU 0's power_limit_w is 700 in A and 400 in B"), "%s", text);
    cr_expect(strstr(text, "GPU 0's driver is \"580.95.05\" in A and \"570.1\" in B"), "%s", text);
    cr_expect(strstr(text, "GPU 0's mig is 0 in A and null in B"), "%s", text);
    free(text);
    text = comparison_with(path, path, json_pack("{s:i}", "throttle_reasons", 64 + 4));
    cr_expect(strstr(text, "GPU 0 was slowed by heat or its power supply in B alone"), "%s", text);
    free(text);
}

Test(compare, a_case_is_matched_by_its_settings)
{
    char a_path[PATH_MAX];
    rich_write(strcpy(a_path, sample_path("a")), NULL, 1);
    rich_write(sample_path("b"), NULL, 1.5);
    char *text = comparison_of(a_path, sample_path("b"));
    cr_expect(strstr(text, "Of 23 common cases, 8 are better in B, 0 worse, 15 within noise, and 0 have too "
                           "few samples."),
              "%s", text);
    cr_expect(strstr(text, "Mann-Whitney U") && strstr(text, "level 0.01"));
    cr_expect(strstr(text, "| -33.3 % |"), "%s", text);
    cr_expect_null(strstr(text, "Only in"));
    free(text);
}

Test(compare, cases_of_only_one_file_are_listed)
{
    static const struct rich_texts others = {.setting = "another", .text = "adam"};
    char a_path[PATH_MAX];
    rich_write(strcpy(a_path, sample_path("a")), NULL, 1);
    rich_write(sample_path("b"), &others, 1);
    char *text = comparison_of(a_path, sample_path("b"));
    cr_expect(strstr(text, "Of 0 common cases"), "%s", text);
    cr_expect(strstr(text, "Only in A") && strstr(text, "Only in B"));
    cr_expect(strstr(text, "| latency | engine=another |"), "%s", text);
    free(text);
}
