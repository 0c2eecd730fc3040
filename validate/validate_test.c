// SPDX-License-Identifier: Apache-2.0
// A whole run with canned parts: the records of the file, and the verdict.
#include "validate/validate.h"

#include "base/err.h"
#include "base/pretended_test.h"
#include "bench/harness/printed_test.h"
#include "bench/harness/bench.h"
#include "results/record/record_check.h"
#include "results/record/verify_internal.h"
#include "validate/validate_test.h"
#include "bench/harness/json_test.h"

static char folder[PATH_MAX];
static struct validate_plan plan;
static struct accepted_ranges ranges;
static struct validate_setting setting;
static struct validate_result result;
static struct result_file file;
static volatile sig_atomic_t interrupted;

static void setup(void)
{
    folder_make(folder);
    setting = trial_setting(folder, &plan, &ranges);
    setting.interrupted = &interrupted;
}

static void teardown(void)
{
    validate_result_free(&result);
    result_close(&file);
    accepted_ranges_free(&ranges);
    folder_remove(folder);
}

TestSuite(validate, .init = setup, .fini = teardown);

static struct validate_part *add_part(const char *name, const char *bench, const char *script)
{
    plan.parts[plan.count] = trial_part(name, bench, script);
    return &plan.parts[plan.count++];
}

// Adds a part that prints one result with this median; its baseline has 4 GB/s.
static void add_bench(const char *bench, const char *of_case, double median)
{
    static char scripts[8][1200], name[VALIDATE_NAME_BYTES];
    char *script = scripts[plan.count];
    snprintf(script, sizeof scripts[0], "sleep 0.02; echo '%s'", trial_line(bench, of_case, median));
    snprintf(name, sizeof name, "bench-%s", bench);
    add_part(name, bench, script);
}

static void add_range(const char *id, const char *bench, const char *more)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"schema\":1,\"about\":\"x\",\"bands\":[{\"id\":\"%s\",\"bench\":\"%s\",\"metric\":\"ratio\","
             "\"at_least\":0.5,\"source\":\"this test\"%s}]}",
             id, bench, more);
    cr_assert_eq(accepted_ranges_parse("test", text, strlen(text), &ranges), ERR_NONE, "%s", err_message());
}

static enum finding_verdict validate(void)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/result.jsonl", folder);
    cr_assert_eq(validate_run(&setting, &result), ERR_NONE, "%s", err_message());
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    cr_assert_not_null(file.end, "the file has no end");
    cr_expect_str_eq(json_string_value(json_object_get(file.end, "verdict")),
                     finding_verdict_name(validate_verdict(&result)));
    return validate_verdict(&result);
}

static const char *reason(size_t index)
{
    const char *text = json_string_value(json_array_get(json_object_get(file.end, "reasons"), index));
    return text ? text : "";
}

// The index-th record of this kind in the file.
static const json_t *record_of(const char *kind, size_t index)
{
    for (size_t i = 0; i < file.line_count; i++)
        if (strcmp(text_of(file.lines[i], "record"), kind) == 0 && index-- == 0)
            return file.lines[i];
    return NULL;
}

Test(validate, a_run_without_faults_is_valid_and_its_file_complete)
{
    add_bench("nvme", "\"direction\":\"read\"", 3);
    add_bench("swap", "", 2.5);
    add_range("read", "nvme", "");
    add_range("swap", "swap", "");
    cr_expect_eq(validate(), FINDING_VALID);
    static const char *const kinds[] = {"run",  "part", "bench",   "part",    "bench", "health",
                                        "band", "band", "finding", "finding", "end"};
    cr_assert_eq(file.line_count, sizeof kinds / sizeof *kinds);
    for (size_t i = 0; i < file.line_count; i++)
        cr_expect_str_eq(text_of(file.lines[i], "record"), kinds[i], "line %zu", i + 1);
    cr_expect_eq(json_integer_value(json_object_get(record_of("finding", 0), "line")), 3);
    cr_expect_eq(json_integer_value(json_object_get(record_of("finding", 1), "line")), 5);
    cr_expect_str_eq(text_of(file.end, "status"), "complete");
    cr_expect_str_eq(json_string_value(json_array_get(json_object_get(record_of("part", 0), "command"), 0)), "sh",
                     "a command is shown without its folder");
    cr_expect_eq(json_array_size(json_object_get(file.end, "reasons")), 0);
}

Test(validate, a_result_outside_its_accepted_range_makes_the_run_invalid)
{
    add_bench("nvme", "\"direction\":\"read\"", 1);
    add_bench("swap", "", 3);
    add_range("nvme-read", "nvme", ",\"case\":{\"direction\":\"read\"}");
    add_range("swap", "swap", "");
    cr_expect_eq(validate(), FINDING_INVALID);
    cr_expect_eq(json_array_size(json_object_get(file.end, "reasons")), 1);
    cr_expect_str_eq(reason(0), "nvme-read: nvme read reaches 25.0 % of fio, expected at least 50 %");
}

Test(validate, a_failed_part_makes_the_run_incomplete_and_does_not_end_it)
{
    add_part("bench-adam", "adam", "echo out of luck >&2; exit 2");
    add_bench("nvme", "", 3);
    add_range("nvme", "nvme", "");
    add_range("adam", "adam", "");
    cr_expect_eq(validate(), FINDING_INCOMPLETE);
    cr_expect_str_eq(reason(0), "bench-adam: exited with status 2: out of luck");
    cr_expect_str_eq(reason(1), "adam: no result of adam matches this accepted range");
    cr_expect_eq(result.line_count, 1);
    const json_t *finding = record_of("finding", 0);
    cr_expect_eq(json_integer_value(json_object_get(finding, "line")), 2, "the part's line");
}

Test(validate, wrong_data_makes_the_run_invalid)
{
    add_part("bench-adam", "adam", "echo element 7 differs >&2; exit 1");
    cr_expect_eq(validate(), FINDING_INVALID);
    cr_expect_str_eq(reason(0), "bench-adam: exited with status 1: element 7 differs");
}

Test(validate, a_device_that_the_machine_lacks_does_not_count)
{
    add_part("bench-pcie", "pcie", "echo SKIP: no GPU >&2; exit 77")->may_be_absent = true;
    add_bench("nvme", "", 3);
    add_range("nvme", "nvme", "");
    add_range("pcie", "pcie", "");
    cr_expect_eq(validate(), FINDING_VALID);
    cr_expect_null(record_of("band", 1), "an accepted range for an absent device");
    cr_expect_str_eq(text_of(record_of("part", 0), "reason"), "SKIP: no GPU");
}

// A machine with a processor and perhaps a GPU: one result of each, the latter 0.25 of its baseline.
static void add_adam_on(bool gpu)
{
    static char script[1200];
    snprintf(script, sizeof script, "echo '%s'", trial_line("adam", "\"step\":\"update\",\"device\":\"cuda\"", 1));
    add_bench("adam", "\"step\":\"update\"", 4);
    add_part("bench-adam-cuda", "adam", gpu ? script : "echo SKIP: no GPU >&2; exit 77")->may_be_absent = true;
    add_range("adam", "adam", ",\"case\":{\"step\":\"update\"}");
    add_range("adam-gpu", "adam", ",\"case\":{\"step\":\"update\",\"device\":\"cuda\"}");
}

Test(validate, a_range_that_names_a_device_does_not_count_where_its_part_found_none)
{
    add_adam_on(false);
    cr_expect_eq(validate(), FINDING_VALID);
    cr_expect_not_null(record_of("band", 0), "the processor's range applies");
    cr_expect_null(record_of("band", 1), "the device's does not");
    cr_expect_str_eq(text_of(record_of("part", 1), "reason"), "SKIP: no GPU");
}

Test(validate, results_of_a_device_are_judged_by_the_ranges_that_name_it)
{
    add_adam_on(true);
    cr_expect_eq(validate(), FINDING_INVALID);
    cr_expect_eq(json_array_size(json_object_get(file.end, "reasons")), 1);
    cr_expect(strstr(reason(0), "adam-gpu: adam update cuda reaches 25.0 %"), "%s", reason(0));
}

Test(validate, a_device_part_that_failed_leaves_its_range_unmet)
{
    add_adam_on(true);
    plan.parts[1] = trial_part("bench-adam-cuda", "adam", "echo out of luck >&2; exit 2");
    cr_expect_eq(validate(), FINDING_INCOMPLETE);
    cr_expect_str_eq(reason(0), "bench-adam-cuda: exited with status 2: out of luck");
    cr_expect_str_eq(reason(1), "adam-gpu: no result of adam matches this accepted range");
}

Test(validate, an_accepted_range_without_results_makes_the_run_incomplete_unless_it_is_of_the_other_level)
{
    add_bench("nvme", "\"direction\":\"read\"", 3);
    add_range("full", "nvme", ",\"case\":{\"direction\":\"mixed\"},\"level\":\"full\"");
    add_range("write", "nvme", ",\"case\":{\"direction\":\"write\"}");
    cr_expect_eq(validate(), FINDING_INCOMPLETE);
    cr_expect_eq(json_array_size(json_object_get(file.end, "reasons")), 1);
    cr_expect_str_eq(reason(0), "write: no result of nvme matches this accepted range");
}

Test(validate, the_slow_rank_is_named)
{
    static char script[4096];
    int used = 0;
    for (int rank = 0; rank < 2; rank++) {
        char of_case[256];
        snprintf(of_case, sizeof of_case,
                 "\"lane\":\"compute\",\"rank\":%d,\"together\":false,\"world\":2,"
                 "\"host\":\"node7\",\"processor\":%d",
                 rank, rank);
        used += snprintf(script + used, sizeof script - (size_t)used, "echo '%s';",
                         trial_line("ranks", of_case, rank == 1 ? 1 : 3));
    }
    add_part("bench-ranks", "ranks", script);
    cr_expect_eq(validate(), FINDING_INVALID);
    cr_expect_str_eq(reason(0), "ranks-compute-alone: rank 1 (host node7, processor 1) takes 3.00 times as long as the "
                                "other rank in the lane compute, each alone");
}

Test(validate, the_summary_prints_judged_results_the_verdict_and_its_reasons)
{
    add_bench("nvme", "\"direction\":\"read\",\"block_bytes\":4096", 1);
    add_bench("swap", "", 3);
    add_bench("adam", "", 3.5);
    add_range("nvme-read", "nvme", "");
    add_range("adam", "adam", "");
    cr_expect_eq(validate(), FINDING_INVALID);
    struct printed printed = printed_begin();
    validate_table(&setting, &result);
    char *text = printed_end(printed);
    cr_expect(strstr(text, "  25.0 %  INVALID     nvme read block=4 KiB "), "%s", text);
    cr_expect(strstr(text, "  87.5 %  VALID       adam "), "%s", text);
    cr_expect(strstr(text, "and 1 more without an accepted range"), "%s", text);
    cr_expect_null(strstr(text, "swap"), "%s", text);
    cr_expect_null(strstr(text, "report.html"), "not written yet: %s", text);
    cr_expect(strstr(text, "\nINVALID\n              nvme-read: nvme read block=4 KiB reaches 25.0 % of fio"), "%s",
              text);
    free(text);
}

Test(validate, emulated_lanes_are_never_valid)
{
    add_bench("nvme", "", 3);
    setting.emulate = "nvme-read=0.2";
    cr_expect_eq(validate(), FINDING_INCOMPLETE);
    cr_expect(strstr(reason(0), "EMULATED, nvme-read=0.2: these are not"), "%s", reason(0));
}

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

// The part signals this process, as Ctrl-C does, and runs on; the next part never starts.
Test(validate, an_interrupt_ends_the_part_and_the_file_says_so)
{
    signal(SIGUSR1, interrupt);
    add_bench("nvme", "", 3);
    add_part("bench-swap", "swap", "kill -USR1 $PPID; sleep 100");
    add_part("bench-step", "step", "echo begun > begun");
    cr_expect_eq(validate(), FINDING_INCOMPLETE);
    cr_expect(result.interrupted);
    cr_expect_str_eq(text_of(file.end, "status"), "interrupted");
    cr_expect_str_eq(reason(0), "bench-swap: was interrupted");
    cr_expect_eq(result.line_count, 1, "results from before the interruption are kept");
    cr_expect_null(record_of("part", 2));
}

// While the part runs, the pretended machine corrects two memory errors and gets hotter.
Test(validate, errors_that_the_host_counts_meanwhile_make_the_run_invalid)
{
    static char script[2 * PATH_MAX + 512], root[PATH_MAX];
    pretended_machine(folder_make(root), "core:2 pu:1", 1024);
    pretended_file(root, "sys/devices/system/edac/mc/mc0/ce_count", "5\n");
    pretended_file(root, "sys/class/hwmon/hwmon0/temp1_input", "45000\n");
    snprintf(script, sizeof script,
             "echo 7 > %s/sys/devices/system/edac/mc/mc0/ce_count; echo 60000 > %s/sys/class/hwmon/hwmon0/temp1_input; "
             "echo '{\"record\":\"skip\",\"name\":\"adam\",\"case\":{},\"needs_bytes\":9,\"available_bytes\":1}'",
             root, root);
    add_part("bench-adam", "adam", script);
    cr_expect_eq(validate(), FINDING_INVALID);
    unsetenv("ZG_MACHINE_ROOT");
    folder_remove(root);
    cr_expect_str_eq(reason(0), "health: corrected memory errors: 2 during the run");
    cr_expect_str_empty(reason(1), "%s: a temperature is no reason", reason(1));
    const json_t *counters = json_object_get(record_of("health", 0), "counters");
    cr_expect_eq(json_number_value(json_object_get(json_object_get(counters, "temperature_c"), "after")), 60);
    cr_expect_eq(validate_report(folder), ERR_NONE, "%s", err_message());
}

Test(validate, an_existing_result_file_is_never_overwritten)
{
    add_bench("nvme", "", 3);
    add_range("nvme", "nvme", "");
    validate();
    validate_result_free(&result);
    cr_expect_eq(validate_run(&setting, &result), ERR_USAGE);
}

Test(validate, the_plan_passes_each_part_the_options_that_it_accepts)
{
    static const char *const paths[] = {"/one", "/two", NULL};
    const struct validate_choice choice = {.program = "/usr/bin/zerogauge",
                                           .quick = true,
                                           .has_gpu = true,
                                           .nvme_paths = paths,
                                           .world = "3",
                                           .pin = "0,1",
                                           .engine = "io_uring",
                                           .text = "/text",
                                           .emulation = {{[LANE_NVME_READ] = 1e9, [LANE_CPU] = 2e9}}};
    struct validate_plan made;
    cr_assert_eq(validate_plan_make(&choice, &made), ERR_NONE, "%s", err_message());
    double budget_s = 0;
    for (size_t i = 0; i < made.count; i++) {
        char line[512] = "";
        for (const char *const *word = made.parts[i].argv; *word; word++) {
            if (strcmp(*word, "--budget") == 0) {
                cr_expect_float_eq(atof(word[1]), made.parts[i].budget_s, 0.05);
                word++;
                continue;
            }
            strncat(line, " ", sizeof line - strlen(line) - 1);
            strncat(line, *word, sizeof line - strlen(line) - 1);
        }
        budget_s += made.parts[i].budget_s;
        cr_expect_gt(made.parts[i].limit_s, made.parts[i].expected_s);
        if (i == 0)
            cr_expect_str_eq(line, " /usr/bin/zerogauge check --json", "arithmetic is first");
        if (strcmp(made.parts[i].name, "bench-nvme") == 0)
            cr_expect_str_eq(line, " /usr/bin/zerogauge bench nvme --json --quick --nvme-path /one --nvme-path /two "
                                   "--emulate nvme-read=1 --engine io_uring");
        if (strcmp(made.parts[i].name, "bench-pipeline") == 0)
            cr_expect_str_eq(line,
                             " /usr/bin/zerogauge bench pipeline --json --quick --nvme-path /one --nvme-path "
                             "/two --emulate nvme-read=1,cpu=2",
                             "the only part that throttles what is computed");
        if (strcmp(made.parts[i].name, "bench-step-cuda") == 0)
            cr_expect_str_eq(line, " /usr/bin/zerogauge bench step --json --quick --device cuda --nvme-path /one "
                                   "--nvme-path /two --emulate nvme-read=1 --engine io_uring --text /text");
        if (strcmp(made.parts[i].name, "bench-adam") == 0)
            cr_expect_str_eq(line, " /usr/bin/zerogauge bench adam --json --quick");
        bool of_device = strcmp(made.parts[i].name, "bench-pcie") == 0 || strstr(made.parts[i].name, "-cuda");
        cr_expect_eq(made.parts[i].may_be_absent, of_device, "%s", made.parts[i].name);
        if (strcmp(made.parts[i].name, "bench-ranks") == 0)
            cr_expect_str_eq(line, " /usr/bin/zerogauge bench ranks --json --quick --world 3 --pin 0,1");
    }
    cr_expect_float_eq(budget_s, VALIDATE_QUICK_PARTS_S, 1e-6, "every second is given to a part");
    cr_expect_lt(budget_s, VALIDATE_QUICK_S, "a quick run takes two and a half minutes at most");
    cr_expect_geq(made.count, 8);
}

// `report --verify` has a table of its own.
Test(validate, the_verifier_knows_every_part_and_option_of_the_plan)
{
    static const char *const paths[] = {"/one", NULL};
    for (int quick = 0; quick < 2; quick++) {
        const struct validate_choice choice = {.program = "zerogauge",
                                               .quick = quick,
                                               .has_gpu = true,
                                               .several_hosts = true,
                                               .nvme_paths = paths,
                                               .world = "3",
                                               .pin = "0",
                                               .engine = "libaio",
                                               .text = "/text",
                                               .emulation = {{[LANE_NVME_READ] = 1e9}}};
        struct validate_plan made;
        size_t known = 0;
        cr_assert_eq(validate_plan_make(&choice, &made), ERR_NONE, "%s", err_message());
        for (size_t i = 0; i < made.count; i++) {
            cr_expect_not_null(run_row_of(made.parts[i].name), "%s", made.parts[i].name);
            for (const char *const *word = made.parts[i].argv; *word; word++)
                cr_expect(**word != '-' || run_option_is_known(*word, quick), "%s: %s", made.parts[i].name, *word);
        }
        for (const struct run_row *row; (row = run_row_at(known)); known++) {
            bool found = false;
            for (size_t i = 0; i < made.count; i++)
                found |= run_row_of(made.parts[i].name) == row;
            cr_expect(found, "row %zu", known);
        }
    }
    cr_expect_eq((int)RUN_QUICK_SAMPLES, (int)BENCH_REPEAT_LEAST);
}

Test(validate, a_part_that_takes_longer_leaves_less_for_the_others)
{
    const struct validate_choice quick = {.program = "zerogauge", .quick = true}, full = {.program = "zerogauge"};
    struct validate_plan made;
    cr_assert_eq(validate_plan_make(&full, &made), ERR_NONE);
    validate_plan_share(&made, 1, 10);
    cr_expect_eq(made.parts[1].budget_s, 0, "a full run has no budget");
    cr_assert_eq(validate_plan_make(&quick, &made), ERR_NONE);
    double least_s = made.parts[1].budget_s;
    validate_plan_share(&made, 1, 60);
    cr_expect_lt(made.parts[1].budget_s, least_s);
    double left_s = 60;
    for (size_t i = 1; i < made.count; i++) {
        validate_plan_share(&made, i, left_s);
        cr_expect_float_eq(atof(made.parts[i].budget), made.parts[i].budget_s, 0.05);
        left_s -= made.parts[i].budget_s;
    }
    cr_expect_float_eq(left_s, 0, 1e-6);
    validate_plan_share(&made, 3, -5);
    cr_expect_gt(made.parts[3].budget_s, 0, "a benchmark measures something even when nothing is left");
}

Test(validate, a_case_that_memory_does_not_permit_is_no_reason)
{
    add_part("bench-adam", "adam",
             "echo '{\"record\":\"skip\",\"name\":\"adam\",\"case\":{\"in_cache\":false},\"needs_bytes\":3000000000,"
             "\"available_bytes\":1000}'");
    add_range("adam-update", "adam", ",\"case\":{\"in_cache\":false}");
    cr_expect_eq(validate(), FINDING_VALID, "%s", reason(0));
    const json_t *finding = record_of("finding", 0);
    cr_expect_eq(json_integer_value(json_object_get(finding, "line")), 3);
    cr_expect(strstr(text_of(finding, "text"), "adam-update: not judged here: adam needs 2.794 GiB of memory"), "%s",
              text_of(finding, "text"));
    cr_expect_eq(validate_report(folder), ERR_NONE, "%s", err_message());
}
