// SPDX-License-Identifier: Apache-2.0
// Storage: how fast the NVMe tier's engines move blocks, against fio on the same folders with the same block size,
// depth, engine and direction, in turn with it; how late single requests are; and what the tier's checksums cost.
#include "bench/storage/bench_nvme.h"

#include "base/err.h"
#include "base/size.h"

#include <popt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int nvme_main(int argc, const char **argv);

const struct benchmark bench_nvme = {
    .name = "nvme",
    .run = nvme_main,
    .uses = BENCH_USES_STORAGE,
    .summary = "storage: GB/s and latency against fio, and what checksums cost",
    .examples = {"zerogauge bench nvme --nvme-path /mnt/nvme --size 4G",
                 "zerogauge bench nvme --quick --direction read"},
};

// GB/s of one run of our own. What was written is read back, and compared, after the clock has stopped.
static int run_ours(struct nvme_bench *bench, struct stream stream, double *out, uint64_t *least_bytes)
{
    struct stream_result result;
    stream.files = &bench->files;
    stream.emulation = &bench->emulation;
    TRY(stream_run(&stream, &result));
    free(result.latencies_ns);
    *out = (double)result.bytes / (double)result.ns;
    *least_bytes = result.bytes < *least_bytes ? result.bytes : *least_bytes;
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

// Runs are of equal time: each moves least_bytes at least.
static int measure(struct nvme_bench *bench, const struct stream *stream, struct bench_samples *ours,
                   struct bench_samples *fios, uint64_t *least_bytes)
{
    size_t warmup = bench->options.warmup, repeat = bench->options.repeat;
    ours->count = fios->count = 0;
    *least_bytes = UINT64_MAX;
    for (size_t i = 0; i < warmup + repeat; i++) {
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
    // What was written has been compared after each run.
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

// The rates of those lanes that the stream uses; none is throttled where it uses no such lane.
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
                                  .verified = true,
                                  .items = (double)least_bytes,
                                  // fio's runs are of the same time: the bytes of its slowest.
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
        printf("of fio   %-6s %-9s %9s %6s %9s %18s %9s\n", "", "engine", "block", "depth", "GB/s", "(10 % to 90 %)",
               "fio");
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
                    TRY(case_run(bench, &stream));
                }
    return ERR_NONE;
}

// What the user said, as popt stores it.
struct given {
    char *size, *depths, *direction, *emulate;
    double seconds;
    int no_fio;
};

static int choose_engines(struct nvme_bench *bench, const char *name)
{
    bool all = !name || strcmp(name, "all") == 0, found = false;
    enum nvme_engine wanted = NVME_ENGINE_COUNT;
    if (!all)
        TRY(io_engine_parse(name, &wanted));
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++) {
        if (!all && engine != (int)wanted)
            continue;
        struct io_queue *queue;
        int code = io_queue_open(io_engine_of((enum nvme_engine)engine), 1, &queue);
        if (code != ERR_NONE && !all)
            return code;
        if (code != ERR_NONE)
            fprintf(stderr, "zerogauge bench nvme: not measured: %s\n", err_message());
        else
            io_queue_close(queue);
        bench->engines[engine] = code == ERR_NONE;
        found |= code == ERR_NONE;
    }
    return found ? ERR_NONE : err_set(ERR_IO, "the kernel offers neither libaio nor io_uring");
}

static int choose_directions(struct nvme_bench *bench, const char *name)
{
    bool found = false;
    for (int i = 0; i < STREAM_DIRECTION_COUNT; i++) {
        bench->directions[i] = name ? strcmp(name, stream_direction_name((enum stream_direction)i)) == 0
                                    : i != STREAM_MIXED || !bench->options.quick;
        found |= bench->directions[i];
    }
    return found ? ERR_NONE : err_set(ERR_USAGE, "--direction %s: read, write or mixed", name);
}

static int choose_numbers(struct nvme_bench *bench, const struct given *given)
{
    struct bench_options *options = &bench->options;
    if (options->thread_count > 0)
        return err_set(ERR_USAGE, "--threads: requests are kept in flight by one thread here, as by fio");
    if (given->seconds < 0 || given->seconds > 3600)
        return err_set(ERR_USAGE, "--seconds %g: up to 3600", given->seconds);
    bench->seconds = given->seconds > 0 ? given->seconds : options->quick ? 0.4 : 3;
    bench->bytes = options->quick ? 256 << 20 : 1 << 30;
    if (given->size)
        TRY(size_parse(given->size, &bench->bytes));
    if (bench->bytes < 1 << 20 || bench->bytes % (1 << 20) != 0 || bench->bytes > UINT64_C(1) << 46)
        return err_set(ERR_USAGE, "--size %s: whole MiB, from 1 up", given->size);
    bench_default_sizes(options, (const size_t[]){1 << 20, 128 << 10}, options->quick ? 1 : 2);
    bench_default_repeat(options, 5, 3, 0);
    for (size_t i = 0; i < options->size_count; i++)
        if (options->sizes[i] % IO_ALIGNMENT != 0 || bench->bytes % options->sizes[i] != 0)
            return err_set(ERR_USAGE, "--sizes %zu: requests are multiples of %d that divide --size (%llu)",
                           options->sizes[i], IO_ALIGNMENT, (unsigned long long)bench->bytes);
    bench->depths[0] = 32;
    bench->depth_count = 1;
    if (given->depths)
        TRY(bench_parse_sizes(given->depths, bench->depths, &bench->depth_count));
    for (size_t i = 0; i < bench->depth_count; i++)
        if (bench->depths[i] > IO_DEPTH_MAX)
            return err_set(ERR_USAGE, "--depths %zu: up to %d", bench->depths[i], IO_DEPTH_MAX);
    return ERR_NONE;
}

static int choose(struct nvme_bench *bench, const struct given *given)
{
    const char *engine = bench->options.storage.engine;
    TRY(choose_numbers(bench, given));
    TRY(choose_engines(bench, engine ? engine : bench->options.quick ? "libaio" : NULL));
    TRY(choose_directions(bench, given->direction));
    if (given->emulate)
        TRY(emulation_parse(given->emulate, &bench->emulation));
    if (!given->no_fio && fio_version(bench->fio) != ERR_NONE) {
        bench->fio[0] = '\0';
        fprintf(stderr, "zerogauge bench nvme: no baseline: %s\n", err_message());
    }
    return ERR_NONE;
}

static void print_header(const struct nvme_bench *bench)
{
    char size[SIZE_TEXT_BYTES], emulated[EMULATION_TEXT_BYTES];
    printf("files of %s in", size_short_text(bench->bytes, size));
    for (int i = 0; i < bench->options.storage.path_count; i++)
        printf(" %s", bench->options.storage.paths[i]);
    if (emulation_any(&bench->emulation))
        printf(" EMULATED %s", emulation_text(&bench->emulation, emulated));
    printf("%s\nevery block verified; medians of %zu runs of %g s, in turn with %s\n",
           bench->options.storage.buffered ? " BUFFERED: through the page cache" : "", bench->options.repeat,
           bench->seconds, bench->fio[0] ? bench->fio : "nothing: without fio there is no ratio");
}

// All files have contents before anything is measured: reading what was never written takes no disk.
static int files_open(struct nvme_bench *bench)
{
    const struct bench_storage *of = &bench->options.storage;
    bench_progress("nvme: writing the files");
    TRY(nvme_files_open(of->paths, of->path_count, bench->bytes, of->buffered, &bench->files));
    if (bench->fio[0]) {
        TRY(nvme_files_open(of->paths, of->path_count, bench->bytes, of->buffered, &bench->fio_files));
        TRY(stream_all(&bench->fio_files, STREAM_WRITE));
    }
    return stream_all(&bench->files, STREAM_WRITE);
}

static int nvme_bench_run(struct nvme_bench *bench, const struct given *given)
{
    TRY(choose(bench, given));
    int code = files_open(bench);
    if (code == ERR_NONE && !bench->options.json)
        print_header(bench);
    if (code == ERR_NONE)
        code = nvme_rates_run(bench);
    if (code == ERR_NONE)
        code = nvme_latencies_run(bench);
    nvme_files_close(&bench->files);
    nvme_files_close(&bench->fio_files);
    if (code == ERR_NONE)
        code = nvme_checksums_run(bench);
    return code;
}

static int nvme_main(int argc, const char **argv)
{
    struct given given = {0};
    struct nvme_bench bench = {0};
    const struct poptOption own[] = {
        {"size", '\0', POPT_ARG_STRING, &given.size, 0, "of the file in each folder (1G); fio has one more", "SIZE"},
        {"seconds", '\0', POPT_ARG_DOUBLE, &given.seconds, 0, "of each run (3; quickly 0.4)", "S"},
        {"depths", '\0', POPT_ARG_STRING, &given.depths, 0, "requests in flight (32); --sizes are theirs", "8,32"},
        {"direction", '\0', POPT_ARG_STRING, &given.direction, 0, "one of these alone", "read|write|mixed"},
        {"emulate", '\0', POPT_ARG_STRING, &given.emulate, 0, "throttle the rates: nvme-read=0.5,nvme-write=0.2 GB/s",
         "LIST"},
        {"no-fio", '\0', POPT_ARG_NONE, &given.no_fio, 0, "without fio", NULL},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_nvme, own, &bench.options);
    if (code == ERR_NONE && !bench.options.help)
        code = nvme_bench_run(&bench, &given);
    bench_release(&bench.options);
    free(given.size);
    free(given.depths);
    free(given.direction);
    free(given.emulate);
    return bench_exit("nvme", code);
}
