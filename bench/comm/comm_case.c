// SPDX-License-Identifier: Apache-2.0
// Measures one case of `bench comm`: chooses its baseline and the calls per repetition, verifies every result, and
// prints it.
#include "bench/comm/comm_case.h"

#include "base/err.h"
#include "bench/comm/native_collective.h"
#include "bench/harness/bench_world.h"

#include <inttypes.h>
#include <stdio.h>

// The measurements of a case.
struct comm_found {
    struct bench_samples samples, baselines;
    const char *baseline_name;
    uint64_t begin_ns;
    uint64_t other_bits;  // elements whose bits differ between both orders, if has_other_bits
    double bus_bytes;
    bool has_other_bits;
};

static void print_columns(const char *baseline_us, const char *last)
{
    printf("ratio    %-15s %-9s %11s %10s %21s %10s %9s %9s %6s  %s\n", "operation", "variant", "bytes", "us",
           "(10 % to 90 %)", baseline_us, "alg GB/s", "bus GB/s", "wrong", last);
}

void comm_print_header(int world, const struct bench_device *device)
{
    bool nccl = device->accelerator;
    if (bench_world_comm()) {
        printf("%d ranks on %d host%s%s; medians, and the time of %s own order in percent of the canonical order's\n",
               world, bench_world_host_count(), bench_world_host_count() == 1 ? "" : "s",
               nccl ? ", each with a GPU" : "", nccl ? "NCCL's" : "MPI's");
        print_columns(nccl ? "NCCL's us" : "MPI's us", "library, elements whose bits differ");
        return;
    }
    printf("%d ranks", world);
    if (device->accelerator)
        printf(" on %d device%s (%s)", device->count, device->count == 1 ? "" : "s", bench_device_name(device));
    printf("; medians, and the time of concurrent copies of the same bytes in percent of the collective's\n");
    print_columns("copies us", "baseline");
}

// The column of wrong elements is always 0: a case with any is an error and has no row.
static void row_of(const struct comm_found *found, const struct comm_ranks *ranks, char *out, size_t bytes)
{
    const struct comm_setting *setting = &ranks->setting;
    double buffer_bytes = (double)(setting->count * sizeof(float)), median = bench_median(&found->samples);
    int used = snprintf(out, bytes, "%-15s %-9s %11.0f %10.2f %10.2f %10.2f %10.2f %9.2f %9.2f %6d  %s",
                        comm_ranks_operation_name(setting->operation),
                        setting->in_place ? "in place"
                        : setting->uneven ? "uneven"
                                          : "",
                        buffer_bytes, median / 1e3, bench_quantile(&found->samples, 0.1) / 1e3,
                        bench_quantile(&found->samples, 0.9) / 1e3, bench_median(&found->baselines) / 1e3,
                        buffer_bytes / median, found->bus_bytes / median, 0, found->baseline_name);
    if (found->has_other_bits)
        snprintf(out + used, bytes - (size_t)used, ", %" PRIu64, found->other_bits);
}

static json_t *description_of(const struct comm_setting *setting, const char *order)
{
    const char *processes = setting->device ? "nccl" : "mpi";
    json_t *of_case = json_pack(
        "{s:s, s:s, s:i, s:s, s:I, s:I, s:s, s:b, s:s}", "transport", setting->comm ? processes : "local", "operation",
        comm_ranks_operation_name(setting->operation), "world", setting->world, "dtype", "fp32", "asked_bytes",
        (json_int_t)setting->asked_bytes, "buffer_bytes", (json_int_t)(setting->count * sizeof(float)), "shares",
        setting->uneven ? "uneven" : "equal", "in_place", setting->in_place, "order", order);
    if (setting->device && of_case) {
        struct bench_device device = *setting->device;
        device.count = setting->comm ? setting->world : device.count;  // each process has its own
        bench_device_describe(&device, of_case);
    }
    return of_case;
}

static json_t *detail_of(const struct comm_ranks *ranks, const struct comm_found *found,
                         const struct bench_samples *samples)
{
    double median = bench_median(samples);
    return json_pack("{s:f, s:f, s:f, s:i}", "bus_bytes", found->bus_bytes, "algorithm_gb_per_s",
                     (double)(ranks->setting.count * sizeof(float)) / median, "bus_gb_per_s", found->bus_bytes / median,
                     "wrong", 0);
}

static int print_canonical(const struct bench_options *options, const struct comm_ranks *ranks,
                           const struct comm_found *found)
{
    char row[256];
    struct bench_record record = {.name = "comm",
                                  .description = description_of(&ranks->setting, "canonical"),
                                  .detail = detail_of(ranks, found, &found->samples),
                                  .unit = "ns",
                                  .lower_is_better = true,
                                  .items = (double)ranks->calls,
                                  .begin_ns = found->begin_ns,
                                  .samples = &found->samples,
                                  .baseline_name = found->baseline_name,
                                  .baseline = &found->baselines,
                                  .row = row};
    row_of(found, ranks, row, sizeof row);
    return bench_print(options, &record);
}

static int print_native(const struct bench_options *options, const struct comm_ranks *ranks,
                        const struct comm_found *found)
{
    struct bench_record record = {.name = "comm_native",
                                  .description = description_of(&ranks->setting, "native"),
                                  .detail = detail_of(ranks, found, &found->baselines),
                                  .unit = "ns",
                                  .lower_is_better = true,
                                  .items = (double)ranks->calls,
                                  .begin_ns = found->begin_ns,
                                  .samples = &found->baselines,
                                  .tabled = true};
    if (record.detail)
        json_object_set_new(record.detail, "library", json_string(found->baseline_name));
    if (record.detail && found->has_other_bits)
        json_object_set_new(record.detail, "other_bits", json_integer((json_int_t)found->other_bits));
    return bench_print(options, &record);
}

enum {
    CALLS_MAX = 4096,  // per repetition
    TRIALS = 5,
    SMALL_BYTES = 64 << 10,         // below, a barrier takes a visible share of the time
    DEVICE_SMALL_BYTES = 32 << 20,  // a GPU copies this in a few microseconds, as long as it takes to wait for it
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

// Doubles the calls until a sample is long enough, by the shortest of a few trials. In place there is one call per
// repetition, because it changes the input of the next.
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

// Measures against the library's own collective, whose results are verified, too.
static int measure_processes(struct comm_ranks *ranks, const struct bench_options *options,
                             struct bench_samples *samples, struct bench_samples *baselines)
{
    struct work collective = {ranks, TASK_COLLECTIVE}, native = {ranks, TASK_NATIVE};
    struct bench_work work = work_of(&collective, "collective"), native_work = work_of(&native, "the library's own");
    TRY(poisoned_repetition(ranks));
    TRY(choose_calls(ranks, &work));
    TRY(bench_alternate(&work, &native_work, options->warmup, options->repeat, (double)ranks->calls, samples,
                        baselines));
    TRY(comm_ranks_prepare(ranks, TASK_NATIVE, true));
    TRY(comm_ranks_repeat(ranks));
    return poisoned_repetition(ranks);
}

// Measures against copies on the device. For small buffers each copy follows a barrier, which on a device waits for the
// copies before it.
static int measure_on_device(struct comm_ranks *ranks, const struct bench_options *options,
                             struct bench_samples *samples, struct bench_samples *baselines, const char **baseline_name)
{
    bool small = ranks->setting.count * sizeof(float) < DEVICE_SMALL_BYTES;
    struct work collective = {ranks, TASK_COLLECTIVE}, copies = {ranks, small ? TASK_MEET_AND_COPY : TASK_COPY};
    struct bench_work work = work_of(&collective, "collective");
    struct bench_work baseline =
        work_of(&copies, small ? "a barrier and copies on the device" : "copies on the device");
    *baseline_name = baseline.name;
    TRY(poisoned_repetition(ranks));
    TRY(choose_calls(ranks, &work));
    TRY(bench_alternate(&work, &baseline, options->warmup, options->repeat, (double)ranks->calls, samples, baselines));
    return poisoned_repetition(ranks);
}

// Measures against the faster of memcpy and non-temporal copies, chosen by trial; for small buffers against a barrier
// and memcpy.
static int measure_on_host(struct comm_ranks *ranks, const struct bench_options *options, struct bench_samples *samples,
                           struct bench_samples *baselines, const char **baseline_name)
{
    struct work collective = {ranks, TASK_COLLECTIVE}, plain = {ranks, TASK_COPY};
    struct work around = {ranks, TASK_COPY_AROUND_CACHE}, meet = {ranks, TASK_MEET_AND_COPY};
    struct bench_work work = work_of(&collective, "collective"), memcpy_work = work_of(&plain, "memcpy");
    struct bench_work around_work = work_of(&around, "copy around the caches");
    struct bench_work meet_work = work_of(&meet, "a line from each rank and memcpy");
    TRY(poisoned_repetition(ranks));
    TRY(choose_calls(ranks, &work));
    double calls = (double)ranks->calls;
    TRY(bench_alternate(&memcpy_work, &around_work, 1, TRIALS, calls, samples, baselines));
    bool small = ranks->setting.count * sizeof(float) < SMALL_BYTES;
    bool around_is_faster = bench_quantile(baselines, 0) < bench_quantile(samples, 0);
    const struct bench_work *baseline = small ? &meet_work : around_is_faster ? &around_work : &memcpy_work;
    *baseline_name = baseline->name;
    TRY(bench_alternate(&work, baseline, options->warmup, options->repeat, calls, samples, baselines));
    return poisoned_repetition(ranks);
}

// Every result is verified. The first and the last are written to poisoned memory, so that missing elements show.
static int measure(struct comm_ranks *ranks, const struct bench_options *options, struct comm_found *found)
{
    const struct comm_setting *setting = &ranks->setting;
    if (setting->comm) {
        found->baseline_name = setting->device ? nccl_collective_library(setting->comm) : mpi_collective_library();
        return measure_processes(ranks, options, &found->samples, &found->baselines);
    }
    return (setting->device ? measure_on_device : measure_on_host)(ranks, options, &found->samples, &found->baselines,
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
    // Verify the last repetition before its result is overwritten.
    TRY(comm_ranks_prepare(ranks, TASK_COLLECTIVE, false));
    return comm_ranks_count_other_bits(ranks, &found->other_bits);
}

int comm_case_run(const struct bench_options *options, const struct comm_setting *setting)
{
    const char *name = comm_ranks_operation_name(setting->operation);
    bench_progress("comm %s, %zu bytes, %d ranks", name, setting->count * sizeof(float), setting->world);
    struct comm_ranks ranks;
    struct comm_found found = {.begin_ns = clock_now_ns()};
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
