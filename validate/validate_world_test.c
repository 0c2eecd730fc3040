// SPDX-License-Identifier: Apache-2.0
// Validations whose ranks a launcher starts: one verdict and one file, even if a rank dies.
#include "ref/comm/mpirun_test.h"

#include "base/err.h"
#include "base/folder_test.h"
#include "results/record/record_check.h"
#include "bench/harness/json_test.h"

#include <limits.h>

enum { SKIPPED_STATUS = 77 };

static char output[1 << 18], folder[PATH_MAX], path[PATH_MAX + 16];
static struct result_file file;

static void setup(void)
{
    folder_make(folder);
    snprintf(path, sizeof path, "%s/v/result.jsonl", folder);
    char name[PATH_MAX + 4];
    snprintf(name, sizeof name, "%s/v", folder);
    mkdir(name, 0777);
}

static void teardown(void)
{
    result_close(&file);
    folder_remove(folder);
}

TestSuite(validate_world, .init = setup, .fini = teardown);

static void expect_a_file_that_verifies(void)
{
    char command[2 * PATH_MAX], said[4096];
    snprintf(command, sizeof command, "'%s/zerogauge' report --verify %s 2>&1", ZG_BINARY_DIR, path);
    cr_expect_eq(command_run(command, said, sizeof said), 0, "%s", said);
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    cr_assert_not_null(file.end, "the file has no end: %s", output);
}

static void validate(int world, const char *what)
{
    char arguments[PATH_MAX + 64];
    snprintf(arguments, sizeof arguments, "%s/v %s", folder, what);
    mpirun_each(world, "validate_world_program", arguments, output, sizeof output);
}

// Counts the records of this kind and name.
static size_t count_of(const char *kind, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < file.line_count; i++)
        count +=
            strcmp(text_of(file.lines[i], "record"), kind) == 0 && strcmp(text_of(file.lines[i], "name"), name) == 0;
    return count;
}

static void expect_one_file_of(int world)
{
    validate(world, "nothing");
    cr_assert_eq(times_said(output, "ended with status 0\n"), world, "%s", output);
    expect_a_file_that_verifies();
    cr_expect_eq(count_of("part", "bench-nvme"), 1, "one host");
    cr_expect_eq(count_of("bench", "nvme"), 1);
    cr_expect_eq(count_of("part", "bench-ranks"), 1);
    cr_expect_eq(count_of("bench", "ranks"), 6 * (size_t)world, "each rank alone and together in three lanes");
    for (size_t i = 0; i < file.line_count; i++)
        if (strcmp(text_of(file.lines[i], "record"), "bench") == 0) {
            const json_t *of_case = json_object_get(file.lines[i], "case");
            cr_expect_str_neq(text_of(of_case, "host"), "", "line %zu", i + 1);
            cr_expect(json_is_integer(json_object_get(of_case, "rank")), "line %zu", i + 1);
        }
    cr_expect_str_eq(text_of(file.end, "status"), "complete");
}

Test(validate_world, two_processes_leave_one_file)
{
    MPI_OR_SKIP();
    expect_one_file_of(2);
}

Test(validate_world, four_processes_leave_one_file)
{
    MPI_OR_SKIP();
    expect_one_file_of(4);
}

static bool is_incomplete_because(const char *why)
{
    const json_t *reasons = json_object_get(file.end, "reasons");
    size_t i;
    const json_t *reason;
    json_array_foreach (reasons, i, reason)
        if (strstr(json_string_value(reason), why))
            return strcmp(text_of(file.end, "verdict"), "INCOMPLETE") == 0;
    return false;
}

Test(validate_world, an_interruption_leaves_a_file_that_says_so)
{
    MPI_OR_SKIP();
    validate(3, "interrupt");
    cr_expect_not_null(strstr(output, "INCOMPLETE, interrupted\n"), "%s", output);
    expect_a_file_that_verifies();
    cr_expect_str_eq(text_of(file.end, "status"), "interrupted");
    cr_expect(is_incomplete_because("bench-nvme: was interrupted"), "%s", output);
}

Test(validate_world, a_rank_that_is_killed_while_a_host_measures_is_named)
{
    MPI_OR_SKIP();
    validate(3, "kill");
    expect_a_file_that_verifies();
    cr_expect(is_incomplete_because("ranks: rank 1 (host "), "%s", output);
    cr_expect(is_incomplete_because(") has died"), "%s", output);
}

Test(validate_world, a_rank_that_is_killed_while_all_measure_is_named)
{
    MPI_OR_SKIP();
    validate(3, "kill-together");
    expect_a_file_that_verifies();
    cr_expect(is_incomplete_because("ranks: rank 1 (host "), "%s", output);
    cr_expect_eq(count_of("part", "bench-swap"), 0, "later parts were not run");
}

Test(validate_world, a_rank_that_cannot_measure_is_named)
{
    MPI_OR_SKIP();
    validate(3, "error");
    expect_a_file_that_verifies();
    cr_expect(is_incomplete_because(") failed: --pin 1023: this process may not run on that processor"), "%s", output);
}

Test(validate_world, a_slow_host_is_an_outlier)
{
    MPI_OR_SKIP();
    char command[3 * PATH_MAX];
    snprintf(command, sizeof command,
             "env ASAN_OPTIONS=detect_leaks=0 timeout 300 '%s/ci/hosts' 2 -- mpirun -n 3 "
             "'%s/validate_world_program' %s/v slow 2>&1",
             ZG_SOURCE_DIR, ZG_BINARY_DIR, folder);
    int status = command_run(command, output, sizeof output);
    const char *reason = strstr(output, "SKIP: ");
    if (status == SKIPPED_STATUS && reason) {
        printf("TEST SKIPPED: %.*s\n", (int)strcspn(reason + 6, "\n"), reason + 6);
        return;
    }
    cr_expect_eq(status, 0, "%s", output);
    cr_expect_not_null(strstr(output, "INVALID\n"), "%s", output);
    const char *named = "reason hosts-nvme: rank 1 (host host2) takes 3.00 times as long as the other host";
    cr_expect_not_null(strstr(output, named), "%s", output);
    expect_a_file_that_verifies();
    cr_expect_eq(count_of("part", "bench-nvme"), 2);
    const json_t *others = json_object_get(file.run, "other_hosts");
    cr_assert_eq(json_array_size(others), 1);
    cr_expect_str_eq(text_of(json_array_get(others, 0), "host"), "host2");
    cr_expect_eq(json_integer_value(json_object_get(json_array_get(others, 0), "rank_count")), 1);
    cr_expect_eq(count_of("bench", "swap"), 2);
    char theirs[2 * PATH_MAX];
    snprintf(theirs, sizeof theirs, "%s/v/bench-nvme.rank-1.out", folder);
    cr_expect_eq(access(theirs, R_OK), 0, "the output of the other host's part");
}
