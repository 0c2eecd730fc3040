// SPDX-License-Identifier: Apache-2.0
// Tests of the JSON lines: each follows the schema, no finding is missing, and untrusted text stays in its string.
#include "conformance/report/report_test.h"

#include <jansson.h>

enum { LINE_MAX_COUNT = 64 };

static struct reported *reported;

// The records of its report.
static json_t *records[LINE_MAX_COUNT];
static size_t record_count;

static void close_records(void)
{
    while (record_count > 0)
        json_decref(records[--record_count]);
}

static void read_records(void)
{
    close_records();
    char *text = reported_print(reported, report_json), *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) && rest;) {
        json_error_t error;
        json_t *record = json_loads(line, JSON_REJECT_DUPLICATES, &error);
        cr_assert_not_null(record, "%s in %s", error.text, line);
        cr_assert_lt(record_count, LINE_MAX_COUNT);
        records[record_count++] = record;
    }
    free(text);
}

static void setup(void)
{
    reported = reported_open(false);
    read_records();
}

static void teardown(void)
{
    close_records();
    reported_close(reported);
}

TestSuite(report_json, .init = setup, .fini = teardown);

static void read_hostile_records(void)
{
    reported_close(reported);
    reported = reported_open(true);
    read_records();
}

static const char *string_of(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    cr_assert_not_null(value, "%s", key);
    return value;
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    cr_assert(json_is_number(value), "%s is no number", key);
    return json_number_value(value);
}

// The keys of a record are those that the schema requires and describes, no more and no fewer.
static void assert_keys(const json_t *schema, const char *kind, json_t *record)
{
    json_t *definition = json_object_get(json_object_get(schema, "$defs"), kind);
    const json_t *properties = json_object_get(definition, "properties"), *name;
    json_t *required = json_object_get(definition, "required"), *value;
    const char *key;
    size_t i;
    cr_assert_not_null(required, "%s", kind);
    json_array_foreach (required, i, name)
        cr_assert_not_null(json_object_get(record, json_string_value(name)), "%s", json_string_value(name));
    json_object_foreach (record, key, value)
        cr_assert_not_null(json_object_get(properties, key), "%s.%s", kind, key);
    cr_assert_eq(json_array_size(required), json_object_size(record), "%s", kind);
    cr_assert_eq(json_object_size(properties), json_object_size(record), "%s", kind);
}

static json_t *schema_open(void)
{
    json_error_t error;
    json_t *schema = json_load_file(ZG_SOURCE_DIR "/conformance/schema/report.schema.json", 0, &error);
    cr_assert_not_null(schema, "%d: %s", error.line, error.text);
    return schema;
}

Test(report_json, records_come_in_order_and_with_the_keys_of_the_schema)
{
    json_t *schema = schema_open();
    for (int hostile = 0; hostile < 2; hostile++) {
        if (hostile)
            read_hostile_records();
        cr_assert_eq(record_count, 1 + reported->findings.count + REPORTED_COUNT + 1);
        for (size_t i = 0; i < record_count; i++) {
            const char *kind = i == 0                          ? "run"
                               : i <= reported->findings.count ? "check"
                               : i + 1 < record_count          ? "requirement"
                                                               : "end";
            cr_assert_str_eq(string_of(records[i], "record"), kind, "line %zu", i + 1);
            assert_keys(schema, kind, records[i]);
            json_t *difference = json_object_get(records[i], "difference");
            if (difference && !json_is_null(difference))
                assert_keys(schema, "difference", difference);
        }
    }
    json_decref(schema);
}

Test(report_json, the_run_is_reported_with_its_facts)
{
    const json_t *run = records[0];
    cr_assert_str_eq(string_of(run, "implementation"), "Example Trainer");
    cr_assert_str_eq(string_of(run, "version"), "1.2.3");
    cr_assert_str_eq(string_of(run, "level"), "quick");
    cr_assert(json_is_null(json_object_get(run, "part")));
    cr_assert_str_eq(string_of(run, "command"), "-- ./adapter {cases} {answers} {world}");
    cr_assert_str_eq(string_of(run, "seed"), "18446744073709551615");
    cr_assert_eq(number_of(run, "case_count"), 7);
    cr_assert_eq(number_of(run, "repeat_count"), 1);
    cr_assert_eq(number_of(run, "launch_count"), 3);
    cr_assert_eq(number_of(run, "requirement_count"), REPORTED_COUNT);
    cr_assert_eq(number_of(run, "duration_s"), 12.25);
    cr_assert_eq(json_array_size(json_object_get(run, "rules")), 2);
    cr_assert_str_eq(json_string_value(json_array_get(json_object_get(run, "rules"), 1)), "cpu, fp32: torch-fused");
    const json_t *build = json_object_get(json_object_get(run, "suite"), "build");
    cr_assert_str_eq(string_of(build, "version"), ZG_VERSION);
    cr_assert_eq(number_of(build, "edition"), 1, "the version of the cases that were run");
    cr_assert_not_null(json_object_get(json_object_get(run, "suite"), "machine"));
}

Test(report_json, observations_have_the_keys_of_the_schema)
{
    struct observations *all = &reported->facts.observations;
    *all = (struct observations){.count = 2, .list = {{.stage = 1, .world = 4}, {.stage = 3, .world = 4}}};
    all->list[0].peak_bytes = 100;
    all->list[0].unsharded_peak_bytes = 160;
    all->list[0].formula_saved_bytes = 120;
    snprintf(all->list[1].why, sizeof all->list[1].why, "declined");
    read_records();
    json_t *schema = schema_open();
    const json_t *list = json_object_get(records[0], "observations");
    cr_assert_eq(json_array_size(list), 2);
    for (size_t i = 0; i < 2; i++)
        assert_keys(schema, "observation", json_array_get(list, i));
    cr_assert_eq(number_of(json_array_get(list, 0), "peak_bytes"), 100);
    cr_assert_eq(number_of(json_array_get(list, 0), "stage_0_peak_bytes"), 160);
    cr_assert_eq(number_of(json_array_get(list, 0), "formula_saved_bytes"), 120);
    cr_assert(json_is_true(json_object_get(json_array_get(list, 0), "shows_sharding")));
    cr_assert(json_is_null(json_object_get(json_array_get(list, 1), "peak_bytes")));
    cr_assert(json_is_false(json_object_get(json_array_get(list, 1), "shows_sharding")));
    json_decref(schema);
}

Test(report_json, findings_keep_their_verdicts_places_and_bits)
{
    for (size_t i = 0; i < reported->findings.count; i++) {
        const struct finding *finding = &reported->findings.list[i];
        const json_t *check = records[1 + i], *difference = json_object_get(check, "difference");
        cr_assert_str_eq(string_of(check, "case"), finding->c->name);
        cr_assert_str_eq(string_of(check, "aspect"), aspect_name(finding->aspect));
        cr_assert_str_eq(string_of(check, "verdict"), verdict_name(finding->verdict));
        cr_assert_str_eq(string_of(check, "text"), finding->text);
        cr_assert_eq(json_is_null(difference), !finding->has_difference);
    }
    const json_t *check = records[9], *difference = json_object_get(check, "difference");
    cr_assert_str_eq(string_of(check, "hint"), "stale-copy");
    cr_assert_eq(json_array_size(json_object_get(check, "requirements")), 1);
    cr_assert_str_eq(json_string_value(json_array_get(json_object_get(check, "requirements"), 0)), "R-COP-01");
    cr_assert_eq(number_of(difference, "step"), 3);
    cr_assert_eq(number_of(difference, "rank"), 1);
    cr_assert_eq(number_of(difference, "micro_step"), 0);
    cr_assert_eq(number_of(difference, "element"), 16);
    cr_assert_eq(number_of(difference, "bits"), 16);
    cr_assert_str_eq(string_of(difference, "quantity"), "seen");
    cr_assert_str_eq(string_of(difference, "tensor"), "layer.0.weight");
    cr_assert_str_eq(string_of(difference, "expected_bits"), "0x3f80");
    cr_assert_str_eq(string_of(difference, "actual_bits"), "0xc000");
    cr_assert_eq(number_of(difference, "expected"), 1);
    cr_assert_eq(number_of(difference, "actual"), -2);
    cr_assert_eq(number_of(difference, "distance_roundings"), 384.5);
    cr_assert_eq(number_of(difference, "differing_count"), 3);
    cr_assert_eq(number_of(difference, "compared_count"), 128);
    // Of a scalar, of no rank, and no number: null, but the bits are there.
    difference = json_object_get(records[11], "difference");
    cr_assert(json_is_null(json_object_get(records[11], "hint")));
    for (const char *const *key =
             (const char *const[]){"rank", "micro_step", "tensor", "element", "actual", "distance_roundings", NULL};
         *key; key++)
        cr_assert(json_is_null(json_object_get(difference, *key)), "%s", *key);
    cr_assert_eq(number_of(difference, "expected"), 1.5);
    cr_assert_str_eq(string_of(difference, "actual_bits"), "0x7ff8000000000000");
}

Test(report_json, requirements_and_the_end_keep_every_verdict)
{
    static const char *const verdicts[REPORTED_COUNT] = {"PASS",   "EQUIVALENT", "FAIL", "FAIL",        "BOUNDED",
                                                         "BROKEN", "FAIL",       "FAIL", "UNSUPPORTED", "UNSUPPORTED"};
    const json_t *end = records[record_count - 1];
    for (int i = 0; i < REPORTED_COUNT; i++) {
        const json_t *record = records[1 + reported->findings.count + (size_t)i];
        cr_assert_str_eq(string_of(record, "id"), reported->requirements.list[i].id);
        cr_assert_str_eq(string_of(record, "verdict"), verdicts[i]);
        cr_assert_eq(json_is_true(json_object_get(record, "must")), i != 2);
    }
    const json_t *means = records[1 + reported->findings.count + 1];
    cr_assert_eq(number_of(json_object_get(means, "finding_counts"), "PASS"), 1);
    cr_assert_eq(number_of(json_object_get(means, "finding_counts"), "EQUIVALENT"), 3);
    cr_assert_eq(number_of(json_object_get(means, "finding_counts"), "FAIL"), 0);
    cr_assert_eq(json_array_size(json_object_get(means, "rules")), 2, "each rule once");
    cr_assert_str_eq(string_of(end, "verdict"), "FAILS");
    cr_assert_eq(number_of(end, "exit_status"), 1);
    cr_assert_eq(number_of(json_object_get(end, "requirement_counts"), "FAIL"), 4);
    cr_assert_eq(number_of(json_object_get(end, "requirement_counts"), "UNSUPPORTED"), 2);
    cr_assert(json_is_false(json_object_get(end, "command_failed")));
    cr_assert(json_is_null(json_object_get(end, "command_text")));
}

Test(report_json, a_command_that_ended_badly_fails_the_run_whatever_was_found)
{
    reported->findings.count = 2;  // both PASS
    reported_judge(reported);
    read_records();
    cr_assert_str_eq(string_of(records[record_count - 1], "verdict"), "CONFORMS-PARTLY");
    cr_assert_eq(number_of(records[record_count - 1], "exit_status"), 0);
    reported->facts.command_failed = true;
    snprintf(reported->facts.command_text, sizeof reported->facts.command_text, "was ended after 60 s");
    read_records();
    cr_assert_str_eq(string_of(records[record_count - 1], "verdict"), "FAILS");
    cr_assert_eq(number_of(records[record_count - 1], "exit_status"), 1);
    cr_assert_str_eq(string_of(records[record_count - 1], "command_text"), "was ended after 60 s");
}

Test(report_json, a_finding_about_all_cases_has_no_case)
{
    reported->findings.count = 0;
    tell(reported, NULL, ASPECT_RULE, VERDICT_FAIL, "no rule explains all answers");
    reported_judge(reported);
    read_records();
    cr_assert(json_is_null(json_object_get(records[1], "case")));
    cr_assert_str_eq(string_of(records[1], "verdict"), "FAIL");
}

Test(report_json, hostile_texts_stay_in_their_strings)
{
    read_hostile_records();
    const char *text = string_of(records[0], "implementation");
    cr_assert_not_null(strstr(text, "</failure><script>alert('1')</script> & \"q\" ]]> --> <!-- \\x01\\x08\\x1b[2J"));
    cr_assert_not_null(strstr(text, "\\u{202e}txet \\xff\\xfe \\xc0\\xbc"));
    cr_assert_not_null(strstr(text, "\xe2\x82\xac\\x0d\nCONFORMS: every MUST\n tab %s%n"));
    cr_assert_str_eq(string_of(records[record_count - 1], "verdict"), "FAILS");
}

// --- reports that cannot be written: wherever a file ends before its report does, the report is an error ---

static report_function *const reports[] = {report_table, report_json, report_junit, report_html};
static const char *const report_names[] = {"the table", "the JSON report", "the JUnit report", "the page"};
enum { REPORT_COUNT = 4 };

static int print(report_function *report, FILE *out)
{
    return report(&reported->facts, &reported->findings, reported->verdicts, REPORTED_COUNT, out);
}

Test(report_json, a_full_disk_is_an_error_of_every_report_whatever_is_buffered)
{
    static const int modes[] = {_IOFBF, _IOFBF, _IONBF};  // the first with the buffer that a file has
    for (int i = 0; i < REPORT_COUNT * 3; i++) {
        static char buffer[1 << 20];
        FILE *out = fopen("/dev/full", "w");
        cr_assert_not_null(out);
        if (i % 3)
            setvbuf(out, buffer, modes[i % 3], sizeof buffer);
        cr_assert_eq(print(reports[i / 3], out), ERR_IO, "%s, mode %d", report_names[i / 3], i % 3);
        cr_assert_not_null(strstr(err_message(), report_names[i / 3]), "%s", err_message());
        fclose(out);
    }
}

// A file with room for *cookie bytes.
static ssize_t narrow_write(void *cookie, const char *data, size_t bytes)
{
    size_t *room = cookie;
    (void)data;
    if (bytes > *room)
        return 0;
    *room -= bytes;
    return (ssize_t)bytes;
}

Test(report_json, a_file_that_ends_anywhere_is_an_error)
{
    for (int i = 0; i < REPORT_COUNT; i++) {
        char *text = reported_print(reported, reports[i]);
        size_t whole = strlen(text);
        free(text);
        // In steps of a prime, and byte by byte at the end.
        for (size_t room = 0; room <= whole; room += room + 499 < whole ? 499 : 1) {
            if (room + 3 < whole && room + 499 >= whole)
                room = whole - 3;
            size_t left = room;
            FILE *out = fopencookie(&left, "w", (cookie_io_functions_t){.write = narrow_write});
            setvbuf(out, NULL, _IONBF, 0);
            cr_assert_eq(print(reports[i], out), room < whole ? ERR_IO : ERR_NONE, "%s, %zu of %zu", report_names[i],
                         room, whole);
            fclose(out);
        }
    }
}
