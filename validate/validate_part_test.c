// SPDX-License-Identifier: Apache-2.0
// A part and everything that can go wrong in it: each failure is reported, and no invalid output becomes a result.
#include "validate/validate_part.h"

#include "base/err.h"
#include "validate/validate_test.h"

static char folder[PATH_MAX];
static struct part_run run;

static void setup(void)
{
    folder_make(folder);
}

static void teardown(void)
{
    folder_remove(folder);
}

TestSuite(validate_part, .init = setup, .fini = teardown);

static void run_part(const struct validate_part *part)
{
    char path[PATH_MAX + 64];
    const struct part_setting setting = {.folder = folder};
    snprintf(path, sizeof path, "%s/%s.out", folder, part->name);
    unlink(path);
    snprintf(path, sizeof path, "%s/%s.err", folder, part->name);
    unlink(path);
    cr_assert_eq(part_run(part, &setting, &run), ERR_NONE, "%s", err_message());
}

static void run_script(const char *script)
{
    struct validate_part part = trial_part("bench-nvme", "nvme", script);
    run_part(&part);
}

// Expects a failed part with this verdict and these words in its reason.
static void expect_failure(enum finding_verdict verdict, const char *reason)
{
    cr_expect_eq(run.state, PART_FAILED);
    cr_expect_eq(run.verdict, verdict);
    cr_expect(strstr(run.reason, reason), "\"%s\" is not in \"%s\"", reason, run.reason);
    part_run_free(&run);
}

Test(validate_part, messages_on_standard_error_do_not_disturb_results)
{
    char script[4096], one[1200];
    snprintf(one, sizeof one, "%s", trial_line("nvme", "\"direction\":\"read\"", 3));
    snprintf(script, sizeof script, "echo SKIP: no fio >&2; echo '%s'; echo '%s'", one,
             trial_line("nvme_latency", "\"depth\":1", 2));
    run_script(script);
    cr_assert_eq(run.state, PART_DONE, "%s", run.reason);
    cr_assert_eq(json_array_size(run.records), 2);
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(run.records, 1), "name")), "nvme_latency");
    cr_expect_str_eq(run.reason, "");
    part_run_free(&run);
}

Test(validate_part, wrong_data_makes_the_run_invalid)
{
    run_script("echo 'zerogauge bench nvme: a block differs' >&2; exit 1");
    expect_failure(FINDING_INVALID, "exited with status 1: zerogauge bench nvme: a block differs");
}

Test(validate_part, status_77_is_a_note_only_for_a_part_that_may_be_absent)
{
    struct validate_part part = trial_part("bench-nvme", "nvme", "echo first >&2; echo 'SKIP: no GPU' >&2; exit 77");
    run_part(&part);
    expect_failure(FINDING_INCOMPLETE, "SKIP: no GPU");
    part.may_be_absent = true;
    run_part(&part);
    cr_expect_eq(run.state, PART_ABSENT);
    cr_expect_str_eq(run.reason, "SKIP: no GPU");
    part_run_free(&run);
    part.argv[2] = "exit 2";
    run_part(&part);
    expect_failure(FINDING_INCOMPLETE, "exited with status 2");
}

Test(validate_part, a_command_that_crashes_hangs_or_does_not_start_is_incomplete)
{
    struct validate_part part = trial_part("bench-nvme", "nvme", "kill -SEGV $$");
    run_part(&part);
    expect_failure(FINDING_INCOMPLETE, "was killed by signal 11");
    part = trial_part("bench-nvme", "nvme", "sleep 100");
    part.limit_s = 0.2;
    run_part(&part);
    cr_expect_eq(run.launch.end, LAUNCH_TIME);
    expect_failure(FINDING_INCOMPLETE, "timed out after 0.2 s");
    part = trial_part("bench-nvme", "nvme", "");
    part.argv[0] = "/nowhere/zerogauge";
    run_part(&part);
    cr_expect(run.not_started);
    expect_failure(FINDING_INCOMPLETE, "/nowhere/zerogauge: cannot be started");
}

Test(validate_part, a_status_of_0_with_garbage_is_no_result)
{
    char script[4096];
    run_script("echo 'GB/s: 3'");
    expect_failure(FINDING_INCOMPLETE, "bench-nvme.out:1: is not JSON");
    run_script("echo '[1,2]'");
    expect_failure(FINDING_INCOMPLETE, "bench-nvme.out:1: is not a JSON object");
    run_script("exit 0");
    expect_failure(FINDING_INCOMPLETE, "it printed no result");
    snprintf(script, sizeof script, "echo '%s'; echo '{\"record\":\"run\"}'", trial_line("nvme", "", 3));
    run_script(script);
    expect_failure(FINDING_INCOMPLETE, "bench-nvme.out:2: is not a record of a benchmark");
    snprintf(script, sizeof script, "echo '%s'", trial_line("nvmes", "", 3));
    run_script(script);
    expect_failure(FINDING_INCOMPLETE, "of the benchmark \"nvmes\", expected \"nvme\"");
    snprintf(script, sizeof script, "printf %%s '%s'", trial_line("nvme", "", 3));
    run_script(script);
    expect_failure(FINDING_INCOMPLETE, "its last line is cut off");
    snprintf(script, sizeof script, "echo '%s'", trial_line("nvme", "", -3));
    run_script(script);
    expect_failure(FINDING_INCOMPLETE, "bench-nvme.out:1: ");
    run_script("head -c 3000000 /dev/zero | tr '\\0' x; echo");
    expect_failure(FINDING_INCOMPLETE, "the limit of a record");
    run_script("printf '\\377\\376\\n'");
    expect_failure(FINDING_INCOMPLETE, "bench-nvme.out:1: is not JSON");
}

static const char REPORT[] =
    "echo '{\"record\":\"run\",\"implementation\":\"mine\",\"version\":\"1\",\"level\":\"quick\",\"seed\":\"1\","
    "\"case_count\":3,\"requirement_count\":1}';"
    "echo '{\"record\":\"check\",\"case\":\"a\"}';"
    "echo '{\"record\":\"requirement\",\"id\":\"R-OPT-01\",\"must\":true,\"chapter\":\"Optimizer\",\"title\":\"Adam\","
    "\"verdict\":\"PASS\",\"finding_counts\":{\"PASS\":1,\"EQUIVALENT\":0,\"BOUNDED\":0,\"FAIL\":0,\"BROKEN\":0,"
    "\"UNSUPPORTED\":0},\"rules\":[]}';"
    "echo '{\"record\":\"end\",\"verdict\":\"%s\",\"exit_status\":0,\"requirement_counts\":{\"PASS\":1,"
    "\"EQUIVALENT\":0,\"BOUNDED\":0,\"FAIL\":0,\"BROKEN\":0,\"UNSUPPORTED\":0}}'; exit %d";

Test(validate_part, a_report_of_the_conformance_suite_becomes_its_verdict_and_requirements)
{
    char script[4096];
    snprintf(script, sizeof script, REPORT, "FAILS", 1);
    struct validate_part part = trial_part("arithmetic", NULL, script);
    run_part(&part);
    cr_assert_eq(run.state, PART_DONE, "%s", run.reason);
    cr_assert_eq(json_array_size(run.records), 2);
    const json_t *conformance = json_array_get(run.records, 0);
    cr_expect_str_eq(json_string_value(json_object_get(conformance, "record")), "conformance");
    cr_expect_str_eq(json_string_value(json_object_get(conformance, "implementation")), "mine");
    cr_expect_str_eq(json_string_value(json_object_get(conformance, "verdict")), "FAILS");
    cr_expect_eq(run.verdict, FINDING_INVALID);
    cr_expect_str_eq(run.reason, "exited with status 1");
    cr_expect_eq(json_integer_value(json_object_get(json_object_get(conformance, "requirement_counts"), "PASS")), 1);
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(run.records, 1), "id")), "R-OPT-01");
    part_run_free(&run);
    snprintf(script, sizeof script, REPORT, "SPLENDID", 0);
    run_part(&part);
    expect_failure(FINDING_INCOMPLETE, "verdict");
    part.argv[2] = "echo '{\"record\":\"run\"}'";
    run_part(&part);
    expect_failure(FINDING_INCOMPLETE, "its report");
    part.argv[2] = "echo '{\"record\":\"bench\"}'";
    run_part(&part);
    expect_failure(FINDING_INCOMPLETE, "a conformance report contains no \"bench\" records");
}

Test(validate_part, output_files_are_never_overwritten)
{
    const struct part_setting setting = {.folder = folder};
    struct validate_part part = trial_part("bench-nvme", "nvme", "exit 0");
    run_part(&part);
    part_run_free(&run);
    cr_expect_eq(part_run(&part, &setting, &run), ERR_IO);
    part_run_free(&run);
}
