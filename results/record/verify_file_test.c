// SPDX-License-Identifier: Apache-2.0
// Recognises runs that were judged by fewer or looser accepted ranges than the default ones.
#include "results/limits/accepted_range.h"
#include "results/record/record_test.h"
#include "results/record/verify_internal.h"

static struct accepted_ranges ranges;
static char *lines[VERIFY_RANK_MAX + 16];  // of a file: run, one part, the `band` records, end
static size_t line_count;

static void add_line(char *line)
{
    cr_assert_lt(line_count + 1, sizeof lines / sizeof *lines);
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

static void free_lines(void)
{
    for (size_t i = 0; i < line_count; i++)
        free(lines[i]);
    sample_folder_remove();
}

static void teardown(void)
{
    accepted_ranges_free(&ranges);
    free_lines();
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

TestSuite(record_limits, .init = sample_folder_make, .fini = free_lines);

// Adds copies of a line in which %zu, if it has one, is their number from 0.
static void add_copies(const char *format, size_t copies)
{
    enum { LINE_BYTES = 1024 };
    for (size_t i = 0; i < copies; i++) {
        char *line = malloc(LINE_BYTES);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(line, LINE_BYTES, format, i);
#pragma GCC diagnostic pop
        add_line(line);
    }
}

static void expect_refusal(const char *what)
{
    size_t refusals;
    char *text = sample_refusals((const char *const *)lines, &refusals);
    cr_expect(strstr(text, what), "expected \"%s\", not: %.2000s", what, text);
    free(text);
}

Test(record_limits, more_accepted_ranges_than_the_limit_are_refused)
{
    add_line(strdup(SAMPLE_RUN));
    add_copies("{\"record\":\"band\",\"id\":\"range-%zu\",\"bench\":\"adam\",\"case\":{},\"metric\":\"ratio\","
               "\"unit\":null,\"at_least\":0.4,\"at_most\":null,\"source\":\"this test\"}",
               VERIFY_RANGE_MAX + 1);
    add_line(strdup(SAMPLE_END));
    expect_refusal("exceeds the limit of 1024 `band` records");
}

Test(record_limits, more_ranks_than_the_limit_are_refused)
{
    add_line(strdup(SAMPLE_RUN));
    add_copies("{\"record\":\"bench\",\"name\":\"ranks\",\"case\":{\"lane\":\"compute\",\"rank\":%zu,\"host\":\"h\","
               "\"processor\":0,\"together\":false},\"samples\":[1],\"median\":1,\"p10\":1,\"p90\":1,\"unit\":\"ns\","
               "\"lower_is_better\":true,\"items\":1,\"elapsed_s\":1,\"verified\":true,\"yardstick\":null,"
               "\"ratio\":null}",
               VERIFY_RANK_MAX + 1);
    add_line(strdup(SAMPLE_END));
    expect_refusal("exceeds the limit of 16384 results of ranks or hosts");
}

Test(record_limits, more_parts_than_the_limit_are_refused)
{
    static const char program[] = "\"program\":\"trial\"";
    static char run[8192];
    const char *at = strstr(SAMPLE_RUN, program);
    snprintf(run, sizeof run, "%.*s\"program\":\"validate\"%s", (int)(at - SAMPLE_RUN), SAMPLE_RUN,
             at + strlen(program));
    add_line(strdup(run));
    add_copies("{\"record\":\"part\",\"name\":\"bench-adam-%zu\",\"command\":[\"zerogauge\",\"bench\",\"adam\","
               "\"--quick\"],\"begin_s\":1,\"end_s\":2,\"status\":1,\"signal\":null,\"reason\":\"failed\"}",
               65);
    add_line(strdup(SAMPLE_END));
    expect_refusal("name: is bench-adam-64, expected at most 64 parts");
}

Test(record_limits, a_run_that_judges_nothing_is_refused)
{
    add_line(strdup(SAMPLE_RUN));
    add_line(strdup("{\"record\":\"end\",\"status\":\"complete\",\"verdict\":null,\"reasons\":[],\"elapsed_s\":20,"
                    "\"other_load\":0.02,\"lines\":1,\"digest\":\"0123456789abcdef0123456789abcdef\"}"));
    expect_refusal("verdict: is null, expected findings of a run that judges");
}

TestSuite(verify_step, .init = sample_folder_make, .fini = sample_folder_remove);

// Steps of 500, 400, 600 ms on two ranks with 4 sequences of 128 tokens: 2048 tokens/s. 40 operations a rank at 100 a
// second: 0.8 measured. 10 bytes at 40 a second, ait 4: efficiency 160 / 260; 8 at 20, ait 5: one half.
#define STEP                                                                                                           \
    "{\"record\":\"bench\",\"name\":\"step\",\"case\":{\"preset\":\"zero3\",\"world\":2,\"sequences_a_rank\":4,"       \
    "\"sequence_tokens\":128},\"samples\":[500,400,600],\"median\":500,\"p10\":420,\"p90\":580,"                       \
    "\"unit\":\"ms_per_step\",\"lower_is_better\":true,\"items\":1,\"elapsed_s\":4,\"verified\":true,"                 \
    "\"yardstick\":null,\"ratio\":null,\"detail\":{\"tokens_per_s\":2048,\"efficiency\":{\"flops_a_rank\":40,"         \
    "\"peak_flops_per_s\":100,\"predicted\":0.380952,\"measured\":0.8,\"difference\":0.419048,"                        \
    "\"params_and_gradients\":{\"bytes\":10,\"bytes_per_s\":40,\"flops_per_byte\":4,\"efficiency\":0.615385},"         \
    "\"activations\":{\"bytes\":8,\"bytes_per_s\":20,\"flops_per_byte\":5,\"efficiency\":0.5}}}}"
#define END                                                                                                            \
    "{\"record\":\"end\",\"status\":\"complete\",\"verdict\":null,\"reasons\":[],\"elapsed_s\":20,"                    \
    "\"other_load\":0.02,\"lines\":2,\"digest\":\"0123456789abcdef0123456789abcdef\"}"

#define FLOPS                                                                                                          \
    "{\"record\":\"bench\",\"name\":\"step_flops\",\"case\":{},\"samples\":[50],\"median\":50,\"p10\":50,\"p90\":50,"  \
    "\"unit\":\"GFLOP/s\",\"lower_is_better\":false,\"items\":1,\"elapsed_s\":4,\"verified\":true,\"yardstick\":null," \
    "\"ratio\":null,\"detail\":{\"square_gflops\":80,\"square_side\":7,\"share_of_square\":0.625}}"

// Of a file with this line, one place of which is edited.
static char *refusals_in(const char *line, const char *from, const char *to)
{
    static const char run[] = SAMPLE_RUN;
    char measured[sizeof run], edited[4096];
    const char *program = strstr(run, "\"trial\""), *at = strstr(line, from);
    size_t count;
    cr_assert_not_null(at, "%s", from);
    snprintf(measured, sizeof measured, "%.*s\"bench\"%s", (int)(program - run), run, program + strlen("\"trial\""));
    snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - line), line, to, at + strlen(from));
    return sample_refusals((const char *const[]){measured, edited, END, NULL}, &count);
}

static char *refusals_of(const char *from, const char *to)
{
    return refusals_in(STEP, from, to);
}

Test(verify_step, the_share_of_a_square_is_recomputed)
{
    char *text = refusals_in(FLOPS, "625", "6250");
    cr_expect_str_empty(text);
    free(text);
    text = refusals_in(FLOPS, "625", "62");
    cr_expect(strstr(text, "detail.share_of_square: is 0.62, expected 0.625"), "%s", text);
    free(text);
}

// Of a run whose other programs took so much of the processors.
static char *refusals_above_a_bound(const char *other_load)
{
    static const char run
        [] = SAMPLE_RUN,
     above[] =
         "{\"record\":\"bench\",\"name\":\"product\",\"case\":{},\"samples\":[50],\"median\":50,\"p10\":50,\"p90\":50,"
         "\"unit\":\"GFLOP/s\",\"lower_is_better\":false,\"items\":1,\"elapsed_s\":4,\"verified\":true,"
         "\"yardstick\":{\"name\":\"registers\",\"samples\":[25],\"median\":25,\"p10\":25,\"p90\":25,"
         "\"unit\":\"GFLOP/s\",\"items\":1},\"ratio\":2}";
    char measured[sizeof run], end[sizeof END + 8];
    const char *program = strstr(run, "\"trial\""), *load = strstr(END, "0.02");
    size_t count;
    snprintf(measured, sizeof measured, "%.*s\"bench\"%s", (int)(program - run), run, program + strlen("\"trial\""));
    snprintf(end, sizeof end, "%.*s%s%s", (int)(load - END), END, other_load, load + strlen("0.02"));
    return sample_refusals((const char *const[]){measured, above, end, NULL}, &count);
}

Test(verify_bound, a_busy_machine_may_seem_faster_than_its_registers)
{
    sample_folder_make();
    char *text = refusals_above_a_bound("0.05");
    cr_expect(strstr(text, "ratio: is 2 to the best sample of \"registers\", a bound"), "%s", text);
    free(text);
    text = refusals_above_a_bound("0.06");
    cr_expect_str_empty(text);
    free(text);
    sample_folder_remove();
}

Test(verify_step, an_unedited_step_verifies)
{
    char *text = refusals_of("zero3", "zero1");
    cr_expect_str_empty(text);
    free(text);
    // Nothing moves: nothing is lost.
    text = refusals_of(",\"activations\":{\"bytes\":8,\"bytes_per_s\":20,\"flops_per_byte\":5,\"efficiency\":0.5}", "");
    cr_expect(strstr(text, "detail.efficiency.predicted: is 0.380952, expected 0.61538"), "%s", text);
    free(text);
}

Test(verify_step, every_figure_is_recomputed)
{
    static const struct {
        const char *from, *to, *refusal;
    } edits[] = {
        {"\"tokens_per_s\":2048", "\"tokens_per_s\":2049", "detail.tokens_per_s: is 2049, expected 2048"},
        {"\"world\":2", "\"world\":4", "detail.tokens_per_s: is 2048, expected 4096"},
        {"0.615385", "0.62", "params_and_gradients.efficiency: is 0.62, expected 0.61538"},
        {"\"flops_per_byte\":5", "\"flops_per_byte\":6", "activations.flops_per_byte: is 6, expected 5"},
        {"\"bytes_per_s\":20", "\"bytes_per_s\":30", "activations.efficiency: is 0.5, expected 0.6"},
        {"\"predicted\":0.380952", "\"predicted\":0.391", "detail.efficiency.predicted: is 0.391, expected 0.3809"},
        {"\"measured\":0.8", "\"measured\":0.7", "detail.efficiency.measured: is 0.7, expected 0.8"},
        {"\"difference\":0.419048", "\"difference\":0.42", "detail.efficiency.difference: is 0.42, expected 0.419"},
        {"\"peak_flops_per_s\":100,", "", "params_and_gradients.efficiency: is 0.615385, expected 1"},
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        char *text = refusals_of(edits[i].from, edits[i].to);
        cr_expect(strstr(text, edits[i].refusal), "%s: expected %s", text, edits[i].refusal);
        free(text);
    }
}
