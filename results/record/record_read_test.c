// SPDX-License-Identifier: Apache-2.0
// The reader accepts exactly what the schema permits, and refuses everything else.
#include "conformance/cases/schema_test.h"
#include "results/record/record_test.h"

TestSuite(record_read, .init = sample_folder_make, .fini = sample_folder_remove);

static int read_record(const char *text, size_t bytes)
{
    json_t *record = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(record);
    int rc = record_check("a line", record);
    json_decref(record);
    return rc;
}

Test(record_read, reader_and_schema_agree)
{
    static const struct {
        const char *name, *sample;
    } kinds[] = {{"run", SAMPLE_RUN},
                 {"part", SAMPLE_PART},
                 {"conformance", SAMPLE_CONFORMANCE},
                 {"requirement", SAMPLE_REQUIREMENT},
                 {"skip", SAMPLE_SKIP},
                 {"health", SAMPLE_HEALTH},
                 {"fit", SAMPLE_FIT},
                 {"band", SAMPLE_RANGE},
                 {"finding", SAMPLE_FINDING},
                 {"end", SAMPLE_INVALID_END}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        cr_expect_gt(schema_check("results/record/schema.json", kinds[i].name, kinds[i].sample, read_record), 20);
    json_t *bench = json_loads(SAMPLE_BENCH, 0, NULL);
    json_object_set_new(bench, "timeline",
                        json_pack("[{s:s, s:f, s:f}]", "lane", "adam", "begin_ms", 0.5, "end_ms", 1.5));
    json_object_set_new(bench, "detail", json_pack("{s:{s:{s:f}}}", "lanes", "nvme_read", "busy_ms", 0.5));
    char *sample = json_dumps(bench, 0);
    cr_expect_gt(schema_check("results/record/schema.json", "bench", sample, read_record), 100);
    free(sample);
    json_decref(bench);
}

Test(record_read, details_are_scalars_or_objects_two_deep)
{
    static const struct {
        const char *text;
        bool good;
    } details[] = {{"{}", true},
                   {"{\"a\":1.5,\"b\":null,\"c\":\"d\",\"e\":true}", true},
                   {"{\"a\":{\"p50\":1,\"p99\":2}}", true},
                   {"{\"a\":{\"b\":{\"c\":1}}}", true},
                   {"{\"a\":{\"b\":{\"c\":{}}}}", false},
                   {"{\"a\":[1]}", false},
                   {"{\"a\":{\"b\":[1]}}", false},
                   {"[]", false}};
    for (size_t i = 0; i < sizeof details / sizeof details[0]; i++) {
        json_t *record = json_loads(SAMPLE_BENCH, 0, NULL);
        json_object_set_new(record, "detail", json_loads(details[i].text, 0, NULL));
        cr_expect_eq(record_check("a line", record) == ERR_NONE, details[i].good, "%s", details[i].text);
        json_decref(record);
    }
}

Test(record_read, a_case_may_have_a_thousand_samples)
{
    json_t *record = json_loads(SAMPLE_BENCH, 0, NULL), *samples = json_object_get(record, "samples");
    while (json_array_size(samples) < 1000)
        json_array_append_new(samples, json_real(0.5));
    cr_expect_eq(record_check("a line", record), ERR_NONE, "%s", err_message());
    json_array_append_new(samples, json_real(0.5));
    cr_expect_eq(record_check("a line", record), ERR_USAGE);
    json_decref(record);
}

Test(record_read, units_times_and_digests_must_have_the_right_form)
{
    static const struct {
        const char *key, *value;
        bool good;
    } values[] = {{"unit", "ns", true},       {"unit", "us", true},         {"unit", "ms_per_step", true},
                  {"unit", "tokens/s", true}, {"unit", "GFLOP/s", true},    {"unit", "GB/s", true},
                  {"unit", "s_per_", false},  {"unit", "ns_param", false},  {"unit", "furlong", false},
                  {"unit", "/s", false},      {"unit", "MB/s", false},      {"unit", "", false},
                  {"unit", "<b>/s", false},   {"unit", "ns_per_a b", false}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        json_t *record = json_loads(SAMPLE_BENCH, 0, NULL);
        json_object_set_new(record, values[i].key, json_string(values[i].value));
        cr_expect_eq(record_check("a line", record) == ERR_NONE, values[i].good, "%s", values[i].value);
        json_decref(record);
    }
    json_t *run = json_loads(SAMPLE_RUN, 0, NULL);
    json_object_set_new(run, "started", json_string("2026-11-21 15:00:00Z"));
    cr_expect_eq(record_check("a line", run), ERR_USAGE);
    json_decref(run);
}

Test(record_read, a_whole_file_is_read_record_by_record)
{
    struct result_file file;
    cr_assert_eq(result_open(sample_write("whole", sample_file), &file), ERR_NONE, "%s", err_message());
    cr_expect_eq(file.line_count, 9);
    cr_expect_eq(file.run, file.lines[0]);
    cr_expect_eq(file.end, file.lines[8]);
    cr_expect_str_eq(json_string_value(json_object_get(file.end, "digest")), file.digest);
    cr_expect_str_eq(json_string_value(json_object_get(file.lines[4], "record")), "bench");
    result_close(&file);
}

Test(record_read, a_file_without_an_end_record_is_read)
{
    struct result_file file;
    const char *const lines[] = {SAMPLE_RUN, SAMPLE_PART, NULL};
    cr_assert_eq(result_open(sample_write("failed", lines), &file), ERR_NONE);
    cr_expect_null(file.end);
    cr_expect_eq(file.line_count, 2);
    result_close(&file);
}

Test(record_read, unknown_keys_are_dropped_at_every_depth)
{
    struct result_file file;
    const char *const lines[] = {SAMPLE_RUN,
                                 "{\"record\":\"part\",\"zz\":[[[1]]],\"name\":\"a\",\"command\":[\"b\"],\"begin_s\":0,"
                                 "\"end_s\":0,\"status\":0,\"signal\":null,\"reason\":null}",
                                 NULL};
    cr_assert_eq(result_open(sample_write("unknown", lines), &file), ERR_NONE, "%s", err_message());
    cr_expect_null(json_object_get(file.lines[1], "zz"));
    cr_expect_str_eq(json_string_value(json_object_get(file.lines[1], "name")), "a");
    cr_expect_str_eq(json_string_value(json_object_get(file.lines[1], "record")), "part");
    result_close(&file);
}

// Expects the reader to refuse the lines with this message.
static void refuse(const char *const *lines, const char *where, const char *what)
{
    struct result_file file;
    const char *path = sample_write("refused", lines);
    char expected[PATH_MAX + 32];
    snprintf(expected, sizeof expected, "%s%s", path, where);
    cr_expect_eq(result_open(path, &file), ERR_USAGE, "%s", lines[0]);
    cr_expect(strstr(err_message(), expected) == err_message(), "%s: expected %s", err_message(), expected);
    cr_expect(strstr(err_message(), what), "%s: expected %s", err_message(), what);
}

Test(record_read, refusals_name_line_key_and_the_expected_value)
{
    refuse((const char *const[]){"{}", NULL}, ":1: ", "record: is missing, expected one of \"run\"");
    refuse((const char *const[]){"[]", NULL}, ":1: ", "the record: is [], expected an object");
    refuse((const char *const[]){"{\"record\":7}", NULL}, ":1: ", "record: is 7");
    refuse((const char *const[]){SAMPLE_PART, NULL}, ":1: ", "the `run` record first");
    refuse((const char *const[]){SAMPLE_RUN, SAMPLE_RUN, NULL}, ":2: ", "no second `run`");
    refuse((const char *const[]){SAMPLE_RUN, SAMPLE_END, SAMPLE_PART, NULL}, ":3: ", "after the `end` record");
    refuse((const char *const[]){SAMPLE_RUN, "", SAMPLE_PART, NULL}, ":2: ", "is empty, expected JSON");
    refuse((const char *const[]){SAMPLE_RUN, "{\"record\":\"part\",\"name\":1}", NULL},
           ":2: ", "name: is 1, expected a string of at most 128 characters");
    refuse((const char *const[]){SAMPLE_RUN, "{\"record\":\"part\",\"record\":\"part\"}", NULL},
           ":2: ", "record: given twice");
    refuse(
        (const char *const[]){SAMPLE_RUN, "{\"record\":\"bench\",\"name\":\"a\",\"case\":{},\"samples\":[1,0]}", NULL},
        ":2: ", "samples.1: is 0, expected a number above 0");
    refuse((const char *const[]){SAMPLE_RUN, "{\"record\":\"bench\",\"name\":\"a\",\"case\":{\"x\":[1]}}", NULL},
           ":2: ", "case.x: is [1], expected");
    refuse((const char *const[]){SAMPLE_RUN, "{\"record\":\"part\",\"name\":\"\\u0000\"}", NULL},
           ":2: ", "is not JSON");
    refuse((const char *const[]){SAMPLE_RUN, "{\"record\":\"part\",\"name\":\"\xff\"}", NULL}, ":2: ", "is not JSON");
    refuse((const char *const[]){SAMPLE_RUN, "{\"record\":\"part\",\"begin_s\":1e999}", NULL}, ":2: ", "is not JSON");
}

Test(record_read, files_that_are_not_results_are_refused)
{
    struct result_file file;
    char huge[] = "{\"record\":\"run\"";
    cr_expect_eq(result_open(sample_put("cut", SAMPLE_RUN, strlen(SAMPLE_RUN)), &file), ERR_USAGE);
    cr_expect(strstr(err_message(), ":1: the last line is cut off"), "%s", err_message());
    cr_expect_eq(result_open(sample_put("empty", "", 0), &file), ERR_USAGE);
    cr_expect(strstr(err_message(), "is empty"), "%s", err_message());
    cr_expect_eq(result_open(sample_put("zero", "\0\n", 2), &file), ERR_USAGE);
    cr_expect_eq(result_open(sample_put("no end", huge, sizeof huge - 1), &file), ERR_USAGE);
    cr_expect_eq(result_open(sample_path("not there"), &file), ERR_USAGE);
    cr_expect_eq(result_open(sample_folder, &file), ERR_USAGE);
}

static const char *put_letters(const char *name, size_t line_count, size_t line_bytes)
{
    size_t bytes = line_count * (line_bytes + 1);
    char *text = malloc(bytes);
    memset(text, '[', bytes);
    for (size_t i = 0; i < line_count; i++)
        text[(i + 1) * (line_bytes + 1) - 1] = '\n';
    const char *path = sample_put(name, text, bytes);
    free(text);
    return path;
}

Test(record_read, sizes_are_bounded)
{
    struct result_file file;
    cr_expect_eq(result_open(put_letters("line", 1, RECORD_LINE_BYTES_MAX + 1), &file), ERR_USAGE);
    cr_expect(strstr(err_message(), "a line has at most 1048576"), "%s", err_message());
    cr_expect_eq(result_open(put_letters("file", 17, RECORD_LINE_BYTES_MAX), &file), ERR_USAGE);
    cr_expect(strstr(err_message(), "at most 16777216 are expected"), "%s", err_message());
    cr_expect_eq(result_open(put_letters("lines", RECORD_LINE_COUNT_MAX + 1, 1), &file), ERR_USAGE);
    cr_expect(strstr(err_message(), "at most 100000"), "%s", err_message());
    cr_expect_eq(result_open(put_letters("deep", 1, RECORD_LINE_BYTES_MAX), &file), ERR_USAGE);
    cr_expect(strstr(err_message(), "is not JSON"), "%s", err_message());
}
