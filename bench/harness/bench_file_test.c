// SPDX-License-Identifier: Apache-2.0
// Tests of --out: a benchmark writes a complete result file, a failed one leaves it without an end record, and an
// existing file is never overwritten.
#include "bench/table/benchmarks.h"
#include "bench/harness/bench.h"
#include "base/err.h"
#include "bench/harness/printed_test.h"
#include "ref/tier/storage_test.h"
#include "results/record/record_verify.h"

#include <criterion/criterion.h>

#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/zg-bench-out-XXXXXX";

static void new_path(void)
{
    strcpy(path + strlen(path) - 6, "XXXXXX");
    close(mkstemp(path));
    unlink(path);
}

static int run(const char *const arguments[], char **text)
{
    const char *argv[24] = {"bench"};
    int argc = 1;
    for (; arguments[argc - 1]; argc++)
        argv[argc] = arguments[argc - 1];
    struct printed printed = printed_begin();
    int status = bench_main(argc, argv);
    *text = printed_end(printed);
    return status;
}

static const char *text_of(const json_t *record, const char *key)
{
    return json_string_value(json_object_get(record, key));
}

Test(bench_file, a_result_file_is_complete_and_equals_the_printed_lines)
{
    new_path();
    const char *const arguments[] = {"comm", "--operation", "broadcast", "--sizes", "8K,16K", "--repeat",
                                     "3",    "--json",      "--out",     path,      NULL};
    char *text;
    cr_assert_eq(run(arguments, &text), 0);
    struct result_file file;
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    cr_assert_not_null(file.end);
    cr_expect_str_eq(text_of(file.run, "program"), "bench");
    cr_expect_str_eq(json_string_value(json_array_get(json_object_get(file.run, "command"), 2)), "comm");
    cr_expect_str_eq(text_of(file.end, "status"), "complete");
    cr_expect(json_is_null(json_object_get(file.end, "verdict")));
    cr_assert_eq(file.line_count, 4);
    const char *line = text;
    for (size_t i = 1; i <= 2; i++, line = strchr(line, '\n') + 1) {
        json_t *printed = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        cr_assert_not_null(printed);
        cr_expect_str_eq(text_of(file.lines[i], "record"), "bench");
        cr_expect(json_equal(json_object_get(file.lines[i], "case"), json_object_get(printed, "case")));
        cr_expect_float_eq(json_number_value(json_object_get(file.lines[i], "median")),
                           json_number_value(json_object_get(printed, "median")),
                           1e-5 * json_number_value(json_object_get(printed, "median")));
        json_decref(printed);
    }
    size_t refusals;
    cr_assert_eq(record_verify(&file, stderr, &refusals), ERR_NONE);
    cr_expect_eq(refusals, 0);
    result_close(&file);
    free(text);
    cr_expect_eq(run(arguments, &text), 2, "the file exists already");
    cr_expect_str_empty(text);
    free(text);
    unlink(path);
}

Test(bench_file, a_benchmark_that_fails_leaves_a_file_without_an_end)
{
    new_path();
    static const char *const arguments[] = {"comm", "--operation", "gather", "--out", path, NULL};
    char *text;
    cr_assert_eq(run(arguments, &text), 2);
    struct result_file file;
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    cr_expect_null(file.end);
    cr_expect_eq(file.line_count, 1);
    result_close(&file);
    free(text);
    unlink(path);
}

Test(bench_file, all_benchmarks_are_parts_of_one_file_long)
{
    new_path();
    static const char *const arguments[] = {"all",          "--quick", "--repeat", "1",  "--nvme-path",
                                            storage_folder, "--json",  "--out",    path, NULL};
    char *text;
    cr_assert_eq(run(arguments, &text), 0);
    struct result_file file;
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    cr_assert_not_null(file.end);
    size_t parts = 0, benches = 0;
    for (size_t i = 0; i < file.line_count; i++) {
        parts += strcmp(text_of(file.lines[i], "record"), "part") == 0;
        benches += strcmp(text_of(file.lines[i], "record"), "bench") == 0;
    }
    cr_expect_geq(parts, 7);
    cr_expect_geq(benches, 40);
    size_t refusals;
    cr_assert_eq(record_verify(&file, stderr, &refusals), ERR_NONE);
    cr_expect_eq(refusals, 0);
    result_close(&file);
    free(text);
    unlink(path);
}

Test(bench_file, all_refuses_options_that_differ_between_benchmarks)
{
    static const char *const bad[] = {"--sizes=4K", "--threads=1", "--engine=libaio", "--operation=copy"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *arguments[] = {"all", bad[i], NULL};
        char *text;
        cr_expect_eq(run(arguments, &text), 2, "%s", bad[i]);
        free(text);
    }
}
