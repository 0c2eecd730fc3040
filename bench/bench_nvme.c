// SPDX-License-Identifier: Apache-2.0
// Storage: how fast the NVMe tier's engines move blocks, against fio on the same folders with the same block size,
// depth, engine and direction, in turn with it; how late single requests are; and what the tier's checksums cost.
#include "bench_nvme.h"

#include "err.h"
#include "size.h"

#include <popt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// GB/s of one run of our own. What was written is read back, and compared, after the clock has stopped.
static int run_ours(struct nvme_bench *bench, struct stream stream, double *out)
{
    struct stream_result result;
    stream.files = &bench->files;
    TRY(stream_run(&stream, &result));
    free(result.latencies_ns);
    *out = (double)result.bytes / (double)result.ns;
    return stream.direction == STREAM_READ ? ERR_NONE : stream_all(&bench->files, STREAM_READ);
}

static int run_fio(struct nvme_bench *bench, struct stream stream, double *out)
{
    struct fio_result result;
    stream.files = &bench->fio_files;
    TRY(fio_run(&stream, bench->buffered, &result));
    *out = result.bytes_per_ns;
    return ERR_NONE;
}

static int measure(struct nvme_bench *bench, const struct stream *stream, struct bench_samples *ours,
                   struct bench_samples *fios)
{
    size_t warmup = bench->options.warmup, repeat = bench->options.repeat;
    ours->count = fios->count = 0;
    for (size_t i = 0; i < warmup + repeat; i++) {
        bench_progress("nvme %s, %zu bytes, %d in flight, %s: run %zu of %zu",
                       stream_direction_name(stream->direction), stream->block_bytes, stream->depth,
                       io_engine_of(stream->engine)->name, i + 1, warmup + repeat);
        double rate, fio_rate = 0;
        TRY(run_ours(bench, *stream, &rate));
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

static int print_row(struct bench_record *record, const struct stream *stream)
{
    char block[SIZE_TEXT_BYTES];
    bench_progress("%s", "");
    printf("%-6s %-9s %9s %6d %9.3f (%6.3f to %6.3f)", stream_direction_name(stream->direction),
           io_engine_of(stream->engine)->name, size_short_text(stream->block_bytes, block), stream->depth,
           bench_median(record->samples), bench_quantile(record->samples, 0.1), bench_quantile(record->samples, 0.9));
    if (record->yardstick)
        printf(" %9.3f %7.3f\n", bench_median(record->yardstick), bench_ratio(record));
    else
        printf(" %9s %7s\n", "-", "-");
    json_decref(record->description);
    return fflush(stdout) == EOF ? err_set(ERR_IO, "cannot write the result") : ERR_NONE;
}

static int case_run(struct nvme_bench *bench, const struct stream *stream)
{
    struct bench_samples ours, fios;
    TRY(measure(bench, stream, &ours, &fios));
    json_t *description = json_pack("{s:s, s:s, s:I, s:i, s:i, s:I, s:f, s:b}", "direction",
                                    stream_direction_name(stream->direction), "engine",
                                    io_engine_of(stream->engine)->name, "block_bytes",
                                    (json_int_t)stream->block_bytes, "depth", stream->depth, "paths", bench->path_count,
                                    "file_bytes", (json_int_t)bench->bytes, "seconds", bench->seconds, "buffered",
                                    bench->buffered);
    if (!description)
        return err_set(ERR_MEMORY, "no memory for a result line");
    struct bench_record record = {.name = "nvme",
                                  .description = description,
                                  .unit = "GB/s",
                                  .verified = true,
                                  .samples = &ours,
                                  .yardstick_name = bench->fio,
                                  .yardstick = bench->fio[0] ? &fios : NULL};
    return bench->options.json ? bench_print_json(&record) : print_row(&record, stream);
}

int nvme_rates_run(struct nvme_bench *bench)
{
    if (!bench->options.json)
        printf("%-6s %-9s %9s %6s %9s %18s %9s %7s\n", "", "engine", "block", "depth", "GB/s", "(10 % to 90 %)", "fio",
               "ratio");
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
    char **paths;
    char *size, *depths, *engine, *direction;
    double seconds;
    int buffered, no_fio;
};

static void given_release(struct given *given)
{
    for (int i = 0; given->paths && given->paths[i]; i++)
        free(given->paths[i]);
    free(given->paths);
    free(given->size);
    free(given->depths);
    free(given->engine);
    free(given->direction);
}

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
        int code = io_queue_open(io_engine_of((enum nvme_engine)engine), 1, NULL, &queue);
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
        bench->directions[i] = !name || strcmp(name, stream_direction_name((enum stream_direction)i)) == 0;
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
    bench->seconds = given->seconds > 0 ? given->seconds : options->quick ? 1 : 3;
    bench->bytes = options->quick ? 256 << 20 : 1 << 30;
    if (given->size)
        TRY(size_parse(given->size, &bench->bytes));
    if (bench->bytes < 1 << 20 || bench->bytes % (1 << 20) != 0 || bench->bytes > UINT64_C(1) << 46)
        return err_set(ERR_USAGE, "--size %s: whole MiB, from 1 up", given->size);
    if (options->size_count == 0) {
        options->size_count = 2;
        options->sizes[0] = 128 << 10;
        options->sizes[1] = 1 << 20;
    }
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
    if (options->repeat == 0)
        options->repeat = options->quick ? 3 : 5;
    return ERR_NONE;
}

static int choose(struct nvme_bench *bench, const struct given *given)
{
    static const char *const here[] = {"."};
    TRY(choose_numbers(bench, given));
    TRY(choose_engines(bench, given->engine ? given->engine : bench->options.quick ? "libaio" : NULL));
    TRY(choose_directions(bench, given->direction));
    bench->buffered = given->buffered;
    bench->paths = given->paths ? (const char *const *)given->paths : here;
    bench->path_count = given->paths ? 0 : 1;
    while (given->paths && given->paths[bench->path_count])
        bench->path_count++;
    if (!given->no_fio && fio_version(bench->fio) != ERR_NONE) {
        bench->fio[0] = '\0';
        fprintf(stderr, "zerogauge bench nvme: no yardstick: %s\n", err_message());
    }
    return ERR_NONE;
}

static void print_header(const struct nvme_bench *bench)
{
    char size[SIZE_TEXT_BYTES];
    printf("files of %s in", size_short_text(bench->bytes, size));
    for (int i = 0; i < bench->path_count; i++)
        printf(" %s", bench->paths[i]);
    printf("%s\nevery block verified; medians of %zu runs of %g s, in turn with %s\n",
           bench->buffered ? " BUFFERED: through the page cache" : "", bench->options.repeat, bench->seconds,
           bench->fio[0] ? bench->fio : "nothing: without fio there is no ratio");
}

// All files have contents before anything is measured: reading what was never written takes no disk.
static int files_open(struct nvme_bench *bench)
{
    bench_progress("nvme: writing the files");
    TRY(nvme_files_open(bench->paths, bench->path_count, bench->bytes, bench->buffered, &bench->files));
    if (bench->fio[0]) {
        TRY(nvme_files_open(bench->paths, bench->path_count, bench->bytes, bench->buffered, &bench->fio_files));
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

int bench_nvme_main(int argc, const char **argv)
{
    struct given given = {0};
    struct nvme_bench bench = {0};
    const struct poptOption own[] = {
        {"nvme-path", '\0', POPT_ARG_ARGV, &given.paths, 0, "a folder to measure in (.); again for one more", "DIR"},
        {"size", '\0', POPT_ARG_STRING, &given.size, 0, "of the file in each folder (1G); fio has one more", "SIZE"},
        {"seconds", '\0', POPT_ARG_DOUBLE, &given.seconds, 0, "of each run (3); fio wants several", "S"},
        {"depths", '\0', POPT_ARG_STRING, &given.depths, 0, "requests in flight (32); --sizes are theirs", "8,32"},
        {"engine", '\0', POPT_ARG_STRING, &given.engine, 0, "libaio, io_uring or all (all)", "NAME"},
        {"direction", '\0', POPT_ARG_STRING, &given.direction, 0, "read, write or mixed alone", "NAME"},
        {"buffered", '\0', POPT_ARG_NONE, &given.buffered, 0, "through the page cache; marked in the results", NULL},
        {"no-fio", '\0', POPT_ARG_NONE, &given.no_fio, 0, "without the yardstick", NULL},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, own, &bench.options);
    if (code == ERR_NONE && !bench.options.help)
        code = nvme_bench_run(&bench, &given);
    given_release(&given);
    return bench_exit("nvme", code);
}
