// SPDX-License-Identifier: Apache-2.0
// report --verify accepts the unedited file and refuses each edit at its line and key. Edited files have correct
// digests, as a forger would make them. record_edit_test has more edits, of a published file.
#include "results/record/record_verify.h"

#include "results/record/record.h"
#include "results/record/record_test.h"

#include <math.h>

TestSuite(record_verify, .init = sample_folder_make, .fini = sample_folder_remove);

static void expect_holds(const char *const *lines)
{
    size_t count;
    char *text = sample_refusals(lines, &count);
    cr_expect_eq(count, 0, "%s", text);
    free(text);
}

static void expect_refusal(const char *const *lines, size_t line, const char *key, const char *what)
{
    size_t count;
    char location[128], *text = sample_refusals(lines, &count);
    snprintf(location, sizeof location, "/a:%zu: %s: ", line, key);
    cr_expect_gt(count, 0, "expected a refusal at %s (%s)", location, what);
    cr_expect(strstr(text, location) && strstr(text, what), "%s, expected %s%s", text, location, what);
    free(text);
}

// Verifies the sample file after replacing the first occurrence of `from` in a line (from 1).
static void refused(size_t line, const char *from, const char *to, size_t at_line, const char *key, const char *what)
{
    const char *lines[16] = {0}, *at = strstr(sample_file[line - 1], from);
    char edited[8192];
    cr_assert_not_null(at, "%s", from);
    for (size_t i = 0; sample_file[i]; i++)
        lines[i] = sample_file[i];
    snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - sample_file[line - 1]), sample_file[line - 1], to,
             at + strlen(from));
    lines[line - 1] = edited;
    expect_refusal(lines, at_line, key, what);
}

Test(record_verify, the_unedited_file_verifies)
{
    expect_holds(sample_file);
}

Test(record_verify, figures_must_follow_from_their_samples)
{
    refused(5, "[0.5,0.4", "[0.3,0.4", 5, "p10", "is 0.44, expected 0.34 from the samples");
    refused(5, "0.4,0.6", "0.4,0.59", 5, "p90", "expected 0.554");
    refused(5, "0.6,0.5,0.5]", "0.6,0.49,0.49]", 5, "median", "is 0.5, expected 0.49");
    refused(5, "\"median\":0.5", "\"median\":0.499", 5, "median", "is 0.499, expected 0.5");
    refused(5, "\"p90\":0.56", "\"p90\":0.5601", 5, "p90", "expected 0.56");
    refused(5, "[0.25,0.2,0.3", "[0.25,0.25,0.3", 5, "yardstick.p10", "is 0.22");
    refused(5, "\"median\":0.25", "\"median\":0.26", 5, "yardstick.median", "is 0.26, expected 0.25");
    refused(5, "\"ratio\":0.5", "\"ratio\":0.51", 5, "ratio", "is 0.51, expected 0.5 from the medians");
    refused(5, "\"ratio\":0.5", "\"ratio\":null", 5, "ratio", "is null");
}

Test(record_verify, six_digits_are_enough)
{
    const char *lines[16] = {0};
    for (size_t i = 0; sample_file[i]; i++)
        lines[i] = sample_file[i];
    lines[4] = "{\"record\":\"bench\",\"name\":\"adam\",\"case\":{\"step\":\"update\"},\"samples\":[0.333333,0.333334],"
               "\"median\":0.333334,\"p10\":0.333333,\"p90\":0.333334,\"unit\":\"ms\",\"lower_is_better\":true,"
               "\"items\":1,\"elapsed_s\":1,\"verified\":true,\"yardstick\":{\"name\":\"a\",\"samples\":[0.142857],"
               "\"median\":0.142857,\"p10\":0.142857,\"p90\":0.142857,\"unit\":\"ms\",\"items\":1},\"ratio\":0.428571}";
    lines[7] = "{\"record\":\"finding\",\"kind\":\"band\",\"verdict\":\"VALID\",\"id\":\"adam-update\",\"line\":5,"
               "\"value\":0.428571,\"text\":\"\"}";
    expect_holds(lines);
}

Test(record_verify, a_part_takes_no_longer_than_the_whole)
{
    refused(5, "\"elapsed_s\":0.00375", "\"elapsed_s\":0.0037", 5, "elapsed_s", "expected at least the 0.00375 s");
    refused(5, "\"elapsed_s\":0.00375", "\"elapsed_s\":20.1", 5, "elapsed_s", "at most the 20 s of the whole run");
    refused(5, "\"items\":1000000,\"elapsed_s\"", "\"items\":2000000,\"elapsed_s\"", 5, "elapsed_s", "0.00625 s");
    refused(5, "\"items\":1000000}", "\"items\":2000000}", 5, "elapsed_s", "0.005 s");
    refused(4, "\"end_s\":19.4", "\"end_s\":20.5", 4, "end_s", "at most the 20 s");
    refused(4, "\"end_s\":19.4", "\"end_s\":12", 4, "end_s", "no less than begin_s, 12.1");
    refused(9, "\"elapsed_s\":20", "\"elapsed_s\":19", 4, "end_s", "at most the 19 s");
    refused(5, "\"ratio\":0.5", "\"ratio\":0.5,\"timeline\":[{\"lane\":\"a\",\"begin_ms\":0,\"end_ms\":4}]", 5,
            "timeline", "from 0 to 4 ms, expected it within 3.75 ms");
}

// A rate's samples take the longer, the smaller they are.
Test(record_verify, the_duration_of_a_rate_is_recomputed)
{
    const char *const lines[] = {
        SAMPLE_RUN,
        "{\"record\":\"bench\",\"name\":\"nvme\",\"case\":{},\"samples\":[2,2,4],\"median\":2,\"p10\":2,\"p90\":3.6,"
        "\"unit\":\"GB/s\",\"lower_is_better\":false,\"items\":4000000000,\"elapsed_s\":4.9,\"verified\":true,"
        "\"yardstick\":null,\"ratio\":null}",
        "{\"record\":\"end\",\"status\":\"complete\",\"verdict\":null,\"reasons\":[],\"elapsed_s\":9,"
        "\"other_load\":null}",
        NULL};
    expect_refusal(lines, 2, "elapsed_s", "is 4.9, expected at least the 5 s");
}

Test(record_verify, verdicts_follow_from_the_accepted_ranges)
{
    refused(7, "\"at_least\":0.4", "\"at_least\":0.6", 5, "ratio", "is called VALID by a finding, expected INVALID");
    refused(7, "\"at_most\":1.2", "\"at_most\":0.45", 5, "ratio", "expected INVALID by the accepted range adam-update");
    refused(8, "\"verdict\":\"VALID\"", "\"verdict\":\"INVALID\"", 5, "ratio", "is called INVALID");
    refused(8, "\"value\":0.5", "\"value\":0.6", 5, "ratio", "is 0.5, but 0.6 in the finding");
    refused(8, "\"id\":\"adam-update\"", "\"id\":\"other\"", 5, "line", "has 0 findings of the kind band by adam");
    refused(8, "\"id\":\"adam-update\"", "\"id\":\"other\"", 8, "id", "other is not a `band` record that matches");
    refused(8, "\"line\":5", "\"line\":4", 8, "line", "is 4, expected the line of a `bench` record");
    refused(8, "\"line\":5", "\"line\":99", 8, "line", "is 99");
    refused(8, "\"line\":5", "\"line\":null", 8, "line", "is null, expected the line of the `bench` record");
    refused(7, "\"step\":\"update\"", "\"step\":\"other\"", 7, "id", "matches no `bench` record");
    refused(5, "\"step\":\"update\"", "\"step\":\"update\",\"device\":\"cuda\"", 7, "id", "matches no `bench`");
    refused(7, "\"metric\":\"ratio\",\"unit\":null", "\"metric\":\"median\",\"unit\":\"ms\"", 5, "unit", "is in ms");
}

#define VALID_END                                                                                                      \
    "{\"record\":\"end\",\"status\":\"complete\",\"verdict\":\"VALID\",\"reasons\":[],\"elapsed_s\":20,"               \
    "\"other_load\":null}"
#define SLOW_END                                                                                                       \
    "{\"record\":\"end\",\"status\":\"complete\",\"verdict\":\"INVALID\",\"reasons\":[\"slow\"],\"elapsed_s\":20,"     \
    "\"other_load\":null}"
#define SKIP_FINDING                                                                                                   \
    "{\"record\":\"finding\",\"kind\":\"band\",\"verdict\":\"VALID\",\"id\":\"adam-update\",\"line\":2,"               \
    "\"value\":null,\"text\":\"not judged here\"}"
#define SKIPPED(case, needs, available)                                                                                \
    "{\"record\":\"skip\",\"name\":\"adam\",\"case\":{" case "},\"needs_bytes\":" #needs                               \
                                                             ",\"available_bytes\":" #available "}"

// The sample's machine has 1024 bytes.
Test(record_verify, a_range_may_go_without_a_result_only_where_memory_is_short)
{
    const char *lines[] = {SAMPLE_RUN, SKIPPED("\"step\":\"update\"", 900, 800), SAMPLE_RANGE, SKIP_FINDING, VALID_END,
                           NULL};
    expect_holds(lines);
    lines[1] = SKIPPED("\"step\":\"update\"", 800, 800);
    expect_refusal(lines, 2, "needs_bytes", "is 800, expected more than the 800 available");
    lines[1] = SKIPPED("\"step\":\"update\"", 9000, 1025);
    expect_refusal(lines, 2, "available_bytes", "is 1025, expected at most the machine's 1024");
    lines[1] = SKIPPED("\"step\":\"fused\"", 900, 800);
    expect_refusal(lines, 3, "id", "matches no `bench` record");
    expect_refusal(lines, 4, "id", "is not a `band` record that matches line 2");
    lines[1] = SKIPPED("\"step\":\"update\"", 900, 800);
    lines[3] = SAMPLE_PART;
    expect_refusal(lines, 3, "id", "matches no `bench` record");
}

#define ARITHMETIC                                                                                                     \
    "{\"record\":\"finding\",\"kind\":\"arithmetic\",\"verdict\":\"VALID\",\"id\":\"arithmetic\",\"line\":3,"          \
    "\"value\":null,\"text\":\"good\"}"
#define HEALTH(before, after)                                                                                          \
    "{\"record\":\"health\",\"counters\":{\"machine_checks\":{\"before\":" #before ",\"after\":" #after "},"           \
    "\"temperature_c\":{\"before\":40,\"after\":70}}}"
#define HEALTH_FINDING(verdict)                                                                                        \
    "{\"record\":\"finding\",\"kind\":\"health\",\"verdict\":\"" verdict "\",\"id\":\"machine_checks\",\"line\":2,"    \
    "\"value\":null,\"text\":\"slow\"}"

Test(record_verify, a_count_of_errors_that_grew_has_its_finding)
{
    expect_holds((const char *const[]){SAMPLE_RUN, HEALTH(1, 3), HEALTH_FINDING("INVALID"), SLOW_END, NULL});
    expect_refusal((const char *const[]){SAMPLE_RUN, HEALTH(1, 3), HEALTH_FINDING("VALID"), VALID_END, NULL}, 2,
                   "machine_checks", "grew, but a finding calls it VALID");
    expect_refusal((const char *const[]){SAMPLE_RUN, HEALTH(1, 3), SAMPLE_CONFORMANCE, SAMPLE_REQUIREMENT, NULL}, 2,
                   "line", "has 0 findings of the kind health by machine_checks");
    expect_holds((const char *const[]){SAMPLE_RUN, HEALTH(null, 3), SAMPLE_CONFORMANCE, SAMPLE_REQUIREMENT, ARITHMETIC,
                                       VALID_END, NULL});
}

// The ranks' results, one of each of two ranks.
#define RANK(rank, ns)                                                                                                 \
    "{\"record\":\"bench\",\"name\":\"ranks\",\"case\":{\"lane\":\"compute\",\"host\":\"a\",\"rank\":" #rank ","       \
    "\"processor\":" #rank ",\"together\":false},\"samples\":[" #ns "],\"median\":" #ns ",\"p10\":" #ns ","            \
    "\"p90\":" #ns ",\"unit\":\"ns\",\"lower_is_better\":true,\"items\":1,\"elapsed_s\":1,\"verified\":true,"          \
    "\"yardstick\":null,\"ratio\":null}"
#define OUTLIER(verdict, line, value)                                                                                  \
    "{\"record\":\"finding\",\"kind\":\"outlier\",\"verdict\":\"" verdict "\",\"id\":\"ranks-compute-alone\","         \
    "\"line\":" #line ",\"value\":" #value ",\"text\":\"slow\"}"
Test(record_verify, outliers_follow_from_the_ranks_samples)
{
    expect_holds(
        (const char *const[]){SAMPLE_RUN, RANK(0, 100), RANK(1, 110), OUTLIER("VALID", 3, 1.1), VALID_END, NULL});
    expect_holds(
        (const char *const[]){SAMPLE_RUN, RANK(0, 100), RANK(1, 200), OUTLIER("INVALID", 3, 2), SLOW_END, NULL});
    expect_refusal(
        (const char *const[]){SAMPLE_RUN, RANK(0, 100), RANK(1, 200), OUTLIER("VALID", 3, 2), VALID_END, NULL}, 3,
        "median", "is called VALID by the finding ranks-compute-alone, expected INVALID");
    expect_refusal(
        (const char *const[]){SAMPLE_RUN, RANK(0, 100), RANK(1, 200), OUTLIER("INVALID", 3, 1.5), SLOW_END, NULL}, 3,
        "median", "is 2 times that of its peers, but 1.5");
    expect_refusal(
        (const char *const[]){SAMPLE_RUN, RANK(0, 100), RANK(1, 200), OUTLIER("INVALID", 2, 2), SLOW_END, NULL}, 3,
        "line", "has 0 findings of the kind outlier");
    expect_refusal((const char *const[]){SAMPLE_RUN, RANK(0, 100), RANK(1, 110), OUTLIER("VALID", 3, 1.1),
                                         OUTLIER("VALID", 2, 1.1), VALID_END, NULL},
                   6, "kind", "2 findings are about outliers, expected 1");
}

Test(record_verify, without_findings_there_is_no_verdict)
{
    const char *lines[16] = {0};
    size_t count = 0;
    for (; sample_file[count]; count++)
        lines[count] = sample_file[count];
    lines[7] = lines[8];
    lines[8] = NULL;
    expect_refusal(lines, 8, "verdict", "is VALID, expected null from the findings");
}

Test(record_verify, a_run_with_the_stand_in_for_cuda_is_refused)
{
    refused(1, "A GPU", "CUDA stand-in (host)", 1, "machine.gpus",
            "a processor that plays a GPU in tests has no results");
}

static size_t refusals_of_part(const char *name, int status, const char *gpus)
{
    char run[4096], part[512], finding[512];
    const char *lines[16], *at = strstr(SAMPLE_RUN, "\"gpus\":[");
    size_t count = 0;
    snprintf(run, sizeof run, "%.*s\"gpus\":%s%s", (int)(at - SAMPLE_RUN), SAMPLE_RUN, gpus, strchr(at, ']') + 1);
    snprintf(part, sizeof part,
             "{\"record\":\"part\",\"name\":\"%s\",\"command\":[\"zerogauge\"],\"begin_s\":1,\"end_s\":2,"
             "\"status\":%d,\"signal\":null,\"reason\":\"SKIP\"}",
             name, status);
    for (; sample_file[count]; count++)
        lines[count] = sample_file[count];
    lines[0] = run;
    lines[3] = part;
    snprintf(finding, sizeof finding,
             "{\"record\":\"finding\",\"kind\":\"part\",\"verdict\":\"VALID\",\"id\":\"%s\",\"line\":4,"
             "\"value\":null,\"text\":\"not here\"}",
             name);
    lines[count] = lines[count - 1];
    lines[count - 1] = finding;
    lines[count + 1] = NULL;
    free(sample_refusals(lines, &count));
    return count;
}

Test(record_verify, only_a_part_about_an_absent_device_may_be_skipped)
{
    cr_expect_eq(refusals_of_part("bench-pcie", 77, "[]"), 0);
    cr_expect_eq(refusals_of_part("bench-pcie", 77, "[{\"model\":\"A GPU\"}]"), 1);
    cr_expect_eq(refusals_of_part("bench-pcie", 1, "[]"), 1);
    cr_expect_eq(refusals_of_part("bench-nvme", 77, "[]"), 1);
    cr_expect_eq(refusals_of_part("bench-adam-cuda", 77, "[]"), 0);
    cr_expect_eq(refusals_of_part("bench-adam-cuda", 77, "[{\"model\":\"A GPU\"}]"), 1);
    cr_expect_eq(refusals_of_part("bench-adam", 77, "[]"), 1);
}

Test(record_verify, whether_a_model_fits_follows_from_the_bytes)
{
    refused(6, "\"device_bytes\":10", "\"device_bytes\":11", 6, "fits", "is true, expected false");
    refused(6, "\"nvme_bytes\":0", "\"nvme_bytes\":1", 6, "fits", "is true, expected false");
    refused(6, "\"fits\":true", "\"fits\":false", 6, "fits", "is false, expected true");
    refused(6, "\"fits\":true", "\"fits\":null", 6, "reason", "is null");
}

Test(record_verify, lines_digest_and_end_belong_to_this_file)
{
    struct result_file file;
    size_t count;
    const char *const failed[] = {SAMPLE_RUN, SAMPLE_PART, NULL};
    expect_refusal(failed, 2, "record", "the run failed");
    // As sample_write would make it right, the text is edited after it.
    const char *path = sample_write("a", sample_file);
    FILE *stream = fopen(path, "r+");
    char text[16384] = "";
    size_t bytes = fread(text, 1, sizeof text - 1, stream);
    *strstr(text, "A processor") = 'B';
    rewind(stream);
    cr_assert_eq(fwrite(text, 1, bytes, stream), bytes);
    fclose(stream);
    cr_assert_eq(result_open(path, &file), ERR_NONE);
    cr_assert_eq(record_verify(&file, NULL, &count), ERR_NONE);
    cr_expect_eq(count, 1);
    json_object_set_new((json_t *)file.end, "lines", json_integer(7));
    // The cause precedes what follows from it.
    char *said = NULL, *first;
    FILE *out = open_memstream(&said, &bytes);
    cr_assert_eq(record_verify(&file, out, &count), ERR_NONE);
    fclose(out);
    first = strstr(said, "digest: is ");
    cr_expect(first && first < strstr(said, "lines: is 7"), "%s", said);
    free(said);
    cr_expect_eq(count, 2);
    result_close(&file);
}

Test(record_verify, a_conclusion_names_what_decides)
{
    json_t *reasons, *findings = json_pack("[{s:s,s:s},{s:s,s:s},{s:s,s:s}]", "verdict", "INVALID", "text", "a",
                                           "verdict", "INCOMPLETE", "text", "b", "verdict", "INVALID", "text", "c");
    cr_expect_str_eq(conclusion_of(findings, false, &reasons), "INVALID");
    cr_expect_eq(json_array_size(reasons), 2);
    cr_expect_str_eq(json_string_value(json_array_get(reasons, 1)), "c");
    json_decref(reasons);
    cr_expect_str_eq(conclusion_of(findings, true, &reasons), "INCOMPLETE");
    cr_expect_eq(json_array_size(reasons), 1);
    json_decref(reasons);
    json_t *end = conclusion_end(findings, false, 2.5, NAN);
    cr_expect(json_is_null(json_object_get(end, "other_load")));
    cr_expect_str_eq(json_string_value(json_object_get(end, "verdict")), "INVALID");
    json_decref(end);
    json_decref(findings);
}

// A verified run is not ranked for each of these reasons alone.
Test(record_verify, a_run_that_is_not_whole_has_its_reason)
{
    static const struct {
        const char *program, *level;
        int dirty;
        double load;
        const char *reasons;
    } runs[] = {
        {"validate", "full", 0, 0.05, ""},
        {"validate", "quick", 0, 0.05, "its level is not full"},
        {"validate", "full", 1, 0.05, "its sources are changed"},
        {"validate", "full", 0, 0.06, "other programs used 6 % of the processors"},
        {"bench", "quick", 1, 0, "it is no run of validate, its level is not full, its sources are changed"},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        json_t *run = json_pack("{s:s, s:s, s:{s:b}}", "program", runs[i].program, "level", runs[i].level, "suite",
                                "dirty", runs[i].dirty);
        json_t *end = json_pack("{s:f}", "other_load", runs[i].load);
        const struct result_file file = {.run = run, .end = end};
        char text[UNRANKED_TEXT_BYTES];
        record_unranked(&file, text);
        cr_expect_str_eq(text, runs[i].reasons);
        json_decref(run);
        json_decref(end);
    }
}
