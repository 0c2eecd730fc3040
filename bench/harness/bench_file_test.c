// SPDX-License-Identifier: Apache-2.0
// Tests of --out: a benchmark writes a complete result file, a failed one leaves it without an end record, and an
// existing file is never overwritten.
#include "bench/table/benchmarks.h"
#include "bench/harness/bench.h"
#include "base/err.h"
#include "bench/harness/printed_test.h"
#include "ref/tier/storage_test.h"
#include "results/record/record_verify.h"
#include "bench/harness/bench_device.h"
#include "ref/arithmetic/shadow_test.h"
#include "bench/harness/json_test.h"

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

static int run(const char *name, const char *words, char **text)
{
    const char *const first[] = {"bench", name, NULL};
    return printed_run(bench_main, first, words, text);
}

Test(bench_file, a_result_file_is_complete_and_equals_the_printed_lines)
{
    new_path();
    char words[200];
    snprintf(words, sizeof words, "--operation broadcast --sizes 8K,16K --repeat 3 --json --out %s", path);
    char *text;
    cr_assert_eq(run("comm", words, &text), 0);
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
    cr_expect_eq(run("comm", words, &text), 2, "the file exists already");
    cr_expect_str_empty(text);
    free(text);
    unlink(path);
}

Test(bench_file, a_benchmark_that_fails_leaves_a_file_without_an_end)
{
    new_path();
    char words[100], *text;
    snprintf(words, sizeof words, "--operation gather --out %s", path);
    cr_assert_eq(run("comm", words, &text), 2);
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
    char words[400], *text;
    snprintf(words, sizeof words, "--quick --repeat 1 --nvme-path %s --json --out %s", storage_folder, path);
    cr_assert_eq(run("all", words, &text), 0);
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
    static const char *const bad[] = {"--sizes=4K", "--threads=1", "--engine=libaio", "--operation=copy", NULL};
    printed_expect_refused(bench_main, (const char *const[]){"bench", "all", NULL}, bad);
}

Test(bench_device, a_device_is_found_by_name_or_reported_absent)
{
    struct bench_device device;
    bool absent;
    cr_expect_eq(bench_device_find(NULL, 2, false, &device, &absent), ERR_NONE);
    cr_expect(!absent && !device.accelerator);
    cr_expect_str_eq(bench_device_name(&device), "cpu");
    cr_expect_eq(bench_device_find("cpu", 2, true, &device, &absent), ERR_NONE);
    cr_expect(!absent && !device.accelerator);
    cr_expect_eq(bench_device_find("gpu", 2, false, &device, &absent), ERR_USAGE);
    cr_expect_str_eq(err_message(), "--device gpu: expected cpu or cuda");
    cr_expect_eq(bench_device_find("cuda", 2, false, &device, &absent), ERR_NONE);
    if (absent) {
        cr_expect_null(device.accelerator);
        cr_expect(strstr(err_message(), "--device cuda: "), "%s", err_message());
    } else {
        cr_expect_str_eq(bench_device_name(&device), "cuda");
        cr_expect(device.count == 1 || device.count == 2, "%d", device.count);
    }
}

Test(bench_device, memory_belongs_to_the_accelerator_and_is_released)
{
    const struct bench_device device = {&shadow_accelerator, 2};
    void *there, *here;
    const char text[] = "seven\0s";
    char back[sizeof text];
    cr_assert_eq(bench_device_enter(&device, 3), ERR_NONE);
    cr_expect_eq(shadow_device, 1);
    cr_assert_eq(bench_device_alloc(&device, 4099, &there), ERR_NONE);
    cr_expect_eq(accelerator_of((char *)there + 4098), &shadow_accelerator);
    cr_expect_eq(bytes_copy(there, text, sizeof text), ERR_NONE);
    cr_expect_eq(bytes_copy(back, there, sizeof text), ERR_NONE);
    cr_expect_arr_eq(back, text, sizeof text);
    cr_assert_eq(bench_device_alloc_host(&device, 8191, &here), ERR_NONE);
    cr_expect_null(accelerator_of(here));
    cr_expect_eq(shadow.locked_bytes, 8191);
    memset(here, 1, 8191);
    bench_device_free_host(&device, here, 8191);
    cr_expect_eq(shadow.unlock_count, 1);
    bench_device_free(&device, there, 4099);
    cr_expect_null(accelerator_of(there));
    cr_expect_eq(shadow.block_count, 0);
    bench_device_free(&device, NULL, 1);
    bench_device_free_host(&device, NULL, 1);
}

Test(bench_device, full_words_are_filled_on_device_and_host)
{
    const struct bench_device devices[] = {{&shadow_accelerator, 1}, {0}};
    const unsigned char expected[] = {0x78, 0x56, 0x34, 0x12, 0x78, 0x56, 0x34, 0x12, 9, 9, 9};
    for (int d = 0; d < 2; d++) {
        void *memory;
        unsigned char back[sizeof expected];
        memset(back, 9, sizeof back);
        cr_assert_eq(bench_device_enter(&devices[d], 0), ERR_NONE);
        cr_assert_eq(bench_device_alloc(&devices[d], sizeof back, &memory), ERR_NONE);
        cr_expect_eq(bytes_copy(memory, back, sizeof back), ERR_NONE);
        cr_expect_eq(bench_device_fill(&devices[d], memory, 0x12345678, sizeof back), ERR_NONE);
        cr_expect_eq(bench_device_fill(&devices[d], (char *)memory + 8, 1, 3), ERR_NONE);
        cr_expect_eq(bytes_copy(back, memory, sizeof back), ERR_NONE);
        cr_expect_arr_eq(back, expected, sizeof back);
        bench_device_free(&devices[d], memory, sizeof back);
    }
}

Test(bench_device, a_case_names_the_device_unless_it_is_the_cpu)
{
    json_t *of_case = json_object();
    bench_device_describe(&(struct bench_device){0}, of_case);
    cr_expect_eq(json_object_size(of_case), 0);
    bench_device_describe(&(struct bench_device){&shadow_accelerator, 2}, of_case);
    cr_expect_str_eq(json_string_value(json_object_get(of_case, "device")), "shadow");
    cr_expect_eq(json_integer_value(json_object_get(of_case, "devices")), 2);
    json_decref(of_case);
}

Test(bench_device, without_an_accelerator_memory_is_host_memory)
{
    const struct bench_device device = {0};
    void *there, *here;
    cr_assert_eq(bench_device_enter(&device, 5), ERR_NONE);
    cr_assert_eq(bench_device_alloc(&device, 10007, &there), ERR_NONE);
    cr_assert_eq(bench_device_alloc_host(&device, 10007, &here), ERR_NONE);
    memset(there, 3, 10007);
    memset(here, 4, 10007);
    cr_expect_eq(bytes_copy(here, there, 10007), ERR_NONE);
    cr_expect_eq(((char *)here)[10006], 3);
    bench_device_free(&device, there, 10007);
    bench_device_free_host(&device, here, 10007);
}
