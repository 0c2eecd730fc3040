// SPDX-License-Identifier: Apache-2.0
// Recognises runs that were judged by fewer or looser accepted ranges than the default ones.
#include "results/record/record_verify.h"

#include "results/limits/accepted_range.h"
#include "results/record/record_test.h"

static struct accepted_ranges ranges;
static char *lines[256];  // of a file: run, one part, the `band` records, end
static size_t line_count;

static void add_line(char *line)
{
    cr_assert_lt(line_count, 255);
    lines[line_count++] = line;
}

static void setup(void)
{
    sample_folder_make();
    cr_assert_eq(accepted_ranges_add("default", &ranges), ERR_NONE, "%s", err_message());
    cr_assert_gt(ranges.count, 5);
    add_line(strdup(SAMPLE_RUN));
    add_line(strdup(SAMPLE_PART));
    for (size_t i = 0; i < ranges.count; i++) {
        json_t *record = accepted_range_json(&ranges.list[i]);
        add_line(json_dumps(record, JSON_REAL_PRECISION(6)));
        json_decref(record);
    }
    add_line(strdup(SAMPLE_END));
}

static void teardown(void)
{
    for (size_t i = 0; i < line_count; i++)
        free(lines[i]);
    accepted_ranges_free(&ranges);
    sample_folder_remove();
}

TestSuite(own_limits, .init = setup, .fini = teardown);

static const char *said(void)
{
    static char text[OWN_LIMITS_TEXT_BYTES];
    struct result_file file;
    cr_assert_eq(result_open(sample_write("a", (const char *const *)lines), &file), ERR_NONE, "%s", err_message());
    cr_assert_eq(record_own_limits(&file, text), ERR_NONE, "%s", err_message());
    result_close(&file);
    return text;
}

static size_t line_of(const char *id)
{
    char key[128];
    snprintf(key, sizeof key, "\"id\": \"%s\"", id);
    for (size_t i = 0; i < line_count; i++)
        if (strstr(lines[i], key))
            return i;
    cr_assert_fail("%s", id);
    return 0;
}

// Sets a member of a `band` record; null: removes the record from the file.
static void change(const char *id, const char *key, json_t *value)
{
    size_t at = line_of(id);
    json_t *record = json_loads(lines[at], 0, NULL);
    free(lines[at]);
    if (key) {
        json_object_set_new(record, key, value);
        lines[at] = json_dumps(record, JSON_REAL_PRECISION(6));
    } else {
        memmove(lines + at, lines + at + 1, (line_count - at) * sizeof *lines);
        line_count--;
    }
    json_decref(record);
}

Test(own_limits, default_ranges_are_not_listed)
{
    cr_expect_str_empty(said());
}

Test(own_limits, stricter_and_additional_ranges_are_not_listed)
{
    change("adam-update", "at_least", json_real(0.99));
    change("swap", "at_most", json_real(1.0));
    change("memory-copy", "at_most", json_real(2.0));
    free(lines[1]);
    lines[1] = strdup("{\"record\":\"band\",\"id\":\"mine\",\"bench\":\"nvme\",\"case\":{},\"metric\":\"median\","
                      "\"unit\":\"GB/s\",\"at_least\":0.001,\"at_most\":null,\"source\":\"mine\"}");
    cr_expect_str_empty(said());
}

Test(own_limits, looser_and_missing_ranges_are_listed)
{
    change("adam-update", "at_least", json_real(0.5));
    change("adam-fused", "at_most", json_real(1.6));
    change("swap", "at_most", json_null());
    change("memory-copy", "case", json_pack("{s:s}", "operation", "never"));
    change("nvme-read", "metric", json_string("median"));
    change("nvme-write", "bench", json_string("other"));
    change("step", NULL, NULL);
    cr_expect_str_eq(said(), "adam-update is looser, adam-fused is looser, memory-copy is looser, nvme-read is looser, "
                             "nvme-write is looser, swap is looser, step is missing");
}

Test(own_limits, a_long_list_is_cut_off)
{
    for (size_t i = 0; i < ranges.count; i++)
        change(ranges.list[i].id, NULL, NULL);
    cr_expect_eq(strlen(said()), OWN_LIMITS_TEXT_BYTES - 1);
}

Test(own_limits, ranges_for_absent_devices_may_be_missing)
{
    change("swap", NULL, NULL);
    free(lines[1]);
    lines[1] = strdup("{\"record\":\"part\",\"name\":\"bench-swap\",\"command\":[\"zerogauge\"],\"begin_s\":1,"
                      "\"end_s\":2,\"status\":77,\"signal\":null,\"reason\":\"SKIP: no such thing\"}");
    cr_expect_str_empty(said());
    free(lines[1]);
    lines[1] = strdup("{\"record\":\"part\",\"name\":\"bench-swap\",\"command\":[\"zerogauge\"],\"begin_s\":1,"
                      "\"end_s\":2,\"status\":2,\"signal\":null,\"reason\":\"failed\"}");
    cr_expect_str_eq(said(), "swap is missing");
}

// Replaces the machine's list of GPUs.
static void change_gpus(const char *gpus)
{
    json_t *run = json_loads(lines[0], 0, NULL);
    free(lines[0]);
    json_object_set_new(json_object_get(run, "machine"), "gpus", json_loads(gpus, 0, NULL));
    lines[0] = json_dumps(run, JSON_REAL_PRECISION(6));
    json_decref(run);
}

Test(own_limits, ranges_of_a_device_may_be_missing_only_where_there_is_none)
{
    change("adam-gpu-update", NULL, NULL);
    change_gpus("[]");
    cr_expect_str_empty(said());
    change_gpus("[{\"model\":\"A GPU\"}]");
    cr_expect_str_eq(said(), "adam-gpu-update is missing");
    free(lines[1]);
    lines[1] = strdup("{\"record\":\"part\",\"name\":\"bench-adam\",\"command\":[\"zerogauge\"],\"begin_s\":1,"
                      "\"end_s\":2,\"status\":77,\"signal\":null,\"reason\":\"SKIP: no such thing\"}");
    cr_expect_str_eq(said(), "adam-gpu-update is missing", "the part of the processor is another");
    free(lines[1]);
    lines[1] = strdup("{\"record\":\"part\",\"name\":\"bench-adam-cuda\",\"command\":[\"zerogauge\"],\"begin_s\":1,"
                      "\"end_s\":2,\"status\":77,\"signal\":null,\"reason\":\"SKIP: too old\"}");
    cr_expect_str_empty(said());
}
