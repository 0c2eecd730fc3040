// SPDX-License-Identifier: Apache-2.0
// The latency of single requests: one in flight, 4 KiB, at random offsets.
#include "bench/storage/bench_nvme.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUEST_BYTES = 4096 };

// The latencies of all runs of a case, and percentiles of each run.
struct latencies {
    uint64_t *ns;
    size_t count;
    struct bench_samples medians_us, fio_us[FIO_PERCENTILE_COUNT];
};

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

// Returns the smallest of the sorted values that this percentage of them does not exceed.
static double percentile_us(const uint64_t *sorted_ns, size_t count, double percent)
{
    size_t rank = (size_t)(percent / 100 * (double)count);
    return (double)sorted_ns[rank < count ? rank : count - 1] / 1e3;
}

static int run_ours(struct nvme_bench *bench, struct stream stream, struct latencies *all)
{
    struct stream_result result;
    stream.files = &bench->files;
    TRY(stream_run(&stream, &result));
    size_t count = result.request_count;
    uint64_t *larger = count == 0 ? NULL : realloc(all->ns, (all->count + count) * sizeof *larger);
    if (!larger) {
        free(result.latencies_ns);
        return err_set(ERR_IO, "no request ended within %g s, or out of memory", stream.seconds);
    }
    qsort(result.latencies_ns, count, sizeof(uint64_t), compare);
    all->medians_us.values[all->medians_us.count++] = percentile_us(result.latencies_ns, count, 50);
    memcpy(larger + all->count, result.latencies_ns, count * sizeof *larger);
    all->ns = larger;
    all->count += count;
    free(result.latencies_ns);
    return ERR_NONE;
}

static int run_fio(struct nvme_bench *bench, struct stream stream, struct latencies *all)
{
    struct fio_result result;
    stream.files = &bench->fio_files;
    TRY(fio_run(&stream, bench->options.storage.buffered, &result));
    for (int i = 0; i < FIO_PERCENTILE_COUNT; i++)
        all->fio_us[i].values[all->fio_us[i].count++] = result.percentiles_us[i];
    return ERR_NONE;
}

static int measure(struct nvme_bench *bench, const struct stream *stream, struct latencies *all)
{
    for (size_t i = 0; bench_repeats(0, bench->options.repeat, i); i++) {
        bench_progress("nvme latency, %s, %s: run %zu of %zu", stream_direction_name(stream->direction),
                       io_engine_of(stream->engine)->name, i + 1, bench->options.repeat);
        TRY(run_ours(bench, *stream, all));
        if (bench->fio[0])
            TRY(run_fio(bench, *stream, all));
    }
    qsort(all->ns, all->count, sizeof(uint64_t), compare);
    return stream->direction == STREAM_READ ? ERR_NONE : stream_all(&bench->files, STREAM_READ);
}

static void row_of(const struct nvme_bench *bench, const struct stream *stream, const struct latencies *all, char *out,
                   size_t bytes)
{
    int at = snprintf(out, bytes, "%-6s %-9s %8zu", stream_direction_name(stream->direction),
                      io_engine_of(stream->engine)->name, all->count);
    for (int i = 0; i < FIO_PERCENTILE_COUNT; i++)
        at += snprintf(out + at, bytes - (size_t)at, " %9.1f", percentile_us(all->ns, all->count, fio_percentiles[i]));
    for (int i = 0; i < FIO_PERCENTILE_COUNT && bench->fio[0]; i++)
        at += snprintf(out + at, bytes - (size_t)at, " %9.1f", bench_median(&all->fio_us[i]));
}

static json_t *case_json(const struct nvme_bench *bench, const struct stream *stream)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:b}", "direction", stream_direction_name(stream->direction), "engine",
                     io_engine_of(stream->engine)->name, "block_bytes", REQUEST_BYTES, "depth", 1, "paths",
                     bench->options.storage.path_count, "buffered", bench->options.storage.buffered);
}

static json_t *detail_json(const struct nvme_bench *bench, const struct latencies *all)
{
    json_t *ours = json_object(), *fios = bench->fio[0] ? json_object() : json_null();
    for (int i = 0; i < FIO_PERCENTILE_COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%g", fio_percentiles[i]);
        json_object_set_new(ours, name, json_real(percentile_us(all->ns, all->count, fio_percentiles[i])));
        if (bench->fio[0])
            json_object_set_new(fios, name, json_real(bench_median(&all->fio_us[i])));
    }
    return json_pack("{s:I, s:o, s:o}", "requests", (json_int_t)all->count, "percentiles_us", ours,
                     "fio_percentiles_us", fios);
}

// A sample is a run's median latency, of one item.
static int print(const struct nvme_bench *bench, const struct stream *stream, const struct latencies *all,
                 uint64_t begin_ns)
{
    char row[256];
    struct bench_record record = {.name = "nvme_latency",
                                  .description = case_json(bench, stream),
                                  .detail = detail_json(bench, all),
                                  .unit = "us",
                                  .lower_is_better = true,
                                  .items = 1,
                                  .begin_ns = begin_ns,
                                  .samples = &all->medians_us,
                                  .baseline_name = bench->fio,
                                  .baseline = bench->fio[0] ? &all->fio_us[0] : NULL,
                                  .row = row};
    row_of(bench, stream, all, row, sizeof row);
    return bench_print(&bench->options, &record);
}

static int case_run(struct nvme_bench *bench, const struct stream *stream)
{
    struct latencies *all = calloc(1, sizeof *all);
    if (!all)
        return err_set(ERR_MEMORY, "no memory for latencies");
    uint64_t begin_ns = clock_now_ns();
    int code = measure(bench, stream, all);
    if (code == ERR_NONE)
        code = print(bench, stream, all, begin_ns);
    free(all->ns);
    free(all);
    return code;
}

int nvme_latencies_run(struct nvme_bench *bench)
{
    if (!bench->options.json) {
        static const char columns[] = "      p50       p95       p99     p99.9";
        printf("\nlatency in us of one request of 4 KiB at a time, at random offsets%s\n",
               bench->fio[0] ? "; on the right fio's" : "");
        printf("ratio    %-6s %-9s %8s   %s%s%s\n", "access", "engine", "requests", columns, bench->fio[0] ? "   " : "",
               bench->fio[0] ? columns : "");
    }
    // Percentiles of single requests do not need long runs.
    struct stream stream = {.block_bytes = REQUEST_BYTES, .depth = 1, .random = true, .seconds = bench->seconds / 3};
    for (int direction = STREAM_READ; direction <= STREAM_WRITE; direction++)
        for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++) {
            stream.direction = (enum stream_direction)direction;
            stream.engine = (enum nvme_engine)engine;
            if (bench->directions[direction] && bench->engines[engine] &&
                bench_budget_next(&bench->options, "nvme", &bench->cases_left))
                TRY(case_run(bench, &stream));
        }
    return ERR_NONE;
}
