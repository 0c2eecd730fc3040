// SPDX-License-Identifier: Apache-2.0
// GB/s of reads, writes and both by engine, block size and depth, in turn with fio.
#include "bench/storage/bench_nvme.h"

#include "base/err.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>

// Runs a stream. *out: its GB/s. Data that was written is read back and verified, untimed.
static int run_ours(struct nvme_bench *bench, struct stream stream, double *out, uint64_t *least_bytes)
{
    struct stream_result result;
    stream.files = &bench->files;
    stream.emulation = &bench->emulation;
    TRY(stream_run(&stream, &result));
    free(result.latencies_ns);
    *out = (double)result.bytes / (double)result.ns;
    *least_bytes = result.bytes < *least_bytes ? result.bytes : *least_bytes;
    if (stream.direction == STREAM_WRITE)
        return stream_read_back(&bench->files, result.bytes, stream.block_bytes);
    return stream.direction == STREAM_READ ? ERR_NONE : stream_all(&bench->files, STREAM_READ);
}

static int run_fio(struct nvme_bench *bench, struct stream stream, double *out)
{
    struct fio_result result;
    stream.files = &bench->fio_files;
    TRY(fio_run(&stream, bench->options.storage.buffered, &result));
    *out = result.bytes_per_ns;
    return ERR_NONE;
}

// Measures the stream in turn with fio. *least_bytes: of the slowest of our runs.
static int measure(struct nvme_bench *bench, const struct stream *stream, struct bench_samples *ours,
                   struct bench_samples *fios, uint64_t *least_bytes)
{
    size_t warmup = bench->options.warmup, repeat = bench->options.repeat;
    ours->count = fios->count = 0;
    *least_bytes = UINT64_MAX;
    for (size_t i = 0; bench_repeats(warmup, repeat, i); i++) {
        bench_progress("nvme %s, %zu bytes, %d in flight, %s: run %zu of %zu", stream_direction_name(stream->direction),
                       stream->block_bytes, stream->depth, io_engine_of(stream->engine)->name, i + 1, warmup + repeat);
        double rate, fio_rate = 0;
        TRY(run_ours(bench, *stream, &rate, least_bytes));
        if (bench->fio[0])
            TRY(run_fio(bench, *stream, &fio_rate));
        if (i < warmup)
            continue;
        ours->values[ours->count++] = rate;
        fios->values[fios->count++] = fio_rate;
    }
    // Written data has been verified after each run.
    return stream->direction == STREAM_READ ? stream_all(&bench->files, STREAM_READ) : ERR_NONE;
}

static void row_of(const struct bench_record *record, const struct stream *stream, char *out, size_t bytes)
{
    char block[SIZE_TEXT_BYTES], fio[32] = "-";
    if (record->baseline)
        snprintf(fio, sizeof fio, "%.3f", bench_median(record->baseline));
    snprintf(out, bytes, "%-6s %-9s %9s %6d %9.3f (%6.3f to %6.3f) %9s", stream_direction_name(stream->direction),
             io_engine_of(stream->engine)->name, size_short_text(stream->block_bytes, block), stream->depth,
             bench_median(record->samples), bench_quantile(record->samples, 0.1), bench_quantile(record->samples, 0.9),
             fio);
}

// Returns the emulated rates of the lanes that the stream uses.
static struct emulation emulation_of(const struct nvme_bench *bench, enum stream_direction direction)
{
    struct emulation used = {0};
    if (direction != STREAM_WRITE)
        used.bytes_per_s[LANE_NVME_READ] = bench->emulation.bytes_per_s[LANE_NVME_READ];
    if (direction != STREAM_READ)
        used.bytes_per_s[LANE_NVME_WRITE] = bench->emulation.bytes_per_s[LANE_NVME_WRITE];
    return used;
}

static json_t *case_json(const struct nvme_bench *bench, const struct stream *stream)
{
    char emulated[EMULATION_TEXT_BYTES], lanes[EMULATION_TEXT_BYTES + 16];
    const struct emulation emulation = emulation_of(bench, stream->direction);
    json_t *of_case =
        json_pack("{s:s, s:s, s:I, s:i, s:i, s:I, s:f, s:b}", "direction", stream_direction_name(stream->direction),
                  "engine", io_engine_of(stream->engine)->name, "block_bytes", (json_int_t)stream->block_bytes, "depth",
                  stream->depth, "paths", bench->options.storage.path_count, "file_bytes", (json_int_t)bench->bytes,
                  "seconds", bench->seconds, "buffered", bench->options.storage.buffered);
    if (of_case && emulation_any(&emulation)) {
        snprintf(lanes, sizeof lanes, "EMULATED %s", emulation_text(&emulation, emulated));
        json_object_set_new(of_case, "lanes", json_string(lanes));
    }
    return of_case;
}

static int case_run(struct nvme_bench *bench, const struct stream *stream)
{
    struct bench_samples ours, fios;
    uint64_t least_bytes, begin_ns = clock_now_ns();
    TRY(measure(bench, stream, &ours, &fios, &least_bytes));
    char row[160];
    struct bench_record record = {.name = "nvme",
                                  .description = case_json(bench, stream),
                                  .unit = "GB/s",
                                  .items = (double)least_bytes,
                                  // The bytes of fio's slowest run, which takes the same time.
                                  .baseline_items = bench->seconds * 1e9 * bench_quantile(&fios, 0),
                                  .begin_ns = begin_ns,
                                  .samples = &ours,
                                  .baseline_name = bench->fio,
                                  .baseline = bench->fio[0] ? &fios : NULL,
                                  .row = row};
    row_of(&record, stream, row, sizeof row);
    return bench_print(&bench->options, &record);
}

int nvme_rates_run(struct nvme_bench *bench)
{
    if (!bench->options.json)
        printf("ratio    %-6s %-9s %9s %6s %9s %18s %9s\n", "access", "engine", "block", "depth", "GB/s",
               "(10 % to 90 %)", "fio");
    struct stream stream = {.seconds = bench->seconds};
    for (int direction = 0; direction < STREAM_DIRECTION_COUNT; direction++)
        for (size_t size = 0; size < bench->options.size_count; size++)
            for (size_t depth = 0; depth < bench->depth_count; depth++)
                for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++) {
                    if (!bench->directions[direction] || !bench->engines[engine])
                        continue;
                    stream.direction = (enum stream_direction)direction;
                    stream.block_bytes = bench->options.sizes[size];
                    stream.depth = (int)bench->depths[depth];
                    stream.engine = (enum nvme_engine)engine;
                    if (bench_budget_next(&bench->options, "nvme", &bench->cases_left))
                        TRY(case_run(bench, &stream));
                }
    return ERR_NONE;
}
