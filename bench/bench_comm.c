// SPDX-License-Identifier: Apache-2.0
// The collectives of ranks that are threads, against concurrent copies of the same bytes (comm_ranks.h says which).
//
// algorithm GB/s   bytes of the whole buffer / time
// bus GB/s         bytes that a rank must send and receive, the better of both, whatever the algorithm / time. Of a
//                  buffer of S bytes: reduce-scatter, all-gather, all-to-all S(N-1)/N, all-reduce 2S(N-1)/N,
//                  broadcast S
#include "bench.h"
#include "comm_ranks.h"
#include "err.h"

#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BYTES = 64 << 10,  // a repetition on less is many calls: one alone is as short as the clock is fine
    SMALL_CALLS = 200,
    TRIALS = 5,
};

struct selection {
    struct bench_options options;
    int world;
    char *operation;  // popt's allocation; null: all
};

struct work {
    struct comm_ranks *ranks;
    enum task task;
};

static int work_prepare(void *context)
{
    const struct work *work = context;
    return comm_ranks_prepare(work->ranks, work->task, false);
}

static int work_run(void *context)
{
    const struct work *work = context;
    return comm_ranks_repeat(work->ranks);
}

static struct bench_work work_of(struct work *work, const char *name)
{
    return (struct bench_work){.name = name, .run = work_run, .prepare = work_prepare, .context = work};
}

static int poisoned_repetition(struct comm_ranks *ranks)
{
    TRY(comm_ranks_prepare(ranks, TASK_COLLECTIVE, true));
    return comm_ranks_repeat(ranks);
}

// The limit is the faster of both ways to copy, as a trial finds it. All results are verified; the first and the last
// one come into poisoned memory, so that what nobody writes is seen, too.
static int measure(struct comm_ranks *ranks, const struct bench_options *options, struct bench_samples *samples,
                   struct bench_samples *limits, const char **yardstick_name)
{
    struct work collective = {ranks, TASK_COLLECTIVE}, plain = {ranks, TASK_COPY};
    struct work around = {ranks, TASK_COPY_AROUND_CACHE};
    struct bench_work work = work_of(&collective, "collective"), memcpy_work = work_of(&plain, "memcpy");
    struct bench_work around_work = work_of(&around, "copy around the caches");
    double calls = (double)ranks->calls;
    TRY(poisoned_repetition(ranks));
    TRY(bench_alternate(&memcpy_work, &around_work, 1, TRIALS, calls, samples, limits));
    const struct bench_work *limit = bench_median(samples) <= bench_median(limits) ? &memcpy_work : &around_work;
    *yardstick_name = limit->name;
    TRY(bench_alternate(&work, limit, options->warmup, options->repeat, calls, samples, limits));
    return poisoned_repetition(ranks);
}

static double bus_bytes(const struct comm_ranks *ranks)
{
    double bytes = (double)(ranks->count * sizeof(float)), world = ranks->world;
    if (ranks->operation == BROADCAST)
        return bytes;
    return bytes * (world - 1) / world * (ranks->operation == ALL_REDUCE ? 2 : 1);
}

static void print_header(int world)
{
    printf("%d ranks; medians, and the time of concurrent copies of the same bytes in per cent of the collective's\n",
           world);
    printf("copies   %-15s %11s %10s %21s %10s %9s %9s %6s  %s\n", "operation", "bytes", "us", "(10 % to 90 %)",
           "copies us", "alg GB/s", "bus GB/s", "wrong", "copies by");
}

// The column of wrong elements is of those that were compared: a case with any has no row.
static void row_of(const struct bench_record *record, const struct comm_ranks *ranks, char *out, size_t bytes)
{
    double buffer_bytes = (double)(ranks->count * sizeof(float)), median = bench_median(record->samples);
    snprintf(out, bytes, "%-15s %11.0f %10.2f %10.2f %10.2f %10.2f %9.2f %9.2f %6d  %s",
             comm_ranks_operation_name(ranks->operation), buffer_bytes, median / 1e3,
             bench_quantile(record->samples, 0.1) / 1e3, bench_quantile(record->samples, 0.9) / 1e3,
             bench_median(record->yardstick) / 1e3, buffer_bytes / median, bus_bytes(ranks) / median, 0,
             record->yardstick_name);
}

static int case_run(const struct selection *selection, enum operation operation, size_t bytes)
{
    const char *name = comm_ranks_operation_name(operation), *yardstick_name = NULL;
    bench_progress("comm %s, %zu bytes, %d ranks", name, bytes, selection->world);
    struct comm_ranks ranks;
    struct bench_samples samples, limits;
    size_t wrong_count;
    uint64_t begin_ns = bench_now_ns();
    TRY(comm_ranks_open(&ranks, operation, selection->world, bytes / sizeof(float),
                        bytes < SMALL_BYTES ? SMALL_CALLS : 1));
    int measured = measure(&ranks, &selection->options, &samples, &limits, &yardstick_name);
    int closed = comm_ranks_close(&ranks, &wrong_count);
    if (measured != ERR_NONE || closed != ERR_NONE)
        return measured != ERR_NONE ? measured : closed;
    if (wrong_count > 0)
        return err_set(ERR_CHECK, "%s of %zu bytes among %d ranks left %zu wrong elements", name, bytes,
                       selection->world, wrong_count);
    char row[160];
    struct bench_record record = {
        .name = "comm",
        .description = json_pack("{s:s, s:i, s:s, s:I}", "operation", name, "world", selection->world, "dtype", "fp32",
                                 "buffer_bytes", (json_int_t)(ranks.count * sizeof(float))),
        .detail = json_pack("{s:f, s:i}", "bus_bytes", bus_bytes(&ranks), "wrong", 0),
        .unit = "ns",
        .lower_is_better = true,
        .verified = true,
        .items = (double)ranks.calls,
        .begin_ns = begin_ns,
        .samples = &samples,
        .yardstick_name = yardstick_name,
        .yardstick = &limits,
        .row = row};
    row_of(&record, &ranks, row, sizeof row);
    return bench_print(&selection->options, &record);
}

static int selection_complete(struct selection *selection)
{
    struct bench_options *options = &selection->options;
    if (selection->world < 1 || selection->world > WORLD_MAX)
        return err_set(ERR_USAGE, "--world %d: from 1 to %d ranks", selection->world, WORLD_MAX);
    if (options->thread_count > 0)
        return err_set(ERR_USAGE, "--threads: every rank is one thread here; --world says how many");
    bool known = !selection->operation;
    for (enum operation operation = 0; operation < OPERATION_KINDS && !known; operation++)
        known = strcmp(selection->operation, comm_ranks_operation_name(operation)) == 0;
    if (!known)
        return err_set(ERR_USAGE, "unknown operation '%s'; known are reduce-scatter, all-gather, all-reduce, "
                                  "all-to-all, broadcast", selection->operation);
    static const size_t sizes[] = {1 << 20, 16 << 20, 128 << 20};
    bench_default_sizes(options, sizes, options->quick ? 2 : 3);
    bench_default_repeat(options, 15, 10, 2);
    return ERR_NONE;
}

static int comm_bench(struct selection *selection)
{
    TRY(selection_complete(selection));
    const struct bench_options *options = &selection->options;
    if (!options->json)
        print_header(selection->world);
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++) {
        if (selection->operation && strcmp(selection->operation, comm_ranks_operation_name(operation)) != 0)
            continue;
        for (size_t i = 0; i < options->size_count; i++)
            TRY(case_run(selection, operation, options->sizes[i]));
    }
    return ERR_NONE;
}

int bench_comm_main(int argc, const char **argv)
{
    struct selection selection = {.world = 2};
    struct poptOption own[] = {
        {"world", '\0', POPT_ARG_INT, &selection.world, 0, "ranks (2); --sizes are bytes of the whole buffer", "N"},
        {"operation", '\0', POPT_ARG_STRING, &selection.operation, 0,
         "one of reduce-scatter, all-gather, all-reduce, all-to-all, broadcast", "NAME"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, BENCH_USES_NOTHING, own, &selection.options);
    if (code == ERR_NONE && !selection.options.help)
        code = comm_bench(&selection);
    bench_release(&selection.options);
    free(selection.operation);
    return bench_exit("comm", code);
}
