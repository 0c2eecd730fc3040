// SPDX-License-Identifier: Apache-2.0
// The writer: its records are read back, files are never overwritten, and only `end` makes a result.
#include "results/record/record_test.h"

#include "results/record/record.h"
#include "results/record/other_load.h"
#include "conformance/cases/schema_test.h"

#include <criterion/criterion.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(record, .init = sample_folder_make, .fini = sample_folder_remove);

static json_t *sample(const char *text)
{
    json_t *record = json_loads(text, 0, NULL);
    cr_assert_not_null(record);
    return record;
}

Test(record, written_records_are_read_back_with_their_digest)
{
    struct record_writer *writer;
    struct result_file file;
    const char *path = sample_path("a");
    cr_assert_eq(record_create(path, &writer), ERR_NONE, "%s", err_message());
    for (size_t i = 0; sample_file[i + 1]; i++) {
        cr_assert_eq(record_append(writer, sample(sample_file[i])), ERR_NONE, "%s", err_message());
        cr_expect_eq(record_line_count(writer), i + 1);
    }
    cr_assert_eq(record_end(writer, sample(SAMPLE_END)), ERR_NONE, "%s", err_message());
    record_close(writer);
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    cr_expect_eq(file.line_count, 9);
    cr_expect_str_eq(json_string_value(json_object_get(file.end, "digest")), file.digest);
    cr_expect_eq(json_integer_value(json_object_get(file.end, "lines")), 8);
    for (size_t i = 0; i < 8; i++) {
        json_t *expected = sample(sample_file[i]);
        cr_expect(json_equal(file.lines[i], expected), "line %zu", i + 1);
        json_decref(expected);
    }
    result_close(&file);
}

Test(record, every_line_can_be_read_as_soon_as_it_is_appended)
{
    struct record_writer *writer;
    struct result_file file;
    const char *path = sample_path("a");
    cr_assert_eq(record_create(path, &writer), ERR_NONE);
    cr_assert_eq(record_append(writer, sample(SAMPLE_RUN)), ERR_NONE);
    cr_assert_eq(record_append(writer, sample(SAMPLE_PART)), ERR_NONE);
    cr_assert_eq(result_open(path, &file), ERR_NONE);
    cr_expect_eq(file.line_count, 2);
    cr_expect_null(file.end);
    result_close(&file);
    record_close(writer);
}

Test(record, an_existing_file_is_never_overwritten)
{
    struct record_writer *writer;
    const char *path = sample_put("a", "mine", 4);
    char text[8] = "";
    cr_expect_eq(record_create(path, &writer), ERR_USAGE);
    cr_expect_null(writer);
    cr_expect(strstr(err_message(), "never overwritten"), "%s", err_message());
    FILE *file = fopen(path, "r");
    cr_assert(file && fgets(text, sizeof text, file));
    fclose(file);
    cr_expect_str_eq(text, "mine");
    cr_expect_eq(record_create(sample_path("no/folder"), &writer), ERR_USAGE);
}

Test(record, records_that_readers_refuse_are_not_written)
{
    struct record_writer *writer;
    cr_assert_eq(record_create(sample_path("a"), &writer), ERR_NONE);
    cr_expect_eq(record_append(writer, sample(SAMPLE_PART)), ERR_INTERNAL);
    cr_expect_eq(record_append(writer, sample("{\"record\":\"run\",\"schema\":1}")), ERR_INTERNAL);
    cr_expect(strstr(err_message(), "program: is missing"), "%s", err_message());
    cr_expect_eq(record_append(writer, sample(SAMPLE_RUN)), ERR_NONE);
    cr_expect_eq(record_append(writer, sample(SAMPLE_RUN)), ERR_INTERNAL);
    cr_expect_eq(record_append(writer, sample(SAMPLE_END)), ERR_INTERNAL);
    cr_expect_eq(record_append(writer, NULL), ERR_MEMORY);
    cr_expect_eq(record_line_count(writer), 1);
    cr_expect_eq(record_end(writer, sample(SAMPLE_END)), ERR_NONE);
    cr_expect_eq(record_append(writer, sample(SAMPLE_PART)), ERR_INTERNAL);
    record_close(writer);
}

// A limit on the size of files simulates a full disk.
Test(record, a_line_that_does_not_fit_on_the_disk_leaves_the_others_intact)
{
    struct record_writer *writer;
    struct result_file file;
    const char *path = sample_path("a");
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){strlen(SAMPLE_RUN) + 100, RLIM_INFINITY}), 0);
    cr_assert_eq(record_create(path, &writer), ERR_NONE);
    cr_assert_eq(record_append(writer, sample(SAMPLE_RUN)), ERR_NONE);
    cr_expect_eq(record_append(writer, sample(SAMPLE_PART)), ERR_IO);
    cr_expect(strstr(err_message(), path), "%s", err_message());
    cr_expect_neq(record_append(writer, sample(SAMPLE_PART)), ERR_NONE);
    cr_expect_neq(record_end(writer, sample(SAMPLE_END)), ERR_NONE);
    record_close(writer);
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    cr_expect_eq(file.line_count, 1);
    cr_expect_null(file.end);
    result_close(&file);
}

TestSuite(record_run, .init = sample_folder_make, .fini = sample_folder_remove);

static const char *const argv[] = {"zerogauge", "validate", "--nvme-path", "\xff<b>\n", NULL};

Test(record_run, readers_accept_the_record_of_this_machine)
{
    const char *const folders[] = {sample_folder, "/proc", NULL};
    struct record_writer *writer;
    struct result_file file;
    const char *path = sample_path("a");
    cr_assert_eq(record_create(path, &writer), ERR_NONE);
    cr_assert_eq(record_append(writer, record_run("validate", "quick", 4, argv, folders)), ERR_NONE, "%s",
                 err_message());
    record_close(writer);
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    const json_t *command = json_object_get(file.run, "command");
    const json_t *machine = json_object_get(file.run, "machine");
    cr_expect_eq(json_array_size(command), 4);
    cr_expect_str_eq(json_string_value(json_array_get(command, 3)), "\\xff<b>\n");
    cr_expect_str_eq(json_string_value(json_object_get(file.run, "level")), "quick");
    cr_expect_eq(json_array_size(json_object_get(machine, "disks")), 2);
    result_close(&file);
}

Test(record_run, it_contains_nothing_of_the_environment)
{
    char host[256] = "";
    setenv("ZG_SECRET", "a-secret-of-mine", 1);
    gethostname(host, sizeof host - 1);
    json_t *run = record_run("bench", NULL, 1, argv, NULL);
    char *text = json_dumps(run, 0);
    cr_expect(json_is_null(json_object_get(run, "level")));
    cr_expect_null(strstr(text, "a-secret-of-mine"));
    cr_expect(strlen(host) < 4 || !strstr(text, host), "%s", host);
    free(text);
    json_decref(run);
}

Test(other_load, busy_time_is_all_but_idle_and_waiting)
{
    struct other_load load;
    other_load_parse("cpu  1000 200 300 4000 500 60 70 80 900 100\n", 100, &load);
    cr_expect_float_eq(load.total_s, 62.1, 1e-9);
    cr_expect_float_eq(load.busy_s, 17.1, 1e-9);
    other_load_parse("cpu  1 2 3 4\n", 1, &load);
    cr_expect_float_eq(load.busy_s, 6, 1e-9);
    other_load_parse("cpu0 1 2 3 4\n", 1, &load);
    cr_expect(isnan(load.busy_s));
    other_load_parse("", 1, &load);
    cr_expect(isnan(load.total_s));
}

Test(other_load, the_runs_own_time_does_not_count_as_other)
{
    const struct other_load begin = {.busy_s = 100, .total_s = 1000, .own_s = 5};
    const struct other_load end = {.busy_s = 108, .total_s = 1020, .own_s = 11};
    const struct other_load alone = {.busy_s = 105.99, .total_s = 1020, .own_s = 11};
    const struct other_load unknown = {.busy_s = NAN, .total_s = 1020, .own_s = 11};
    cr_expect_float_eq(other_load_share(&begin, &end), 0.1, 1e-9);
    cr_expect_eq(other_load_share(&begin, &alone), 0);
    cr_expect(isnan(other_load_share(&begin, &begin)));
    cr_expect(isnan(other_load_share(&begin, &unknown)));
}

Test(other_load, children_that_were_waited_for_are_own)
{
    struct other_load begin, end;
    struct timespec used;
    other_load_now(&begin);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        do
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        while (used.tv_sec == 0 && used.tv_nsec < 100000000);
        _exit(0);
    }
    cr_assert_eq(waitpid(child, NULL, 0), child);
    other_load_now(&end);
    cr_expect_geq(end.own_s - begin.own_s, 0.09);
    cr_expect_geq(end.total_s, begin.total_s);
}

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

// As the links of 256 hosts are, of which each has 255 partners.
Test(record_read, a_detail_may_have_256_members)
{
    json_t *record = json_loads(SAMPLE_BENCH, 0, NULL), *links = json_object();
    json_object_set_new(record, "detail", json_pack("{s:o}", "us_with", links));
    for (int i = 0; i < 257; i++) {
        char partner[16];
        cr_expect_eq(record_check("a line", record), ERR_NONE, "%d: %s", i, err_message());
        snprintf(partner, sizeof partner, "%d", i);
        json_object_set_new(links, partner, json_real(0.5));
    }
    cr_expect_eq(record_check("a line", record), ERR_USAGE);
    json_decref(record);
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
