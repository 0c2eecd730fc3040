// SPDX-License-Identifier: Apache-2.0
// Accepted ranges: reading, refusals with their locations, judging results, and saving.
#include "results/limits/accepted_range.h"

#include "base/err.h"
#include "results/record/record_check.h"
#include "validate/validate_test.h"

#include <math.h>

static struct accepted_ranges ranges;

static int parse(const char *text)
{
    return accepted_ranges_parse("fleet.json", text, strlen(text), &ranges);
}

#define WITH(range) "{\"schema\": 1, \"about\": \"x\",\n\"bands\": [\n" range "\n]}\n"
#define GOOD "{\"id\": \"a\", \"bench\": \"nvme\", \"metric\": \"ratio\", \"at_least\": 0.5, \"source\": \"s\"}"

static void expect_refusal(const char *text, const char *location, const char *words)
{
    accepted_ranges_free(&ranges);
    cr_expect_eq(parse(text), ERR_USAGE, "taken: %s", text);
    cr_expect(strncmp(err_message(), location, strlen(location)) == 0 && strstr(err_message(), words),
              "expected \"%s\" and \"%s\", got \"%s\"", location, words, err_message());
    accepted_ranges_free(&ranges);
}

Test(accepted_range, errors_name_line_and_key)
{
    expect_refusal("{\n\"schema\": 2, \"about\": \"x\", \"bands\": []}", "fleet.json:2: schema: ", "is 2");
    expect_refusal("{\"schema\": 1, \"bands\": []}", "fleet.json:1: about: ", "missing");
    expect_refusal("{\"schema\": 1, \"about\": \"x\", \"bands\": []}", "fleet.json:1: bands: ", "expected");
    expect_refusal("{\"schema\": 1, \"about\": \"x\",\n\"bands\": [\n3]}", "fleet.json:", "bands");
    expect_refusal(WITH("{\"id\": \"a\"}"), "fleet.json:3: bands.0.bench: ", "missing");
    expect_refusal(WITH("{\"id\": \"\", \"bench\": \"b\", \"metric\": \"ratio\", \"at_least\": 1, \"source\": \"s\"}"),
                   "fleet.json:3: bands.0.id: ", "empty");
    expect_refusal(WITH("{\"id\": \"a\", \"bench\": \"b\", \"metric\": \"mean\", \"at_least\": 1, \"source\": \"s\"}"),
                   "fleet.json:3: bands.0.metric: ", "ratio");
    expect_refusal(WITH("{\"id\": \"a\", \"bench\": \"b\", \"metric\": \"ratio\", \"source\": \"s\"}"),
                   "fleet.json:3: bands.0.at_least: ", "missing");
    expect_refusal(WITH(GOOD ",\n{\"id\": \"b\", \"bench\": \"b\", \"metric\": \"ratio\",\n \"at_least\": 0, "
                             "\"source\": \"s\"}"),
                   "fleet.json:5: bands.1.at_least: ", "more than 0");
    expect_refusal(WITH("{\"id\": \"a\", \"bench\": \"b\", \"metric\": \"ratio\", \"at_least\": \"1\", "
                        "\"source\": \"s\"}"),
                   "fleet.json:3: bands.0.at_least: ", "\"1\"");
    expect_refusal(WITH("{\"id\": \"a\", \"bench\": \"b\", \"metric\": \"ratio\", \"at_least\": 2, \"at_most\": 1, "
                        "\"source\": \"s\"}"),
                   "fleet.json:3: bands.0.at_least: ", "more than at_most");
    expect_refusal(WITH("{\"id\": \"a\", \"bench\": \"b\", \"metric\": \"ratio\", \"unit\": \"ns\", \"at_least\": 2, "
                        "\"source\": \"s\"}"),
                   "fleet.json:3: bands.0.unit: ", "ratio has no unit");
    expect_refusal(WITH("{\"id\": \"a\", \"bench\": \"b\", \"metric\": \"median\", \"at_least\": 2, "
                        "\"source\": \"s\"}"),
                   "fleet.json:3: bands.0.unit: ", "missing");
    expect_refusal(WITH("{\"id\": \"a\", \"bench\": \"b\", \"metric\": \"ratio\", \"at_last\": 2, \"source\": \"s\"}"),
                   "fleet.json:3: bands.0.at_last: ", "unknown key, expected id, bench");
    expect_refusal(WITH("{\"id\": \"a\", \"bench\": \"b\", \"metric\": \"ratio\", \"at_least\": 2, \"source\": \"s\",\n"
                        "\"case\": {\"x\": 1.5}}"),
                   "fleet.json:4: bands.0.case.x: ", "1.5");
    expect_refusal(WITH("{\"id\": \"a\", \"bench\": \"b\", \"metric\": \"ratio\", \"at_least\": 2, \"source\": \"s\", "
                        "\"level\": \"slow\"}"),
                   "fleet.json:3: bands.0.level: ", "quick");
    expect_refusal(WITH(GOOD ",\n" GOOD), "fleet.json:4: bands.1.id: ", "also the id of another");
    expect_refusal("[]", "fleet.json:1: ", "object");
    expect_refusal("{\"schema\": 1,\n", "fleet.json:", "");
    expect_refusal("{\"schema\": 1, \"schema\": 1}", "fleet.json:1: ", "schema");
    expect_refusal("", "fleet.json:", "");
}

Test(accepted_range, a_later_range_replaces_one_with_the_same_id)
{
    cr_assert_eq(parse(WITH(GOOD)), ERR_NONE, "%s", err_message());
    cr_assert_eq(parse(WITH("{\"id\": \"a\", \"bench\": \"swap\", \"metric\": \"ratio\", \"at_most\": 2, "
                            "\"source\": \"t\"},"
                            "{\"id\": \"b\", \"bench\": \"comm\", \"metric\": \"median\", \"unit\": \"ns\", "
                            "\"at_most\": 9, \"source\": \"t\", \"level\": \"full\"}")),
                 ERR_NONE, "%s", err_message());
    cr_assert_eq(ranges.count, 2);
    cr_expect_str_eq(ranges.list[0].bench, "swap");
    cr_expect(isnan(ranges.list[0].at_least) && ranges.list[0].at_most == 2);
    cr_expect(ranges.list[1].full_only && !ranges.list[1].of_ratio);
    cr_expect_str_eq(ranges.list[1].unit, "ns");
    accepted_ranges_free(&ranges);
}

Test(accepted_range, every_built_in_set_is_valid)
{
    int count = 0;
    for (const struct accepted_range_set *set = accepted_range_sets; set->name; set++, count++) {
        cr_expect_eq(accepted_ranges_add(set->name, &ranges), ERR_NONE, "%s", err_message());
        for (size_t i = 0; i < ranges.count; i++) {
            json_t *record = accepted_range_json(&ranges.list[i]);
            cr_expect_eq(record_check(set->name, record), ERR_NONE, "%s: %s", ranges.list[i].id, err_message());
            json_decref(record);
        }
        accepted_ranges_free(&ranges);
    }
    cr_expect_geq(count, 1);
    cr_expect_eq(accepted_ranges_add("defualt", &ranges), ERR_USAGE);
    cr_expect(strstr(err_message(), "default"), "%s", err_message());
    cr_expect_eq(accepted_ranges_add("/nowhere/fleet.json", &ranges), ERR_USAGE);
}

static enum finding_verdict judge(const struct accepted_range *range, const json_t *record, struct bench_finding *out)
{
    accepted_range_judge(range, record, 17, out);
    cr_expect_str_eq(out->kind, "band");
    cr_expect_str_eq(out->id, range->id);
    cr_expect_eq(out->line, 17);
    return out->verdict;
}

// The record reaches 3 of 4 GB/s.
Test(accepted_range, a_ratio_is_judged_by_both_bounds)
{
    struct bench_finding finding;
    struct accepted_range range = {.id = "read", .bench = "nvme", .of_ratio = true, .at_least = 0.7, .at_most = NAN};
    json_t *record = trial_record("nvme", "\"direction\":\"read\"", 3);
    cr_expect_eq(judge(&range, record, &finding), FINDING_VALID);
    cr_expect_eq(finding.value, 0.75);
    range.at_least = 0.75;
    cr_expect_eq(judge(&range, record, &finding), FINDING_VALID, "the bound itself is accepted");
    range.at_least = 0.76;
    cr_expect_eq(judge(&range, record, &finding), FINDING_INVALID);
    cr_expect_str_eq(finding.text, "read: nvme read reaches 75.0 % of fio, expected at least 76 %");
    range.at_least = NAN;
    range.at_most = 0.7;
    cr_expect_eq(judge(&range, record, &finding), FINDING_INVALID);
    cr_expect_str_eq(finding.text,
                     "read: nvme read reaches 75.0 % of fio, expected at most 70 %: faster than possible");
    json_object_set_new(record, "ratio", json_null());
    cr_expect_eq(judge(&range, record, &finding), FINDING_INCOMPLETE);
    cr_expect(isnan(finding.value));
    json_decref(record);
}

Test(accepted_range, a_median_is_judged_only_in_its_unit)
{
    struct bench_finding finding;
    struct accepted_range range = {.id = "read", .bench = "nvme", .unit = "GB/s", .at_least = 3.2, .at_most = NAN};
    json_t *record = trial_record("nvme", "\"direction\":\"read\"", 3);
    cr_expect_eq(judge(&range, record, &finding), FINDING_INVALID);
    cr_expect_str_eq(finding.text, "read: nvme read has 3 GB/s, expected at least 3.2");
    range.at_least = 2.9;
    cr_expect_eq(judge(&range, record, &finding), FINDING_VALID);
    snprintf(range.unit, sizeof range.unit, "ns");
    cr_expect_eq(judge(&range, record, &finding), FINDING_INCOMPLETE);
    json_decref(record);
}

Test(accepted_range, a_range_applies_to_cases_with_all_its_keys_and_values)
{
    json_t *record = trial_record("nvme", "\"direction\":\"read\",\"depth\":32,\"buffered\":false", 3);
    static const struct {
        const char *bench, *of_case;
        bool applies;
    } rows[] = {
        {"nvme", "{}", true},
        {"nvme", "{\"direction\":\"read\"}", true},
        {"nvme", "{\"direction\":\"read\",\"depth\":32,\"buffered\":false}", true},
        {"nvme", "{\"direction\":\"write\"}", false},
        {"nvme", "{\"depth\":31}", false},
        {"nvme", "{\"depth\":\"32\"}", false},
        {"nvme", "{\"buffered\":true}", false},
        {"nvme", "{\"engine\":\"libaio\"}", false},
        {"nvm", "{}", false},
        {"nvme_latency", "{}", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct accepted_range range = {.of_case = json_loads(rows[i].of_case, 0, NULL)};
        snprintf(range.bench, sizeof range.bench, "%s", rows[i].bench);
        cr_expect_eq(accepted_range_applies(&range, record), rows[i].applies, "%s %s", rows[i].bench, rows[i].of_case);
        json_decref(range.of_case);
    }
    json_decref(record);
}

Test(accepted_range, results_of_a_device_need_ranges_that_name_it)
{
    json_t *record = trial_record("step", "\"tier\":\"host\",\"device\":\"cuda\",\"devices\":1", 3);
    static const struct {
        const char *of_case;
        bool applies;
    } rows[] = {
        {"{}", false},
        {"{\"tier\":\"host\"}", false},
        {"{\"tier\":\"host\",\"devices\":1}", false},
        {"{\"device\":\"cuda\"}", true},
        {"{\"device\":\"rocm\"}", false},
        {"{\"tier\":\"device\",\"device\":\"cuda\"}", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct accepted_range range = {.bench = "step", .of_case = json_loads(rows[i].of_case, 0, NULL)};
        cr_expect_eq(accepted_range_applies(&range, record), rows[i].applies, "%s", rows[i].of_case);
        json_decref(range.of_case);
    }
    json_decref(record);
}

Test(accepted_range, a_label_names_the_case_in_few_words)
{
    char label[BENCH_LABEL_BYTES];
    json_t *record = trial_record("nvme",
                                  "\"direction\":\"read\",\"block_bytes\":1048576,\"depth\":32,\"seconds\":0.4,"
                                  "\"buffered\":false,\"checksum\":true",
                                  3);
    cr_expect_str_eq(bench_label(record, label), "nvme read block=1 MiB depth=32 checksum");
    json_decref(record);
}

// The quantiles of trial_record are 16 % apart, so the tolerance is 48 %.
Test(accepted_range, saved_ranges_accept_their_own_results_and_no_much_slower_ones)
{
    char folder[PATH_MAX], path[PATH_MAX + 16];
    folder_make(folder);
    snprintf(path, sizeof path, "%s/fleet.json", folder);
    json_t *steady = trial_record("nvme", "\"direction\":\"read\",\"seconds\":1.5,\"buffered\":false", 3);
    json_object_set_new(steady, "p10", json_real(2.99));
    json_object_set_new(steady, "p90", json_real(3.01));
    json_t *spread = trial_record("nvme", "\"direction\":\"write\",\"lanes\":\"EMULATED h2d=3\"", 3);
    json_t *time = trial_record("swap", "\"params\":5", 3);
    json_object_set_new(time, "lower_is_better", json_true());
    const json_t *records[] = {steady, spread, time};
    const struct accepted_range_run run = {"quick", records, 3};
    cr_assert_eq(accepted_ranges_save(path, "this test", &run, 1), ERR_NONE, "%s", err_message());
    cr_assert_eq(accepted_ranges_add(path, &ranges), ERR_NONE, "%s", err_message());
    cr_assert_eq(ranges.count, 3);
    cr_expect_float_eq(ranges.list[0].at_least, 2.7, 1e-5);
    cr_expect_float_eq(ranges.list[1].at_least, 3 * (1 - 0.48), 1e-5);
    cr_expect_float_eq(ranges.list[2].at_most, 3 * (1 + 0.48), 1e-5);
    cr_expect(isnan(ranges.list[0].at_most) && isnan(ranges.list[2].at_least));
    cr_expect_str_eq(ranges.list[0].source, "this test");
    cr_expect_eq(json_object_size(ranges.list[0].of_case), 2, "measured numbers are not part of the case");
    cr_expect_eq(json_object_size(ranges.list[1].of_case), 1, "neither do emulated rates");
    for (int i = 0; i < 3; i++) {
        struct bench_finding finding;
        cr_expect(accepted_range_applies(&ranges.list[i], records[i]));
        cr_expect(!accepted_range_applies(&ranges.list[i], records[(i + 1) % 3]));
        cr_expect_eq(judge(&ranges.list[i], records[i], &finding), FINDING_VALID);
    }
    cr_expect_eq(accepted_ranges_save(path, "again", &run, 1), ERR_USAGE, "an older file was overwritten");
    accepted_ranges_free(&ranges);
    json_decref(steady);
    json_decref(spread);
    json_decref(time);
    folder_remove(folder);
}

// Nine runs around 10 GB/s, one of them far off, as two ranks on two hosts; one case occurs in a single run.
Test(accepted_range, ranges_of_several_runs_follow_their_spread_and_not_one_that_is_far_off)
{
    enum { RUNS = 9 };
    static const double medians[RUNS] = {10, 10.1, 9.9, 10.2, 9.8, 10, 10.1, 2, 9.9};
    char folder[PATH_MAX], path[PATH_MAX + 16], of_case[128];
    json_t *records[RUNS][3];
    struct accepted_range_run runs[RUNS];
    snprintf(path, sizeof path, "%s/fleet.json", folder_make(folder));
    for (int i = 0; i < RUNS; i++) {
        for (int rank = 0; rank < 2; rank++) {
            snprintf(of_case, sizeof of_case, "\"lane\":\"compute\",\"rank\":%d,\"host\":\"n%d\",\"processor\":%d",
                     rank, i, rank);
            records[i][rank] = trial_record("ranks", of_case, medians[i]);
        }
        snprintf(of_case, sizeof of_case, "\"direction\":\"%s\"", i == 3 ? "mixed" : "read");
        records[i][2] = trial_record("nvme", of_case, 3 + 0.001 * i);
        runs[i] = (struct accepted_range_run){"full", (const json_t *const *)records[i], 3};
    }
    cr_assert_eq(accepted_ranges_save(path, "pool b", runs, RUNS), ERR_NONE, "%s", err_message());
    cr_assert_eq(accepted_ranges_add(path, &ranges), ERR_NONE, "%s", err_message());
    cr_assert_eq(ranges.count, 2, "a case of one run in nine is left out");
    // The median absolute deviation of the medians is 0.1.
    cr_expect_float_eq(ranges.list[0].at_least, 10 * (1 - 3.5 * 1.4826 * 0.01), 1e-4);
    cr_expect_float_eq(ranges.list[1].at_least, 3.0045 * 0.95, 1e-3, "at least 5 %%");
    cr_expect_str_eq(ranges.list[0].source, "pool b: 9 of 9 runs, medians from 2 to 10.2 GB/s");
    cr_expect_str_eq(ranges.list[1].source, "pool b: 8 of 9 runs, medians from 3 to 3.008 GB/s");
    cr_expect(ranges.list[0].full_only);
    cr_expect_eq(json_object_size(ranges.list[0].of_case), 1, "a range holds for every rank and host");
    accepted_ranges_free(&ranges);
    unlink(path);
    runs[1].level = "quick";
    cr_expect_eq(accepted_ranges_save(path, "pool b", runs, RUNS), ERR_USAGE);
    cr_expect(access(path, F_OK) != 0);
    for (int i = 0; i < RUNS; i++)
        for (int k = 0; k < 3; k++)
            json_decref(records[i][k]);
    folder_remove(folder);
}

Test(accepted_range, a_part_is_of_the_bench_and_the_device_of_its_name)
{
    static const struct {
        const char *part, *range;
        bool is_of;
    } rows[] = {
        {"bench-nvme", "nvme", true},
        {"bench-nvme", "nvme_latency", true},
        {"bench-nvme", "nvm", false},
        {"bench-adam", "adam on cuda", false},
        {"bench-adam-cuda", "adam", false},
        {"bench-adam-cuda", "adam on cuda", true},
        {"bench-adam-rocm", "adam on cuda", false},
        {"bench-step-cuda", "step_flops on cuda", true},
        {"bench-pcie", "pcie", true},
        {"bench-pcie", "pcie on cuda", true},
        {"arithmetic", "adam", false},
        {"adam", "adam", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *on = strstr(rows[i].range, " on ");
        struct accepted_range range = {.of_case = json_object()};
        snprintf(range.bench, sizeof range.bench, "%.*s", (int)strcspn(rows[i].range, " "), rows[i].range);
        if (on)
            json_object_set_new(range.of_case, "device", json_string(on + 4));
        cr_expect_eq(accepted_range_is_of_part(&range, rows[i].part), rows[i].is_of, "%s, %s", rows[i].part,
                     rows[i].range);
        json_decref(range.of_case);
    }
    cr_expect(part_is_of_device("bench-pcie") && part_is_of_device("bench-adam-cuda"));
    cr_expect(!part_is_of_device("bench-adam") && !part_is_of_device("arithmetic"));
}
