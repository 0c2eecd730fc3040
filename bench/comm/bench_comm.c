// SPDX-License-Identifier: Apache-2.0
// The collectives of ranks that are threads, against concurrent copies of the same bytes (comm_ranks.h says which); or
// of the processes of a launcher, against MPI's own collectives of the same bytes, or on GPUs NCCL's, which add up in
// an order of their own: what bitwise equality costs. The definitions are those of nccl-tests (its
// doc/PERFORMANCE.md); for a buffer of S bytes and N ranks:
//
// algorithm GB/s   S / time
// bus GB/s         bytes that the busiest rank must send or receive, whatever the algorithm / time: reduce-scatter,
//                  all-gather and all-to-all S(N-1)/N, all-reduce 2S(N-1)/N, broadcast S. With uneven shares the first
//                  three are S less the smallest share, or N-1 times the largest where an all-to-all receives that
#include "bench/harness/bench.h"
#include "bench/harness/bench_world.h"
#include "bench/comm/comm_case.h"
#include "bench/comm/comm_ranks.h"
#include "base/err.h"
#include "ref/comm/mpi_collective.h"
#include "ref/comm/nccl_collective.h"

#include <popt.h>
#include <stdlib.h>
#include <string.h>

static int comm_main(int argc, const char **argv);

const struct benchmark bench_comm = {
    .name = "comm",
    .run = comm_main,
    .uses = BENCH_USES_NOTHING,
    .together = true,
    .summary = "the collectives: time against concurrent copies of the same bytes",
    .examples = {"zerogauge bench comm --world 4 --sizes 8,1K,1M",
                 "zerogauge bench comm --operation all-reduce --json"},
};

enum {
    CALLS_MAX = 4096,  // in a repetition
    TRIALS = 5,
    SMALL_BYTES = 64 << 10,
    DEVICE_SMALL_BYTES = 32 << 20,  // what a GPU copies in some microseconds, as long as it takes to wait for it
    VARIED_MIN_BYTES = 1 << 20,     // smaller buffers are measured out of place and in equal shares only
};

struct selection {
    struct bench_options options;
    int world;
    char *operation;    // popt's allocation; null: all
    char *device_name;  // popt's allocation; null: not said
    struct bench_device device;
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

// Against the library's own, whose results are verified as well.
static int measure_processes(struct comm_ranks *ranks, const struct bench_options *options,
                             struct bench_samples *samples, struct bench_samples *limits)
{
    struct work collective = {ranks, TASK_COLLECTIVE}, native = {ranks, TASK_NATIVE};
    struct bench_work work = work_of(&collective, "collective"), native_work = work_of(&native, "the library's own");
    TRY(poisoned_repetition(ranks));
    TRY(choose_calls(ranks, &work));
    TRY(bench_alternate(&work, &native_work, options->warmup, options->repeat, (double)ranks->calls, samples, limits));
    TRY(comm_ranks_prepare(ranks, TASK_NATIVE, true));
    TRY(comm_ranks_repeat(ranks));
    return poisoned_repetition(ranks);
}

// On a device there is one way to copy. Of small buffers, a barrier comes before the copies, and on a device waits for
// those before it.
static int measure_on_device(struct comm_ranks *ranks, const struct bench_options *options,
                             struct bench_samples *samples, struct bench_samples *limits, const char **baseline_name)
{
    bool small = ranks->setting.count * sizeof(float) < DEVICE_SMALL_BYTES;
    struct work collective = {ranks, TASK_COLLECTIVE}, copies = {ranks, small ? TASK_MEET_AND_COPY : TASK_COPY};
    struct bench_work work = work_of(&collective, "collective");
    struct bench_work limit = work_of(&copies, small ? "a barrier and copies on the device" : "copies on the device");
    *baseline_name = limit.name;
    TRY(poisoned_repetition(ranks));
    TRY(choose_calls(ranks, &work));
    TRY(bench_alternate(&work, &limit, options->warmup, options->repeat, (double)ranks->calls, samples, limits));
    return poisoned_repetition(ranks);
}

// The limit is the faster of both ways to copy, as a trial finds it; of small buffers, a barrier and the copies.
static int measure_here(struct comm_ranks *ranks, const struct bench_options *options, struct bench_samples *samples,
                        struct bench_samples *limits, const char **baseline_name)
{
    struct work collective = {ranks, TASK_COLLECTIVE}, plain = {ranks, TASK_COPY};
    struct work around = {ranks, TASK_COPY_AROUND_CACHE}, meet = {ranks, TASK_MEET_AND_COPY};
    struct bench_work work = work_of(&collective, "collective"), memcpy_work = work_of(&plain, "memcpy");
    struct bench_work around_work = work_of(&around, "copy around the caches");
    struct bench_work meet_work = work_of(&meet, "a barrier and memcpy");
    TRY(poisoned_repetition(ranks));
    TRY(choose_calls(ranks, &work));
    double calls = (double)ranks->calls;
    TRY(bench_alternate(&memcpy_work, &around_work, 1, TRIALS, calls, samples, limits));
    const struct bench_work *limit = ranks->setting.count * sizeof(float) < SMALL_BYTES        ? &meet_work
                                     : bench_quantile(samples, 0) <= bench_quantile(limits, 0) ? &memcpy_work
                                                                                               : &around_work;
    *baseline_name = limit->name;
    TRY(bench_alternate(&work, limit, options->warmup, options->repeat, calls, samples, limits));
    return poisoned_repetition(ranks);
}

// All results are verified; the first and the last one come into poisoned memory, so that what nobody writes is seen,
// too.
static int measure(struct comm_ranks *ranks, const struct bench_options *options, struct comm_found *found)
{
    const struct comm_setting *setting = &ranks->setting;
    if (setting->comm) {
        found->baseline_name = setting->device ? nccl_collective_library(setting->comm) : mpi_collective_library();
        return measure_processes(ranks, options, &found->samples, &found->limits);
    }
    return (setting->device ? measure_on_device : measure_here)(ranks, options, &found->samples, &found->limits,
                                                                &found->baseline_name);
}

static int case_measure(struct comm_ranks *ranks, const struct bench_options *options, struct comm_found *found)
{
    enum operation operation = ranks->setting.operation;
    TRY(measure(ranks, options, found));
    found->has_other_bits =
        ranks->setting.comm && !ranks->setting.in_place && (operation == REDUCE_SCATTER || operation == ALL_REDUCE);
    if (!found->has_other_bits)
        return ERR_NONE;
    // What the last repetition left is verified first.
    TRY(comm_ranks_prepare(ranks, TASK_COLLECTIVE, false));
    return comm_ranks_count_other_bits(ranks, &found->other_bits);
}

int comm_case_run(const struct bench_options *options, const struct comm_setting *setting)
{
    const char *name = comm_ranks_operation_name(setting->operation);
    bench_progress("comm %s, %zu bytes, %d ranks", name, setting->count * sizeof(float), setting->world);
    struct comm_ranks ranks;
    struct comm_found found = {.begin_ns = bench_now_ns()};
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
    TRY(comm_print_canonical(options, &ranks, &found));
    return setting->comm ? comm_print_native(options, &ranks, &found) : ERR_NONE;
}

// One operation at one size: out of place in equal shares, then, where it is large enough, uneven, and in place.
static int cases_run(const struct selection *selection, enum operation operation, size_t bytes)
{
    const struct bench_options *options = &selection->options;
    struct comm_setting setting = {.comm = bench_world_comm(),
                                   .device = selection->device.accelerator ? &selection->device : NULL,
                                   .operation = operation,
                                   .world = selection->world,
                                   .asked_bytes = bytes,
                                   .count = bytes / sizeof(float)};
    TRY(comm_case_run(options, &setting));
    if (bytes < VARIED_MIN_BYTES)
        return ERR_NONE;
    struct comm_setting uneven = setting, in_place = setting;
    uneven.uneven = true;
    in_place.in_place = true;
    if (comm_ranks_has_shards(operation))
        TRY(comm_case_run(options, &uneven));
    return comm_ranks_has_in_place(operation) ? comm_case_run(options, &in_place) : ERR_NONE;
}

// Refuses what cannot be measured.
static int selection_check(struct selection *selection)
{
    TRY(bench_world_choose(&selection->world, 2, WORLD_MAX));
    if (selection->options.thread_count > 0)
        return err_set(ERR_USAGE, "--threads: every rank is one thread here; --world says how many");
    bool known = !selection->operation;
    for (enum operation operation = 0; operation < OPERATION_KINDS && !known; operation++)
        known = strcmp(selection->operation, comm_ranks_operation_name(operation)) == 0;
    if (!known)
        return err_set(ERR_USAGE,
                       "unknown operation '%s'; known are reduce-scatter, all-gather, all-reduce, "
                       "all-to-all, broadcast",
                       selection->operation);
    return ERR_NONE;
}

static void selection_complete(struct selection *selection)
{
    struct bench_options *options = &selection->options;
    bool apart = selection->device.accelerator;
    static const size_t sizes[] = {8, 256, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 256 << 20};
    static const size_t quick_sizes[] = {8, 64 << 10, 4 << 20};
    bench_default_sizes(options, options->quick ? quick_sizes : sizes, options->quick ? 3 : apart ? 8 : 7);
    bench_default_repeat(options, 15, 7, 1);
}

// What ranks that are threads have no library for, or no GPU of their own.
static int skip_native(const struct selection *selection)
{
    const char *why = "this binary was built without MPI, whose own order it would compare with";
    if (selection->device.accelerator)
        why = "with a GPU for each rank, mpirun -n N zerogauge bench comm --device cuda compares with NCCL's own order";
    else if (mpi_collective_library())
        why = "mpirun -n N zerogauge bench comm compares with MPI's own order";
    return bench_skip("comm_native: ranks that are threads add up in canonical order alone; %s", why);
}

static int all_cases_run(const struct selection *selection)
{
    const struct bench_options *options = &selection->options;
    if (!options->json)
        comm_print_header(selection->world, &selection->device);
    for (enum operation operation = 0; operation < OPERATION_KINDS; operation++) {
        if (selection->operation && strcmp(selection->operation, comm_ranks_operation_name(operation)) != 0)
            continue;
        for (size_t i = 0; i < options->size_count; i++)
            TRY(cases_run(selection, operation, options->sizes[i]));
    }
    return bench_world_comm() ? ERR_NONE : skip_native(selection);
}

// device: null is the one that the user named, on which the processes of a launcher then meet.
static int comm_bench(const struct bench_device *device, struct selection *selection)
{
    bool absent = false;
    TRY(selection_check(selection));
    if (device)
        selection->device = *device;
    else
        TRY(bench_world_find_device(selection->device_name, selection->world, &selection->device, &absent));
    if (absent)
        return bench_skip("comm: %s", err_message());
    selection_complete(selection);
    return all_cases_run(selection);
}

int bench_comm_on(const struct bench_device *device, int argc, const char **argv)
{
    struct selection selection = {.world = BENCH_WORLD_UNSAID};
    struct poptOption own[] = {
        {"world", '\0', POPT_ARG_INT, &selection.world, 0,
         "ranks (2, or the launcher's); --sizes are bytes of the whole buffer", "N"},
        {"device", '\0', POPT_ARG_STRING, &selection.device_name, 0, "where buffers are: cpu, unless given; cuda",
         "WHICH"},
        {"operation", '\0', POPT_ARG_STRING, &selection.operation, 0,
         "one of reduce-scatter, all-gather, all-reduce, all-to-all, broadcast", "NAME"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_comm, own, &selection.options);
    if (code == ERR_NONE && !selection.options.help)
        code = comm_bench(device, &selection);
    bench_release(&selection.options);
    free(selection.operation);
    free(selection.device_name);
    return bench_exit("comm", code);
}

static int comm_main(int argc, const char **argv)
{
    return bench_comm_on(NULL, argc, argv);
}
