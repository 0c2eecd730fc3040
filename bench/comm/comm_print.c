// SPDX-License-Identifier: Apache-2.0
// The records of a case of `bench comm`: the canonical order's, the library's own, and that in a graph.
#include "bench/comm/comm_case.h"

#include "base/err.h"
#include "bench/harness/bench_world.h"

#include <inttypes.h>
#include <stdio.h>

static void print_columns(const char *baseline_us, const char *last)
{
    printf("ratio    %-15s %-9s %11s %10s %21s %10s %9s %9s %6s  %s\n", "operation", "variant", "bytes", "us",
           "(10 % to 90 %)", baseline_us, "alg GB/s", "bus GB/s", "wrong", last);
}

void comm_print_header(int world, enum dtype dtype, const struct bench_device *device)
{
    bool nccl = device->accelerator;
    const char *in = dtype == DTYPE_FP32 ? "" : ", in ", *name = dtype == DTYPE_FP32 ? "" : dtype_name(dtype);
    if (bench_world_comm()) {
        printf(
            "%d ranks on %d host%s%s%s%s; medians, and the time of %s own order in percent of the canonical order's\n",
            world, bench_world_host_count(), bench_world_host_count() == 1 ? "" : "s", nccl ? ", each with a GPU" : "",
            in, name, nccl ? "NCCL's" : "MPI's");
        print_columns(nccl ? "NCCL's us" : "MPI's us", "library, elements whose bits differ");
        return;
    }
    printf("%d ranks", world);
    if (device->accelerator)
        printf(" on %d device%s (%s)", device->count, device->count == 1 ? "" : "s", bench_device_name(device));
    printf("%s%s; medians, and the time of concurrent copies of the same bytes in percent of the collective's\n", in,
           name);
    print_columns("copies us", "baseline");
}

static const char *variant_of(const struct comm_setting *setting)
{
    return setting->in_place ? "in place" : setting->uneven ? "uneven" : "";
}

// The column of wrong elements is always 0: a case with any is an error and has no row. Returns its length.
static int row_of(const struct comm_found *found, const struct comm_ranks *ranks, const char *variant,
                  const struct bench_samples *samples, const struct bench_samples *baselines, char *out, size_t bytes)
{
    const struct comm_setting *setting = &ranks->setting;
    double buffer_bytes = (double)(setting->count * dtype_bytes(setting->dtype)), median = bench_median(samples);
    return snprintf(out, bytes, "%-15s %-9s %11.0f %10.2f %10.2f %10.2f %10.2f %9.2f %9.2f %6d  %s",
                    comm_ranks_operation_name(setting->operation), variant, buffer_bytes, median / 1e3,
                    bench_quantile(samples, 0.1) / 1e3, bench_quantile(samples, 0.9) / 1e3,
                    bench_median(baselines) / 1e3, buffer_bytes / median, found->bus_bytes / median, 0,
                    found->baseline_name);
}

json_t *comm_case_json(const struct comm_setting *setting, const char *order)
{
    const char *processes = setting->device ? "nccl" : "mpi";
    json_t *of_case =
        json_pack("{s:s, s:s, s:i, s:s, s:I, s:I, s:s, s:b, s:s}", "transport", setting->comm ? processes : "local",
                  "operation", comm_ranks_operation_name(setting->operation), "world", setting->world, "dtype",
                  dtype_name(setting->dtype), "asked_bytes", (json_int_t)setting->asked_bytes, "buffer_bytes",
                  (json_int_t)(setting->count * dtype_bytes(setting->dtype)), "shares",
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
                     (double)(ranks->setting.count * dtype_bytes(ranks->setting.dtype)) / median, "bus_gb_per_s",
                     found->bus_bytes / median, "wrong", 0);
}

static int print_canonical(const struct bench_options *options, const struct comm_ranks *ranks,
                           const struct comm_found *found)
{
    char row[256];
    struct bench_record record = {.name = "comm",
                                  .description = comm_case_json(&ranks->setting, "canonical"),
                                  .detail = detail_of(ranks, found, &found->samples),
                                  .unit = "ns",
                                  .lower_is_better = true,
                                  .items = (double)ranks->calls,
                                  .begin_ns = found->begin_ns,
                                  .samples = &found->samples,
                                  .baseline_name = found->baseline_name,
                                  .baseline = &found->baselines,
                                  .row = row};
    int used = row_of(found, ranks, variant_of(&ranks->setting), &found->samples, &found->baselines, row, sizeof row);
    if (found->has_other_bits)
        snprintf(row + used, sizeof row - (size_t)used, ", %" PRIu64, found->other_bits);
    return bench_print(options, &record);
}

static int print_native(const struct bench_options *options, const struct comm_ranks *ranks,
                        const struct comm_found *found)
{
    struct bench_record record = {.name = "comm_native",
                                  .description = comm_case_json(&ranks->setting, "native"),
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

// The library's own collective in a graph, against the same calls one by one, each of which is waited for.
static int print_graph(const struct bench_options *options, const struct comm_ranks *ranks,
                       const struct comm_found *found)
{
    char row[256], baseline[64];
    snprintf(baseline, sizeof baseline, "%s, called", found->baseline_name);
    struct bench_record record = {.name = "comm_graph",
                                  .description = comm_case_json(&ranks->setting, "native"),
                                  .detail = detail_of(ranks, found, &found->in_graph),
                                  .unit = "ns",
                                  .lower_is_better = true,
                                  .items = (double)ranks->calls,
                                  .begin_ns = found->begin_ns,
                                  .samples = &found->in_graph,
                                  .baseline_name = baseline,
                                  .baseline = &found->called,
                                  .row = row};
    row_of(found, ranks, "graph", &found->in_graph, &found->called, row, sizeof row);
    if (record.description)
        json_object_set_new(record.description, "graph", json_true());
    if (record.detail)
        json_object_set_new(record.detail, "calls_a_graph", json_integer((json_int_t)found->graph_calls));
    return bench_print(options, &record);
}

int comm_print(const struct bench_options *options, const struct comm_ranks *ranks, const struct comm_found *found)
{
    TRY(print_canonical(options, ranks, found));
    TRY(ranks->setting.comm ? print_native(options, ranks, found) : ERR_NONE);
    return found->graph_calls > 0 ? print_graph(options, ranks, found) : ERR_NONE;
}
