// SPDX-License-Identifier: Apache-2.0
// The collectives of ranks that are threads, against concurrent copies of the same bytes (comm_ranks.h says which); or
// of the processes of a launcher, against MPI's own collectives of the same bytes, which add up in an order of their
// own: what bitwise equality costs. The definitions are those of nccl-tests (its doc/PERFORMANCE.md); for a buffer of S
// bytes and N ranks:
//
// algorithm GB/s   S / time
// bus GB/s         bytes that the busiest rank must send or receive, whatever the algorithm / time: reduce-scatter,
//                  all-gather and all-to-all S(N-1)/N, all-reduce 2S(N-1)/N, broadcast S. With uneven shares the first
//                  three are S less the smallest share, or N-1 times the largest where an all-to-all receives that
#include "bench.h"
#include "bench_world.h"
#include "comm_ranks.h"
#include "err.h"
#include "mpi_collective.h"

#include <inttypes.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CALLS_MAX = 4096,            // in a repetition
    TRIALS = 5,
    SMALL_BYTES = 64 << 10,
    VARIED_MIN_BYTES = 1 << 20,  // smaller buffers are measured out of place and in equal shares only
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

// As many calls as a sample takes, by the shortest of a few trials. In place a call changes what the next one finds.
static int choose_calls(struct comm_ranks *ranks, const struct bench_work *work)
{
    while (!ranks->setting.in_place && ranks->calls < CALLS_MAX) {
        uint64_t ns, least_ns = UINT64_MAX;
        for (int trial = 0; trial < TRIALS && least_ns >= BENCH_SAMPLE_NS; trial++) {
            TRY(bench_time(work, &ns));
            TRY(comm_ranks_agree(ranks, &ns));
            least_ns = ns < least_ns ? ns : least_ns;
        }
        if (least_ns >= BENCH_SAMPLE_NS)
            break;
        ranks->calls *= 2;
    }
    return ERR_NONE;
}

// Against MPI's own, whose results are verified as well.
static int measure_processes(struct comm_ranks *ranks, const struct bench_options *options,
                             struct bench_samples *samples, struct bench_samples *limits)
{
    struct work collective = {ranks, TASK_COLLECTIVE}, native = {ranks, TASK_NATIVE};
    struct bench_work work = work_of(&collective, "collective"), native_work = work_of(&native, "MPI's own");
    TRY(poisoned_repetition(ranks));
    TRY(choose_calls(ranks, &work));
    TRY(bench_alternate(&work, &native_work, options->warmup, options->repeat, (double)ranks->calls, samples, limits));
    TRY(comm_ranks_prepare(ranks, TASK_NATIVE, true));
    TRY(comm_ranks_repeat(ranks));
    return poisoned_repetition(ranks);
}

// The limit is the faster of both ways to copy, as a trial finds it; of small buffers, a barrier and the copies. All
// results are verified; the first and the last one come into poisoned memory, so that what nobody writes is seen, too.
static int measure(struct comm_ranks *ranks, const struct bench_options *options, struct bench_samples *samples,
                   struct bench_samples *limits, const char **yardstick_name)
{
    *yardstick_name = mpi_collective_library();
    if (ranks->setting.comm)
        return measure_processes(ranks, options, samples, limits);
    struct work collective = {ranks, TASK_COLLECTIVE}, plain = {ranks, TASK_COPY};
    struct work around = {ranks, TASK_COPY_AROUND_CACHE}, meet = {ranks, TASK_MEET_AND_COPY};
    struct bench_work work = work_of(&collective, "collective"), memcpy_work = work_of(&plain, "memcpy");
    struct bench_work around_work = work_of(&around, "copy around the caches");
    struct bench_work meet_work = work_of(&meet, "a barrier and memcpy");
    TRY(poisoned_repetition(ranks));
    TRY(choose_calls(ranks, &work));
    double calls = (double)ranks->calls;
    TRY(bench_alternate(&memcpy_work, &around_work, 1, TRIALS, calls, samples, limits));
    const struct bench_work *limit =
        ranks->setting.count * sizeof(float) < SMALL_BYTES             ? &meet_work
        : bench_quantile(samples, 0) <= bench_quantile(limits, 0) ? &memcpy_work
                                                                  : &around_work;
    *yardstick_name = limit->name;
    TRY(bench_alternate(&work, limit, options->warmup, options->repeat, calls, samples, limits));
    return poisoned_repetition(ranks);
}

static void print_header(int world)
{
    bool processes = bench_world_comm();
    if (processes)
        printf("%d ranks, on %d host%s; medians, and the time of MPI's own order in per cent of the canonical one's\n",
               world, bench_world_host_count(), bench_world_host_count() == 1 ? "" : "s");
    else
        printf("%d ranks; medians, and the time of concurrent copies of the same bytes in per cent of the "
               "collective's\n", world);
    printf("%-8s %-15s %-9s %11s %10s %21s %10s %9s %9s %6s  %s\n", processes ? "MPI's" : "copies", "operation", "",
           "bytes", "us", "(10 % to 90 %)", processes ? "MPI's us" : "copies us", "alg GB/s", "bus GB/s", "wrong",
           processes ? "library, elements of other bits" : "copies by");
}

// What was found of a case.
struct found {
    struct bench_samples samples, limits;
    const char *yardstick_name;
    uint64_t begin_ns, other_bits;
    double bus_bytes;
    bool has_other_bits;
};

// The column of wrong elements is of those that were compared: a case with any has no row.
static void row_of(const struct found *found, const struct comm_ranks *ranks, char *out, size_t bytes)
{
    const struct comm_setting *setting = &ranks->setting;
    double buffer_bytes = (double)(setting->count * sizeof(float)), median = bench_median(&found->samples);
    int used = snprintf(out, bytes, "%-15s %-9s %11.0f %10.2f %10.2f %10.2f %10.2f %9.2f %9.2f %6d  %s",
                        comm_ranks_operation_name(setting->operation),
                        setting->in_place ? "in place" : setting->uneven ? "uneven" : "", buffer_bytes, median / 1e3,
                        bench_quantile(&found->samples, 0.1) / 1e3, bench_quantile(&found->samples, 0.9) / 1e3,
                        bench_median(&found->limits) / 1e3, buffer_bytes / median,
                        found->bus_bytes / median, 0, found->yardstick_name);
    if (found->has_other_bits)
        snprintf(out + used, bytes - (size_t)used, ", %" PRIu64, found->other_bits);
}

static json_t *description_of(const struct comm_setting *setting, const char *order)
{
    return json_pack("{s:s, s:s, s:i, s:s, s:I, s:I, s:s, s:b, s:s}", "transport", setting->comm ? "mpi" : "local",
                     "operation", comm_ranks_operation_name(setting->operation), "world", setting->world, "dtype",
                     "fp32", "asked_bytes", (json_int_t)setting->asked_bytes, "buffer_bytes",
                     (json_int_t)(setting->count * sizeof(float)), "shares", setting->uneven ? "uneven" : "equal",
                     "in_place", setting->in_place, "order", order);
}

static json_t *detail_of(const struct comm_ranks *ranks, const struct found *found, const struct bench_samples *samples)
{
    double median = bench_median(samples);
    return json_pack("{s:f, s:f, s:f, s:i}", "bus_bytes", found->bus_bytes, "algorithm_gb_per_s",
                     (double)(ranks->setting.count * sizeof(float)) / median, "bus_gb_per_s",
                     found->bus_bytes / median, "wrong", 0);
}

static int print_canonical(const struct bench_options *options, const struct comm_ranks *ranks,
                           const struct found *found)
{
    char row[256];
    struct bench_record record = {
        .name = "comm",
        .description = description_of(&ranks->setting, "canonical"),
        .detail = detail_of(ranks, found, &found->samples),
        .unit = "ns",
        .lower_is_better = true,
        .verified = true,
        .items = (double)ranks->calls,
        .begin_ns = found->begin_ns,
        .samples = &found->samples,
        .yardstick_name = found->yardstick_name,
        .yardstick = &found->limits,
        .row = row};
    row_of(found, ranks, row, sizeof row);
    return bench_print(options, &record);
}

// MPI's own collective as a result of its own, which a reader sees beside the canonical one.
static int print_native(const struct bench_options *options, const struct comm_ranks *ranks, const struct found *found)
{
    struct bench_record record = {
        .name = "comm_native",
        .description = description_of(&ranks->setting, "native"),
        .detail = detail_of(ranks, found, &found->limits),
        .unit = "ns",
        .lower_is_better = true,
        .verified = true,
        .items = (double)ranks->calls,
        .begin_ns = found->begin_ns,
        .samples = &found->limits,
        .tabled = true};
    if (record.detail)
        json_object_set_new(record.detail, "library", json_string(found->yardstick_name));
    if (record.detail && found->has_other_bits)
        json_object_set_new(record.detail, "other_bits", json_integer((json_int_t)found->other_bits));
    return bench_print(options, &record);
}

static int case_measure(struct comm_ranks *ranks, const struct bench_options *options, struct found *found)
{
    enum operation operation = ranks->setting.operation;
    TRY(measure(ranks, options, &found->samples, &found->limits, &found->yardstick_name));
    found->has_other_bits = ranks->setting.comm && !ranks->setting.in_place &&
                            (operation == REDUCE_SCATTER || operation == ALL_REDUCE);
    if (!found->has_other_bits)
        return ERR_NONE;
    // What the last repetition left is verified first.
    TRY(comm_ranks_prepare(ranks, TASK_COLLECTIVE, false));
    return comm_ranks_count_other_bits(ranks, &found->other_bits);
}

static int case_run(const struct bench_options *options, const struct comm_setting *setting)
{
    const char *name = comm_ranks_operation_name(setting->operation);
    bench_progress("comm %s, %zu bytes, %d ranks", name, setting->count * sizeof(float), setting->world);
    struct comm_ranks ranks;
    struct found found = {.begin_ns = bench_now_ns()};
    size_t wrong_count;
    TRY(comm_ranks_open(setting, &ranks));
    int measured = case_measure(&ranks, options, &found);
    found.bus_bytes = comm_ranks_bus_bytes(&ranks);
    int closed = comm_ranks_close(&ranks, &wrong_count);
    if (measured != ERR_NONE || closed != ERR_NONE)
        return measured != ERR_NONE ? measured : closed;
    if (wrong_count > 0)
        return err_set(ERR_CHECK, "%s of %zu bytes among %d ranks left %zu wrong elements", name,
                       ranks.setting.count * sizeof(float), setting->world, wrong_count);
    TRY(print_canonical(options, &ranks, &found));
    return setting->comm ? print_native(options, &ranks, &found) : ERR_NONE;
}

// One operation at one size: out of place in equal shares, then, where it is large enough, uneven, and in place.
static int cases_run(const struct selection *selection, enum operation operation, size_t bytes)
{
    const struct bench_options *options = &selection->options;
    struct comm_setting setting = {.comm = bench_world_comm(), .operation = operation,
                                   .world = selection->world, .asked_bytes = bytes, .count = bytes / sizeof(float)};
    TRY(case_run(options, &setting));
    if (bytes < VARIED_MIN_BYTES)
        return ERR_NONE;
    struct comm_setting uneven = setting, in_place = setting;
    uneven.uneven = true;
    in_place.in_place = true;
    if (comm_ranks_has_shares(operation))
        TRY(case_run(options, &uneven));
    return comm_ranks_has_in_place(operation) ? case_run(options, &in_place) : ERR_NONE;
}

static int selection_complete(struct selection *selection)
{
    struct bench_options *options = &selection->options;
    TRY(bench_world_choose(&selection->world, 2, WORLD_MAX));
    if (options->thread_count > 0)
        return err_set(ERR_USAGE, "--threads: every rank is one thread here; --world says how many");
    bool known = !selection->operation;
    for (enum operation operation = 0; operation < OPERATION_KINDS && !known; operation++)
        known = strcmp(selection->operation, comm_ranks_operation_name(operation)) == 0;
    if (!known)
        return err_set(ERR_USAGE, "unknown operation '%s'; known are reduce-scatter, all-gather, all-reduce, "
                                  "all-to-all, broadcast", selection->operation);
    static const size_t sizes[] = {8, 256, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 256 << 20};
    static const size_t quick_sizes[] = {8, 64 << 10, 4 << 20};
    bench_default_sizes(options, options->quick ? quick_sizes : sizes, options->quick ? 3 : 7);
    bench_default_repeat(options, 15, 7, 1);
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
            TRY(cases_run(selection, operation, options->sizes[i]));
    }
    if (bench_world_comm())
        return ERR_NONE;
    return bench_skip("comm_native: ranks that are threads add up in canonical order alone; %s",
                      mpi_collective_library() ? "mpirun -n N zerogauge bench comm compares with MPI's own order"
                                         : "this binary was built without MPI, whose own order it would compare with");
}

int bench_comm_main(int argc, const char **argv)
{
    struct selection selection = {.world = BENCH_WORLD_UNSAID};
    struct poptOption own[] = {
        {"world", '\0', POPT_ARG_INT, &selection.world, 0,
         "ranks (2, or the launcher's); --sizes are bytes of the whole buffer", "N"},
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
