// SPDX-License-Identifier: Apache-2.0
// Tests of benchmarks under a launcher: the right ranks measure, rank 0 prints all results, and errors are reported
// once.
#include "ref/comm/mpirun_test.h"

#include "base/folder_test.h"
#include "bench/harness/json_test.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>

enum { LINES_MAX = 512, SKIPPED_STATUS = 77 };

static char output[1 << 20];
static json_t *lines[LINES_MAX];
static size_t line_count;

// Parses the records among the lines of the output.
static void read_lines(void)
{
    line_count = 0;
    for (char *rest = output, *line; (line = strsep(&rest, "\n")) != NULL;) {
        json_t *record = *line == '{' ? json_loads(line, 0, NULL) : NULL;
        if (record && line_count < LINES_MAX)
            lines[line_count++] = record;
    }
}

static void bench(int world, const char *arguments)
{
    char command[1024];
    snprintf(command, sizeof command, "bench %s --json", arguments);
    cr_assert_eq(mpirun(world, "zerogauge", command, output, sizeof output), 0, "%s: %s", arguments, output);
    read_lines();
}

static json_int_t number_of(const json_t *record, const char *key)
{
    const json_t *number = json_object_get(record, key);
    return json_is_integer(number) ? json_integer_value(number) : -1;
}

// Returns the only record with this name, operation and buffer size.
static const json_t *comm_line(const char *name, const char *operation, int bytes)
{
    const json_t *found = NULL;
    size_t count = 0;
    for (size_t i = 0; i < line_count; i++) {
        const json_t *of_case = json_object_get(lines[i], "case");
        if (strcmp(text_of(lines[i], "name"), name) != 0 || strcmp(text_of(of_case, "operation"), operation) != 0 ||
            number_of(of_case, "buffer_bytes") != bytes)
            continue;
        found = lines[i];
        count++;
    }
    cr_assert_eq(count, 1, "%zu lines of %s %s %d: %s", count, name, operation, bytes, output);
    return found;
}

static void expect_both_orders(int world, const char *operation, int bytes)
{
    const json_t *canonical = comm_line("comm", operation, bytes), *native = comm_line("comm_native", operation, bytes);
    const json_t *of_canonical = json_object_get(canonical, "case"), *of_native = json_object_get(native, "case");
    cr_expect_str_eq(text_of(of_canonical, "order"), "canonical");
    cr_expect_str_eq(text_of(of_native, "order"), "native");
    cr_expect_str_eq(text_of(of_canonical, "transport"), "mpi");
    cr_expect_eq(number_of(of_canonical, "world"), world);
    cr_expect_eq(number_of(of_canonical, "hosts"), 1);
    cr_expect_eq(number_of(json_object_get(canonical, "detail"), "wrong"), 0);
    cr_expect_eq(number_of(json_object_get(native, "detail"), "wrong"), 0);
    cr_expect(json_equal(json_object_get(native, "samples"),
                         json_object_get(json_object_get(canonical, "yardstick"), "samples")));
    cr_expect(json_is_true(json_object_get(canonical, "verified")));
    cr_expect(json_is_real(json_object_get(canonical, "ratio")));
    cr_expect(json_is_null(json_object_get(native, "ratio")));
}

static void expect_comm(int world)
{
    static const char *const operations[] = {"reduce-scatter", "all-gather", "all-reduce", "all-to-all", "broadcast"};
    bench(world, "comm --sizes 48,48K --repeat 2");
    cr_expect_eq(line_count, 2 * 2 * 5, "one rank prints: %s", output);
    for (size_t i = 0; i < 5; i++) {
        expect_both_orders(world, operations[i], 48);
        expect_both_orders(world, operations[i], 48 << 10);
    }
}

static json_int_t other_bits(const char *operation)
{
    return number_of(json_object_get(comm_line("comm_native", operation, 48 << 10), "detail"), "other_bits");
}

Test(bench_world, among_2_and_3_processes_every_collective_is_measured_in_both_orders)
{
    MPI_OR_SKIP();
    expect_comm(2);
    cr_expect_eq(other_bits("all-reduce"), 0, "two numbers have one sum in either order");
    cr_expect_eq(other_bits("reduce-scatter"), 0);
    cr_expect_eq(other_bits("all-gather"), -1, "an all-gather adds nothing, so no order can differ");
    expect_comm(3);
}

Test(bench_world, among_4_processes_the_sums_of_mpi_differ_in_some_bits)
{
    MPI_OR_SKIP();
    expect_comm(4);
    cr_expect_gt(other_bits("all-reduce"), 0, "%s", output);
    cr_expect_leq(other_bits("all-reduce"), 4 * (48 << 10) / 4);
}

Test(bench_world, in_16_bits_the_sums_of_mpi_are_verified_and_round_more_often)
{
    static const char *const dtypes[] = {"bf16", "fp16"};
    MPI_OR_SKIP();
    for (int i = 0; i < 2; i++) {
        char words[128];
        snprintf(words, sizeof words, "comm --sizes 48K --repeat 2 --dtype %s", dtypes[i]);
        bench(3, words);
        for (size_t at = 0; at < line_count; at++)
            cr_expect_str_eq(text_of(json_object_get(lines[at], "case"), "dtype"), dtypes[i]);
        expect_both_orders(3, "all-reduce", 48 << 10);
        expect_both_orders(3, "all-to-all", 48 << 10);
        cr_expect_gt(other_bits("reduce-scatter"), 0, "%s", output);
    }
}

Test(bench_world, large_buffers_of_processes_are_measured_uneven_and_in_place_too)
{
    MPI_OR_SKIP();
    bench(3, "comm --sizes 1M --repeat 1 --operation reduce-scatter");
    size_t uneven = 0, in_place = 0;
    for (size_t i = 0; i < line_count; i++) {
        const json_t *of_case = json_object_get(lines[i], "case");
        uneven += strcmp(text_of(of_case, "shares"), "uneven") == 0;
        in_place += json_is_true(json_object_get(of_case, "in_place"));
    }
    cr_expect_eq(line_count, 6, "%s", output);
    cr_expect_eq(uneven, 2);
    cr_expect_eq(in_place, 2);
}

Test(bench_world, without_a_gpu_for_each_process_all_skip_and_report_it_once)
{
    MPI_OR_SKIP();
    int status =
        mpirun(2, "zerogauge", "bench comm --device cuda --quick --sizes 4K --repeat 1 --json", output, sizeof output);
    if (status == 0) {
        read_lines();
        cr_expect_str_eq(text_of(json_object_get(comm_line("comm", "broadcast", 4096), "case"), "transport"), "nccl");
        return;
    }
    cr_expect_eq(status, SKIPPED_STATUS, "%s", output);
    cr_expect_eq(times_said(output, "SKIP: comm: --device cuda: "), 1, "%s", output);
}

// Expects each rank once alone and once together, in each lane.
static void expect_ranks(int world)
{
    static const char *const names[] = {"vectors", "compute", "memory"};
    enum { LANES = sizeof names / sizeof *names };
    bench(world, "ranks --quick --repeat 2");
    int seen[LANES][2][8] = {0};
    for (size_t i = 0; i < line_count; i++) {
        const json_t *of_case = json_object_get(lines[i], "case");
        json_int_t rank = number_of(of_case, "rank");
        bool together = json_is_true(json_object_get(of_case, "together"));
        cr_assert(rank >= 0 && rank < world, "%s", output);
        cr_expect_eq(number_of(of_case, "world"), world);
        cr_expect_str_neq(text_of(of_case, "host"), "");
        cr_expect_eq(json_array_size(json_object_get(lines[i], "samples")), 2);
        for (int lane = 0; lane < LANES; lane++)
            seen[lane][together][rank] += strcmp(text_of(of_case, "lane"), names[lane]) == 0;
    }
    for (int lane = 0; lane < LANES; lane++)
        for (int together = 0; together < 2; together++)
            for (int rank = 0; rank < world; rank++)
                cr_expect_eq(seen[lane][together][rank], 1, "lane %d, together %d, rank %d: %s", lane, together, rank,
                             output);
}

Test(bench_world, every_process_is_measured_alone_and_together)
{
    MPI_OR_SKIP();
    expect_ranks(2);
    expect_ranks(3);
}

Test(bench_world, a_benchmark_of_the_machine_runs_once_per_host)
{
    MPI_OR_SKIP();
    bench(3, "adam --sizes 1K --threads 1 --step update --recipe torch-cpu --isa scalar --repeat 2");
    cr_assert_eq(line_count, 1, "%s", output);
    cr_expect_eq(number_of(json_object_get(lines[0], "case"), "rank"), 0);
    cr_expect_str_neq(text_of(json_object_get(lines[0], "case"), "host"), "");
}

Test(bench_world, the_result_file_of_several_processes_verifies)
{
    MPI_OR_SKIP();
    char folder[PATH_MAX], command[2 * PATH_MAX + 256];
    folder_make(folder);
    snprintf(command, sizeof command, "comm --sizes 1K --repeat 2 --operation all-reduce --out %s/r.jsonl", folder);
    bench(2, command);
    cr_expect_eq(line_count, 2);
    snprintf(command, sizeof command, "'%s/zerogauge' report --verify %s/r.jsonl 2>&1", ZG_BINARY_DIR, folder);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    folder_remove(folder);
}

Test(bench_world, an_error_of_one_rank_is_reported_by_rank_0)
{
    MPI_OR_SKIP();
    cr_expect_eq(mpirun(3, "zerogauge", "bench ranks --quick --pin 0,0,1023", output, sizeof output), 2, "%s", output);
    cr_expect_not_null(strstr(output, "zerogauge bench ranks: rank 2 (host "), "%s", output);
    cr_expect_not_null(strstr(output, ") failed: --pin 1023: this process may not run on that processor\n"), "%s",
                       output);
    cr_expect_eq(mpirun(2, "zerogauge", "bench comm --world 3", output, sizeof output), 2, "%s", output);
    const char *reported = strstr(output, "--world 3, but the launcher has started 2 processes");
    cr_assert_not_null(reported, "%s", output);
    cr_expect_null(strstr(reported + 1, "--world 3, but"), "only one rank prints it: %s", output);
    cr_expect_eq(mpirun(2, "zerogauge", "bench nothing", output, sizeof output), 2, "%s", output);
}

// Runs the benchmark on two simulated hosts (ci/hosts). Returns false, and prints the reason, if they cannot be made.
static bool bench_on_hosts(const char *arguments)
{
    char command[2048];
    snprintf(command, sizeof command,
             "env ASAN_OPTIONS=detect_leaks=0 timeout 300 '%s/ci/hosts' 2 -- mpirun -n 3 "
             "'%s/zerogauge' bench %s 2>&1",
             ZG_SOURCE_DIR, ZG_BINARY_DIR, arguments);
    int status = command_run(command, output, sizeof output);
    const char *reason = strstr(output, "SKIP: ");
    if (status == SKIPPED_STATUS && reason)
        printf("TEST SKIPPED: %.*s\n", (int)strcspn(reason + 6, "\n"), reason + 6);
    else
        cr_assert_eq(status, 0, "%s", output);
    return status == 0;
}

Test(bench_world, each_host_measures_its_own_parts_and_rank_0_prints_them)
{
    MPI_OR_SKIP();
    static const char *const adam = "adam --sizes 1K --threads 1 --step update --recipe torch-cpu --isa scalar "
                                    "--repeat 2";
    char command[256];
    snprintf(command, sizeof command, "%s --json", adam);
    if (!bench_on_hosts(command))
        return;
    read_lines();
    cr_assert_eq(line_count, 2, "%s", output);
    cr_expect_str_eq(text_of(json_object_get(lines[0], "case"), "host"), "host1");
    cr_expect_str_eq(text_of(json_object_get(lines[1], "case"), "host"), "host2");
    cr_expect_eq(number_of(json_object_get(lines[0], "case"), "rank"), 0);
    cr_expect_eq(number_of(json_object_get(lines[1], "case"), "rank"), 1);
    cr_expect(bench_on_hosts(adam));
    const char *heading = strstr(output, "\nrank 1 on host host2\n");
    cr_assert_not_null(heading, "%s", output);
    cr_expect(strstr(output, "host=host1") < heading && strstr(heading, "host=host2"), "%s", output);
}

// With an odd number of ranks one rests in every round; still each rank meets every other one.
Test(bench_world, links_are_measured_with_every_partner)
{
    static const int partners[] = {0, 0, 1, 2, 3, 4};
    MPI_OR_SKIP();
    for (int world = 2; world <= 5; world++) {
        bench(world, "links --quick --repeat 2 --sizes 64");
        cr_assert_eq(line_count, 2 * (size_t)world, "%s", output);
        for (size_t i = 0; i < line_count; i++) {
            const json_t *of_case = json_object_get(lines[i], "case"), *detail = json_object_get(lines[i], "detail");
            cr_expect_eq(number_of(of_case, "rank"), (json_int_t)i % world);
            cr_expect_str_eq(text_of(of_case, "lane"), i < (size_t)world ? "ping" : "bandwidth");
            cr_expect_eq(number_of(of_case, "bytes"), i < (size_t)world ? 8 : 64);
            cr_expect_eq(number_of(detail, "partners"), partners[world], "%d ranks: %s", world, output);
            cr_expect_neq(number_of(detail, "slowest_partner"), (json_int_t)i % world);
            cr_expect(json_is_true(json_object_get(lines[i], "verified")));
        }
    }
    cr_expect_eq(mpirun(1, "zerogauge", "bench links", output, sizeof output), SKIPPED_STATUS, "%s", output);
    cr_expect_not_null(strstr(output, "SKIP: links: this process has no partners"), "%s", output);
}
