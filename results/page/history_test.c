// SPDX-License-Identifier: Apache-2.0
// Several runs: trends, accepted ranges and metrics, from copies of a published run in which some figures differ.
#include "results/page/history.h"

#include "base/folder_test.h"
#include "bench/harness/printed_test.h"
#include "results/limits/accepted_range.h"
#include "results/page/result_report.h"
#include "results/page/rich_test.h"

#include <glob.h>
#include <regex.h>

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

// Scales a result, which has a time as its unit.
static void scale(json_t *record, double factor)
{
    static const char *const keys[] = {"median", "p10", "p90"};
    json_t *samples = json_object_get(record, "samples"), *sample;
    size_t i;
    json_array_foreach (samples, i, sample)
        json_real_set(sample, factor * json_real_value(sample));
    for (i = 0; i < 3; i++)
        json_object_set_new(record, keys[i], json_real(factor * json_number_value(json_object_get(record, keys[i]))));
    json_object_set_new(record, "ratio", json_real(json_number_value(json_object_get(record, "ratio")) / factor));
    json_object_set_new(record, "elapsed_s", json_real(json_number_value(json_object_get(record, "elapsed_s")) * 2));
}

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
                scale(record, factors[figure]);
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

// Every line is a comment or a metric with labels in quotes and a number; no metric occurs twice.
Test(history, metrics_have_the_form_of_prometheus)
{
    char from[PATH_MAX], to[PATH_MAX], *text;
    size_t bytes, metrics = 0;
    regex_t comment, metric;
    const struct rich_texts texts = {"quote\" and \\ and\nline", "text"};
    rich_write(strcpy(from, sample_path("a.jsonl")), &texts, 1);
    strcpy(to, sample_path("a.prom"));
    folder_write(to, "old", 3);
    free(report(0, 4, (const char *[]){"report", "--prometheus", to, from}));
    text = folder_read(to, &bytes);
    text[bytes] = '\0';
    cr_assert_eq(
        regcomp(&comment, "^# (HELP zerogauge_[a-z_]+ [^\n]+|TYPE zerogauge_[a-z_]+ gauge)$", REG_EXTENDED | REG_NOSUB),
        0);
    cr_assert_eq(regcomp(&metric, "^zerogauge_[a-z_]+(\\{([a-z]+=\"([^\"\\\\]|\\\\[\\\\\"n])*\",?)+\\})? [-+0-9.e]+$",
                         REG_EXTENDED | REG_NOSUB),
                 0);
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) && rest) {
        bool is_metric = regexec(&metric, line, 0, NULL, 0) == 0;
        cr_expect(is_metric || regexec(&comment, line, 0, NULL, 0) == 0, "%s", line);
        metrics += is_metric;
        size_t name = strcspn(line, " ");
        const char *brace = strrchr(line, '}');
        name = brace ? (size_t)(brace - line) + 1 : name;
        for (char *other = text; is_metric && other < line; other += strlen(other) + 1)
            cr_expect(strncmp(other, line, name) != 0 || other[name] != ' ', "twice: %s", line);
    }
    cr_expect_gt(metrics, 10);
    regfree(&comment);
    regfree(&metric);
    free(text);
}
