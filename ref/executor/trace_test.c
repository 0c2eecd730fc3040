// SPDX-License-Identifier: Apache-2.0
// Timelines: the file has the form that trace viewers read, and shows every byte that lanes moved, also in a run that
// fails.
#include "base/folder_test.h"
#include "base/command_test.h"
#include "ref/executor/trace.h"

#include "base/err.h"
#include "ref/arithmetic/norm.h"
#include "ref/train/train.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <sys/wait.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char output[1 << 16];

// The exit status of `BEFORE zerogauge train ARGUMENTS --trace PATH`.
static int train_under(const char *before, const char *arguments, const char *path)
{
    char command[1024];
    snprintf(command, sizeof command, "%s %s/zerogauge train %s --trace %s 2>&1", before, ZG_BINARY_DIR, arguments,
             path);
    return command_run(command, output, sizeof output);
}

static int train(const char *arguments, const char *path)
{
    return train_under("", arguments, path);
}

// Removes the file.
static json_t *load(const char *path)
{
    json_error_t error;
    json_t *events = json_load_file(path, 0, &error);
    unlink(path);
    cr_assert_not_null(events, "%s:%d: %s", path, error.line, error.text);
    cr_assert(json_is_array(events));
    return events;
}

static const char *temporary(char path[64])
{
    snprintf(path, 64, "/tmp/zg-trace-XXXXXX");
    close(mkstemp(path));
    unlink(path);
    return path;
}

enum { RANKS = 2, THREADS = LANE_COUNT + 1 };

// The content of a file, by rank and thread.
struct seen {
    uint64_t bytes[RANKS][THREADS];
    size_t events[RANKS][THREADS];
    double end_us[RANKS][THREADS];
    size_t named_processes, named_threads;
};

// Events of one thread are in order, and none begins before the previous one ends, to the nanosecond.
static void look(json_t *events, struct seen *out)
{
    *out = (struct seen){0};
    size_t i;
    json_t *event;
    json_array_foreach (events, i, event) {
        const char *kind, *name;
        int rank, thread;
        cr_assert_eq(
            json_unpack(event, "{s:s, s:s, s:i, s:i}", "ph", &kind, "name", &name, "pid", &rank, "tid", &thread), 0,
            "event %zu", i);
        cr_assert(rank >= 0 && rank < RANKS && thread >= 0 && thread < THREADS, "event %zu", i);
        out->named_processes += strcmp(name, "process_name") == 0;
        out->named_threads += strcmp(name, "thread_name") == 0;
        if (strcmp(kind, "M") == 0)
            continue;
        double begin, took;
        json_int_t bytes = 0;
        cr_assert_str_eq(kind, "X");
        cr_assert_eq(json_unpack(event, "{s:F, s:F, s?{s:I}}", "ts", &begin, "dur", &took, "args", "bytes", &bytes), 0,
                     "event %zu", i);
        cr_assert(begin >= out->end_us[rank][thread] - 1e-3 && took >= 0, "\"%s\" of rank %d begins in the one before",
                  name, rank);
        out->end_us[rank][thread] = begin + took;
        out->bytes[rank][thread] += (uint64_t)bytes;
        out->events[rank][thread]++;
    }
}

Test(trace, every_lane_shows_the_bytes_of_the_ledger)
{
    enum { STEPS = 3 };
    char path[64], arguments[512];
    snprintf(arguments, sizeof arguments,
             "--preset zero_infinity --nvme-path %s --world %d --model gpt-nano --steps %d --json", ZG_BINARY_DIR,
             RANKS, STEPS);
    cr_assert_eq(train(arguments, temporary(path)), 0, "%s", output);
    json_t *events = load(path), *record = json_loads(output, 0, NULL), *lane_bytes;
    struct seen seen;
    look(events, &seen);
    cr_expect_eq(seen.named_processes, RANKS);
    cr_expect_eq(seen.named_threads, RANKS * THREADS);
    cr_assert_not_null(record, "%s", output);
    json_t *moved = json_object_get(record, "moved_bytes_by_lane");
    const char *lane_name, *operation;
    size_t lanes_moved = 0;
    json_object_foreach (moved, lane_name, lane_bytes) {
        uint64_t in_ledger = 0, in_file = 0;
        json_t *bytes;
        int lane = 0;
        while (strcmp(ledger_lane_name((enum lane)lane), lane_name) != 0)
            lane++;
        json_object_foreach (lane_bytes, operation, bytes)
            in_ledger += (uint64_t)json_integer_value(bytes);
        for (int rank = 0; rank < RANKS; rank++)
            in_file += seen.bytes[rank][lane];
        // The executor does not run the gathers of the largest magnitude, the sum of squares and the loss.
        if (lane == LANE_COLLECTIVE)
            in_file += RANKS * STEPS * (RANKS - 1) *
                       (sizeof(uint32_t) + sizeof(struct norm_sum) + sizeof(struct train_report_of_rank));
        cr_expect_eq(in_file, in_ledger, "%s: %zu in the file, %zu in the ledger", lane_name, (size_t)in_file,
                     (size_t)in_ledger);
        lanes_moved++;
    }
    cr_expect_geq(lanes_moved, 5);
    for (int rank = 0; rank < RANKS; rank++) {
        cr_expect_eq(seen.events[rank][LANE_COUNT], STEPS);
        cr_expect_gt(seen.events[rank][LANE_COMPUTE], 0);
        cr_expect_gt(seen.events[rank][LANE_CPU], 0);
    }
    json_decref(events);
    json_decref(record);
}

Test(trace, a_failed_run_leaves_its_timeline)
{
    char path[64];
    struct seen seen;
    cr_assert_eq(train("--preset zero3 --model gpt-nano --steps 5 --inject rank:1:die@3", temporary(path)), 2, "%s",
                 output);
    cr_expect(strstr(output, "ended in step 3"), "%s", output);
    json_t *events = load(path);
    look(events, &seen);
    cr_expect_eq(seen.events[1][LANE_COUNT], 2);
    json_decref(events);
}

Test(trace, emulated_lanes_are_marked)
{
    char path[64];
    cr_assert_eq(train("--preset zero3 --model linear --steps 1 --emulate h2d=0.5", temporary(path)), 0, "%s", output);
    json_t *events = load(path);
    const char *name;
    cr_assert_eq(json_unpack(json_array_get(events, 0), "{s:{s:s}}", "args", "name", &name), 0);
    cr_expect_str_eq(name, "rank 0, EMULATED h2d=0.5");
    json_decref(events);
}

Test(trace, a_path_that_cannot_be_written_is_an_error_before_the_run)
{
    cr_expect_eq(train("--preset zero3 --model linear --steps 1", "/nonexistent/trace.json"), 2);
    cr_expect(strstr(output, "--trace: /nonexistent/trace.json: cannot be created: No such file or directory"), "%s",
              output);
    cr_expect_null(strstr(output, "ZeRO-3"), "%s", output);
}

// A limit on the size of files simulates a full disk.
Test(trace, a_full_disk_is_an_error_that_names_the_file)
{
    char path[64], expected[256];
    temporary(path);
    snprintf(expected, sizeof expected, "--trace %s: the timeline could not be written completely: File too large",
             path);
    cr_expect_eq(train_under("ulimit -f 1;", "--preset zero3 --model linear --steps 5", path), 2, "%s", output);
    cr_expect(strstr(output, expected), "%s", output);
    cr_expect_neq(access(path, F_OK), 0, "half a timeline is left");
    cr_expect_eq(train_under("ulimit -f 1;", "--preset zero3 --model linear --steps 5 --inject rank:1:die@3", path), 2);
    snprintf(expected, sizeof expected, "; and --trace %s: ", path);
    cr_expect(strstr(output, "ended in step 3") && strstr(output, expected), "%s", output);
    cr_expect_neq(access(path, F_OK), 0, "half a timeline is left");
}

Test(trace, a_link_is_not_written_through)
{
    char path[64], link[80];
    temporary(path);
    snprintf(link, sizeof link, "%s-link", path);
    cr_assert_eq(symlink(path, link), 0);
    cr_expect_eq(train("--preset zero3 --model linear --steps 1", link), 2);
    cr_expect(strstr(output, "is a symbolic link, which is never written to"), "%s", output);
    cr_expect_neq(access(path, F_OK), 0);
    unlink(link);
}

Test(trace, an_existing_file_is_refused_before_the_run)
{
    char path[64], expected[160];
    folder_write(temporary(path), "mine", 4);
    snprintf(expected, sizeof expected, "--trace: %s: exists, and is never overwritten", path);
    cr_expect_eq(train("--preset zero3 --model linear --steps 1", path), 2);
    cr_expect(strstr(output, expected) && !strstr(output, "ZeRO-3"), "%s", output);
    folder_expect_text(path, "mine");
    unlink(path);
}

Test(trace, a_lane_is_busy_for_the_union_of_its_intervals)
{
    struct executor_interval intervals[] = {
        {"a", 10, 20, 0, 0, 0}, {"b", 15, 25, 0, 0, 0}, {"c", 30, 40, 0, 0, 0}, {"d", 31, 33, 0, 0, 0}};
    struct trace_rank rank = {.intervals = {[LANE_CPU] = intervals}, .interval_count = {[LANE_CPU] = 4}};
    cr_expect_eq(trace_busy_ns(&rank, LANE_CPU, 0, 100), 25);
    cr_expect_eq(trace_busy_ns(&rank, LANE_CPU, 12, 32), 15);
    cr_expect_eq(trace_busy_ns(&rank, LANE_CPU, 26, 29), 0);
    cr_expect_eq(trace_busy_ns(&rank, LANE_H2D, 0, 100), 0);
}
