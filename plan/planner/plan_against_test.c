// SPDX-License-Identifier: Apache-2.0
// A calibration is a machine that plans accept, with figures from the records that its sources name.
#include "plan/planner/calibration.h"

#include "base/err.h"
#include "plan/planner/plan_against.h"
#include "plan/planner/plan_machine.h"
#include "plan/planner/plan_model.h"
#include "results/record/record_test.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEASURED(name, of_case, median, unit)                                                                          \
    "{\"record\":\"bench\",\"name\":\"" name "\",\"case\":{" of_case "},\"median\":" median ",\"unit\":\"" unit "\"}"
#define ON_HOST(operation, rest) "\"operation\":\"" operation "\",\"threads\":" rest
#define OF_RANKS(operation, bytes)                                                                                     \
    "\"operation\":\"" operation "\",\"world\":3,\"buffer_bytes\":" bytes ",\"shares\":\"equal\",\"in_place\":false"
#define ON_NVME(direction, bytes) "\"direction\":\"" direction "\",\"block_bytes\":" bytes

static const char *const record_lines[] = {
    "{\"record\":\"run\"}",
    "{\"record\":\"bench\",\"name\":\"step\",\"case\":{\"preset\":\"zero0\",\"world\":2},\"median\":9,\"unit\":\"ms\","
    "\"detail\":{\"efficiency\":{\"peak_flops_per_s\":7e9}}}",
    MEASURED("memory", ON_HOST("adam_mix", "2"), "10", "GB/s"),
    MEASURED("memory", ON_HOST("adam_mix", "1"), "6", "GB/s"),
    MEASURED("memory", ON_HOST("adam_mix", "2,\"pages\":\"4 KiB\""), "3", "GB/s"),
    MEASURED("memory", ON_HOST("copy", "2"), "8", "GB/s"),
    MEASURED("comm", OF_RANKS("all-gather", "3000"), "1000", "ns"),
    MEASURED("comm", OF_RANKS("reduce-scatter", "3000"), "2000", "ns"),
    MEASURED("comm", OF_RANKS("all-gather", "8"), "600", "ns"),
    MEASURED("nvme", ON_NVME("read", "1048576"), "3", "GB/s"),
    MEASURED("nvme", ON_NVME("write", "1048576"), "2", "GB/s"),
    MEASURED("nvme", ON_NVME("read", "4096"), "50", "us"),
    "{\"record\":\"fit\",\"world\":4,\"device_available_bytes\":1000,\"host_available_bytes\":2000,"
    "\"nvme_available_bytes\":3000}",
};
enum { LINE_COUNT = sizeof record_lines / sizeof record_lines[0] };

// Makes a machine from all lines but one; LINE_COUNT: from all.
static int make(size_t without, struct plan_machine *out, const char **missing)
{
    json_t *records[LINE_COUNT], *machine;
    size_t count = 0;
    char path[] = "/tmp/zg-calibration-XXXXXX.json";
    for (size_t i = 0; i < LINE_COUNT; i++)
        if (i != without)
            cr_assert_not_null(records[count++] = json_loads(record_lines[i], 0, NULL), "%s", record_lines[i]);
    cr_assert_eq(calibration_make(records, count, &machine, missing), ERR_NONE);
    for (size_t i = 0; i < count; i++)
        json_decref(records[i]);
    if (!machine)
        return ERR_CHECK;
    close(mkstemps(path, 5));
    cr_assert_eq(json_dump_file(machine, path, 0), 0);
    json_decref(machine);
    int rc = plan_machine_find(path, out);
    unlink(path);
    return rc;
}

Test(calibration, every_figure_comes_from_the_record_that_its_source_names)
{
    static struct plan_machine machine;
    const char *missing;
    cr_assert_eq(make(LINE_COUNT, &machine, &missing), ERR_NONE, "%s", err_message());
    static const struct {
        enum machine_figure figure;
        double value;
        const char *source;
    } expected[] = {
        {MACHINE_DEVICE_FP32_FLOPS, 7e9, "line 2 "},
        {MACHINE_DEVICE_BF16_FLOPS, 7e9, "line 2 "},
        {MACHINE_NODE_CPU_RATE, 10e9, "line 3 "},
        {MACHINE_DEVICE_MEMORY_RATE, 5e9, "line 3 "},
        {MACHINE_H2D_RATE, 4e9, "line 6 "},
        {MACHINE_NODE_HOST_LINK_RATE, 4e9, "line 6 "},
        {MACHINE_INTRA_NODE_RATE, 1e9, "line 8 "},
        {MACHINE_INTRA_NODE_LATENCY_S, 300e-9, "line 9 "},
        {MACHINE_NODE_NVME_READ_RATE, 3e9, "line 10 "},
        {MACHINE_NODE_NVME_WRITE_RATE, 2e9, "line 11 "},
        {MACHINE_NVME_LATENCY_S, 50e-6, "line 12 "},
        {MACHINE_DEVICE_MEMORY_BYTES, 2000, "available"},
        {MACHINE_NODE_HOST_MEMORY_BYTES, 8000, "available"},
        {MACHINE_NODE_NVME_BYTES, 12000, "available"},
    };
    cr_expect_eq(machine.devices_per_node, 2);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const char *name = plan_machine_figure_name(expected[i].figure);
        double value = machine.figures[expected[i].figure].value;
        cr_expect(fabs(value / expected[i].value - 1) < 1e-9, "%s: %g", name, value);
        cr_expect(strstr(machine.figures[expected[i].figure].source, expected[i].source), "%s: %s", name,
                  machine.figures[expected[i].figure].source);
        cr_expect_not(machine.figures[expected[i].figure].assumed, "%s", name);
    }
}

Test(calibration, a_missing_required_figure_makes_no_machine_and_an_optional_one_is_left_out)
{
    static struct plan_machine machine;
    const char *missing;
    cr_expect_eq(make(1, &machine, &missing), ERR_CHECK);
    cr_expect_str_eq(missing, "a training step");
    cr_expect_eq(make(5, &machine, &missing), ERR_CHECK);
    cr_expect_str_eq(missing, "copies in memory");
    cr_expect_eq(make(LINE_COUNT - 1, &machine, &missing), ERR_CHECK);
    cr_expect_eq(make(9, &machine, &missing), ERR_NONE, "%s", err_message());
    cr_expect_eq(machine.figures[MACHINE_NODE_NVME_READ_RATE].value, 0);
}

// Planned and measured steps agree on a machine where only arithmetic takes time.

TestSuite(plan_against, .init = sample_folder_make, .fini = sample_folder_remove);

#define BENCH(name, of_case, median, unit, detail)                                                                     \
    "{\"record\":\"bench\",\"name\":\"" name "\",\"case\":{" of_case "},\"samples\":[" median "],"                     \
    "\"median\":" median ",\"p10\":" median ",\"p90\":" median ",\"unit\":\"" unit "\","                               \
    "\"lower_is_better\":true,\"items\":1,\"elapsed_s\":4,\"verified\":true,\"yardstick\":null,"                       \
    "\"ratio\":null,\"detail\":" detail "}"
#define STEP(what, preset, median, peak)                                                                               \
    BENCH("step",                                                                                                      \
          "\"what\":\"" what "\",\"preset\":\"" preset "\",\"model\":\"gpt-nano\",\"world\":2,"                        \
          "\"sequences_a_rank\":3,\"schedule\":\"serial\"",                                                            \
          median, "ms_per_step", "{\"efficiency\":{\"peak_flops_per_s\":" peak "}}")
#define MEMORY(operation) BENCH("memory", "\"operation\":\"" operation "\",\"threads\":2", "1e9", "GB/s", "{}")
#define COMM(operation)                                                                                                \
    BENCH("comm",                                                                                                      \
          "\"operation\":\"" operation "\",\"world\":2,\"buffer_bytes\":1000000000,\"shares\":\"equal\","              \
          "\"in_place\":false",                                                                                        \
          "1e-3", "ns", "{}")
#define FIT                                                                                                            \
    "{\"record\":\"fit\",\"model\":\"gpt-nano\",\"params\":1,\"world\":2,\"preset\":\"zero0\",\"fits\":true,"          \
    "\"device_bytes\":1,\"host_bytes\":0,\"nvme_bytes\":0,\"device_available_bytes\":1000,"                            \
    "\"host_available_bytes\":1000,\"nvme_available_bytes\":1000,\"reason\":null}"
#define END                                                                                                            \
    "{\"record\":\"end\",\"status\":\"complete\",\"verdict\":null,\"reasons\":[],\"elapsed_s\":20,"                    \
    "\"other_load\":0.02,\"lines\":2,\"digest\":\"0123456789abcdef0123456789abcdef\"}"

// Returns what the command prints for a file of these lines; null for an error.
static char *print(const char *const lines[], bool json)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    int rc = plan_against(sample_write("a", lines), json, out);
    fclose(out);
    if (rc == ERR_NONE)
        return text;
    free(text);
    return NULL;
}

Test(plan_against, a_step_that_only_computes_takes_its_operations_at_the_measured_rate)
{
    static const char *const lines[] = {SAMPLE_RUN,
                                        STEP("two ranks, no communication", "zero0", "7", "1e6"),
                                        STEP("DDP", "zero0", "500", "1e6"),
                                        STEP("ZeRO-2", "zero2", "500", "1e6"),
                                        MEMORY("adam_mix"),
                                        MEMORY("copy"),
                                        COMM("all-gather"),
                                        COMM("reduce-scatter"),
                                        FIT,
                                        END,
                                        NULL};
    const struct model *model;
    cr_assert_eq(plan_model_find("gpt-nano", 1, &model), ERR_NONE);
    double expected_s = model_flops(model, 3) / 1e6;
    char *text = print(lines, true);
    cr_assert_not_null(text, "%s", err_message());
    int count = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line; count++) {
        json_t *record = json_loads(line, 0, NULL);
        double planned_s = json_number_value(json_object_get(record, "planned_s"));
        cr_expect_eq(json_integer_value(json_object_get(record, "line")), 3 + count, "%s", line);
        cr_expect_eq(json_number_value(json_object_get(record, "measured_s")), 0.5, "%s", line);
        cr_expect(planned_s > expected_s && planned_s < 1.001 * expected_s, "%s: %g", line, expected_s);
        cr_expect_float_eq(json_number_value(json_object_get(record, "difference")), planned_s / 0.5 - 1, 1e-4);
        json_decref(record);
    }
    cr_expect_eq(count, 2);
    free(text);
    text = print(lines, false);
    cr_assert_not_null(text);
    cr_expect(strstr(text, "ZeRO-2") && strstr(text, "largest difference of 2 steps: "), "%s", text);
    free(text);
}

// The source of a figure quotes the case of its record, which may be long, and whose letters may have several bytes.
Test(plan_against, a_long_case_is_quoted_in_part)
{
    static char step[8192], hostile[8192];
    const char *lines[] = {SAMPLE_RUN, step, MEMORY("adam_mix"), MEMORY("copy"), COMM("all-gather"), FIT, END, NULL};
    for (int shift = 0; shift < 4; shift++) {
        char what[512] = "";
        memset(what, 'a', (size_t)shift);
        for (int i = 0; i < 80; i++)
            strcat(what, "\xc3\xa4\xe2\x82\xac");
        snprintf(step, sizeof step, STEP("%s", "zero0", "500", "1e6"), what);
        char *text = print(lines, false);
        cr_expect_not_null(text, "%d: %s", shift, err_message());
        free(text);
    }
    snprintf(hostile, sizeof hostile, STEP("%s", "zero0", "500", "1e6"), "\\u001b[2J\\n\\u001b]0;x\\u0007");
    lines[1] = hostile;
    char *text = print(lines, false);
    cr_assert_not_null(text, "%s", err_message());
    cr_expect_null(strpbrk(text, "\033\007"), "%s", text);
    free(text);
}

Test(plan_against, missing_measurements_and_steps_are_named)
{
    static const char *const no_memory[] = {SAMPLE_RUN, STEP("DDP", "zero0", "500", "1e6"), FIT, END, NULL};
    static const char *const no_step[] = {SAMPLE_RUN,
                                          STEP("two ranks, no communication", "zero0", "7", "1e6"),
                                          MEMORY("adam_mix"),
                                          MEMORY("copy"),
                                          FIT,
                                          END,
                                          NULL};
    cr_expect_null(print(no_memory, false));
    cr_expect(strstr(err_message(), "has no measurement of the memory bandwidth"), "%s", err_message());
    cr_expect_null(print(no_step, false));
    cr_expect(strstr(err_message(), "has no measured steps"), "%s", err_message());
}
