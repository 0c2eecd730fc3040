// SPDX-License-Identifier: Apache-2.0
// Tests of `bench comm`: one wrong element is found, its yardstick moves what the collective moves, and its lines say
// what was asked for.
#include "bench.h"
#include "comm_ranks.h"
#include "err.h"
#include "printed_test.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include <string.h>

static struct comm_setting setting_of(enum operation operation, int world, bool uneven, bool in_place)
{
    return (struct comm_setting){.operation = operation, .world = world, .count = 1000,
                                 .uneven = uneven, .in_place = in_place};
}

// With spoiled_rank -1: nothing is; else its first or its last element.
static size_t wrong_after_spoiling(const struct comm_setting *setting, int spoiled_rank, bool last)
{
    struct comm_ranks ranks;
    size_t wrong_count;
    cr_assert_eq(comm_ranks_open(setting, &ranks), ERR_NONE, "%s", err_message());
    for (int i = 0; i < 3; i++) {
        ranks.calls = setting->in_place ? 1 : (size_t)i + 1;
        cr_assert_eq(comm_ranks_prepare(&ranks, TASK_COLLECTIVE, i % 2), ERR_NONE, "%s", err_message());
        cr_assert_eq(comm_ranks_repeat(&ranks), ERR_NONE, "%s", err_message());
        // The other ranks wait for the next repetition; what a root sends then must be right again.
        if (i == 2 && spoiled_rank >= 0) {
            const struct comm_rank *rank = &ranks.ranks[spoiled_rank];
            comm_rank_result(rank)[last ? comm_rank_result_count(rank) - 1 : 0] += 1;
        }
    }
    cr_assert_eq(comm_ranks_prepare(&ranks, TASK_COPY, false), ERR_NONE, "%s", err_message());
    cr_assert_eq(comm_ranks_repeat(&ranks), ERR_NONE, "%s", err_message());
    cr_assert_eq(comm_ranks_close(&ranks, &wrong_count), ERR_NONE, "%s", err_message());
    return wrong_count;
}

Test(bench_comm, concurrent_every_repetition_is_verified_and_one_wrong_element_is_found)
{
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++)
        for (int form = 0; form < 4; form++)
            for (int world = 1; world <= 4; world++) {
                const char *name = comm_ranks_operation_name(operation);
                struct comm_setting setting = setting_of(operation, world, form & 1, form & 2);
                if ((setting.uneven && !comm_ranks_has_shares(operation)) ||
                    (setting.in_place && !comm_ranks_has_in_place(operation)))
                    continue;
                cr_expect_eq(wrong_after_spoiling(&setting, -1, false), 0, "%s among %d, form %d", name, world, form);
                cr_expect_eq(wrong_after_spoiling(&setting, world - 1, false), 1, "%s among %d, form %d", name, world,
                             form);
                cr_expect_eq(wrong_after_spoiling(&setting, 0, true), 1, "%s among %d, form %d", name, world, form);
            }
}

// All elements of recv that the collective writes are written by the yardstick, too, and no others.
static void expect_same_extent(const struct comm_setting *setting, enum task task)
{
    struct comm_ranks ranks;
    size_t wrong_count;
    static const unsigned char poison[sizeof(float)] = {0xff, 0xff, 0xff, 0xff};
    const char *name = comm_ranks_operation_name(setting->operation);
    cr_assert_eq(comm_ranks_open(setting, &ranks), ERR_NONE, "%s", err_message());
    cr_assert_eq(comm_ranks_prepare(&ranks, task, true), ERR_NONE, "%s", err_message());
    cr_assert_eq(comm_ranks_repeat(&ranks), ERR_NONE, "%s", err_message());
    for (int rank = 0; rank < setting->world; rank++)
        for (size_t i = 0; i < comm_ranks_recv_count(&ranks.ranks[rank]); i++)
            cr_assert_eq(memcmp(&ranks.ranks[rank].recv[i], poison, sizeof poison) != 0,
                         i < comm_rank_result_count(&ranks.ranks[rank]), "%s among %d, rank %d, element %zu", name,
                         setting->world, rank, i);
    cr_assert_eq(comm_ranks_close(&ranks, &wrong_count), ERR_NONE, "%s", err_message());
}

Test(bench_comm, concurrent_the_yardstick_writes_what_the_collective_writes)
{
    static const enum task tasks[] = {TASK_COLLECTIVE, TASK_COPY, TASK_COPY_AROUND_CACHE, TASK_MEET_AND_COPY};
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++)
        for (size_t task = 0; task < sizeof tasks / sizeof tasks[0]; task++)
            for (int world = 1; world <= 4; world++)
                for (int uneven = 0; uneven <= comm_ranks_has_shares(operation); uneven++) {
                    struct comm_setting setting = setting_of(operation, world, uneven, false);
                    expect_same_extent(&setting, tasks[task]);
                }
}

static double bus_bytes_of(enum operation operation, int world, bool uneven)
{
    struct comm_ranks ranks;
    size_t wrong_count;
    struct comm_setting setting = setting_of(operation, world, uneven, false);
    cr_assert_eq(comm_ranks_open(&setting, &ranks), ERR_NONE, "%s", err_message());
    double bytes = comm_ranks_bus_bytes(&ranks);
    cr_assert_eq(comm_ranks_close(&ranks, &wrong_count), ERR_NONE);
    return bytes;
}

Test(bench_comm, bus_bytes_are_those_that_the_busiest_rank_moves)
{
    // 1000 elements among 4 ranks: 250 each, or 100, 200, 300 and 400.
    cr_expect_eq(bus_bytes_of(REDUCE_SCATTER, 4, false), 4 * 750);
    cr_expect_eq(bus_bytes_of(ALL_GATHER, 4, false), 4 * 750);
    cr_expect_eq(bus_bytes_of(ALL_TO_ALL, 4, false), 4 * 750);
    cr_expect_eq(bus_bytes_of(ALL_REDUCE, 4, false), 4 * 1500);
    cr_expect_eq(bus_bytes_of(BROADCAST, 4, false), 4 * 1000);
    cr_expect_eq(bus_bytes_of(REDUCE_SCATTER, 4, true), 4 * 900);
    cr_expect_eq(bus_bytes_of(ALL_GATHER, 4, true), 4 * 900);
    cr_expect_eq(bus_bytes_of(ALL_TO_ALL, 4, true), 4 * 1200, "the last one receives 400 from each of three");
    cr_expect_eq(bus_bytes_of(ALL_GATHER, 1, false), 0);
}

static int run(const char *const arguments[], char **text)
{
    const char *argv[16] = {"comm"};
    int argc = 1;
    for (; arguments[argc - 1]; argc++)
        argv[argc] = arguments[argc - 1];
    struct printed printed = printed_begin();
    int status = bench_comm_main(argc, argv);
    *text = printed_end(printed);
    return status;
}

Test(bench_comm, a_json_line_names_the_case_and_its_yardstick)
{
    static const char *const arguments[] = {"--world", "3",        "--operation", "all-reduce", "--sizes",
                                            "64K",     "--repeat", "10",          "--json",     NULL};
    char *text;
    cr_assert_eq(run(arguments, &text), 0);
    json_t *line = json_loads(text, 0, NULL);
    cr_assert_not_null(line, "%s", text);
    const char *name, *operation, *unit, *yardstick;
    int world, wrong, verified;
    json_int_t buffer_bytes;
    double median, ratio, bus_bytes;
    json_t *samples;
    static const char *const form = "{s:s, s:{s:s, s:i, s:I}, s:{s:f, s:i}, s:o, s:f, s:s, s:b, s:{s:s}, s:f}";
    cr_assert_eq(json_unpack(line, form, "name", &name,
                             "case", "operation", &operation, "world", &world, "buffer_bytes", &buffer_bytes,
                             "detail", "bus_bytes", &bus_bytes, "wrong", &wrong, "samples", &samples, "median", &median,
                             "unit", &unit, "verified", &verified, "yardstick", "name", &yardstick, "ratio", &ratio),
                 0, "%s", text);
    cr_expect_str_eq(name, "comm");
    cr_expect_str_eq(operation, "all-reduce");
    cr_expect_str_eq(unit, "ns");
    cr_expect_eq(world, 3);
    cr_expect_eq(buffer_bytes, 65532);
    cr_expect_float_eq(bus_bytes, 2 * 65532 * 2.0 / 3, 1e-6);
    cr_expect_eq(wrong, 0);
    cr_expect(verified && median > 0 && ratio > 0 && json_array_size(samples) == 10);
    json_decref(line);
    free(text);
}

Test(bench_comm, a_table_has_a_row_for_each_operation_and_size)
{
    static const char *const arguments[] = {"--sizes", "4K,8K", "--repeat", "2", NULL};
    char *text;
    cr_assert_eq(run(arguments, &text), 0);
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++) {
        char row[64];
        snprintf(row, sizeof row, "%-15s %-9s %11d ", comm_ranks_operation_name(operation), "", 8192);
        cr_expect(strstr(text, row), "no \"%s\" in\n%s", row, text);
    }
    free(text);
}

Test(bench_comm, large_buffers_are_measured_uneven_and_in_place_too)
{
    static const char *const arguments[] = {"--sizes", "1M", "--repeat", "1", "--operation", "reduce-scatter", NULL};
    char *text;
    cr_assert_eq(run(arguments, &text), 0);
    cr_expect(strstr(text, "%  reduce-scatter                1048576 "), "%s", text);
    cr_expect(strstr(text, "%  reduce-scatter  uneven        1048576 "), "%s", text);
    cr_expect(strstr(text, "%  reduce-scatter  in place      1048576 "), "%s", text);
    free(text);
}

Test(bench_comm, an_unknown_operation_world_or_thread_count_is_refused)
{
    static const char *const bad[][3] = {
        {"--world", "0"}, {"--world", "65"}, {"--operation", "gather"}, {"--threads", "2"}, {"--sizes", "x"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *text;
        cr_expect_eq(run(bad[i], &text), 2, "%s %s", bad[i][0], bad[i][1]);
        free(text);
    }
}
