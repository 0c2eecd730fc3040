// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench nvme`: the rate at which the NVMe tier's engines move blocks, in turn with fio on the same folders
// with the same block size, depth, engine and direction; the latency of single requests; and the cost of the tier's
// checksums.
#include "bench/storage/bench_nvme.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "base/size.h"

#include <math.h>
#include <popt.h>
#include <stdio.h>
#include <string.h>

static int nvme_main(int argc, const char **argv);

const struct benchmark bench_nvme = {
    .name = "nvme",
    .run = nvme_main,
    .uses = BENCH_USES_STORAGE,
    .summary = "storage: GB/s and latency against fio, and the cost of checksums",
    .examples = {"zerogauge bench nvme --nvme-path /mnt/nvme --size 4G",
                 "zerogauge bench nvme --quick --direction read"},
};

// Of a run, and what fio takes to start and end.
static const double LEAST_S = 0.4, FIO_START_S = 0.5;

// The user's choices, as popt stores them; null and 0: not given.
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
            text_error("zerogauge bench nvme: engine left out");
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
    return found ? ERR_NONE : err_set(ERR_USAGE, "--direction %s: expected read, write or mixed", name);
}

static int choose_numbers(struct nvme_bench *bench, const struct given *given)
{
    struct bench_options *options = &bench->options;
    if (options->thread_count > 0)
        return err_set(ERR_USAGE, "--threads: one thread keeps the requests in flight, here as in fio");
    if (!(given->seconds >= 0 && given->seconds <= 3600))
        return err_set(ERR_USAGE, "--seconds %g: expected 0 to 3600", given->seconds);
    bench->seconds = given->seconds > 0 ? given->seconds : options->quick ? LEAST_S : 3;
    bench->bytes = options->quick ? 256 << 20 : 1 << 30;
    if (given->size)
        TRY(size_parse(given->size, &bench->bytes));
    if (bench->bytes < 1 << 20 || bench->bytes % (1 << 20) != 0 || bench->bytes > UINT64_C(1) << 46)
        return err_set(ERR_USAGE, "--size %s: expected a multiple of 1 MiB", given->size);
    bench_default_sizes(options, (const size_t[]){1 << 20, 128 << 10}, options->quick ? 1 : 2);
    bench_default_budget(options);
    bench_default_repeat(options, 5, 3, 0);
    for (size_t i = 0; i < options->size_count; i++)
        if (options->sizes[i] % IO_ALIGNMENT != 0 || bench->bytes % options->sizes[i] != 0)
            return err_set(ERR_USAGE, "--sizes %zu: a request must be a multiple of %d and divide --size (%llu)",
                           options->sizes[i], IO_ALIGNMENT, (unsigned long long)bench->bytes);
    bench->depths[0] = 32;
    bench->depth_count = 1;
    if (given->depths)
        TRY(bench_parse_sizes(given->depths, bench->depths, &bench->depth_count));
    for (size_t i = 0; i < bench->depth_count; i++)
        if (bench->depths[i] > IO_DEPTH_MAX)
            return err_set(ERR_USAGE, "--depths %zu: at most %d", bench->depths[i], IO_DEPTH_MAX);
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
        text_error("zerogauge bench nvme: no baseline");
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
           bench->seconds, bench->fio[0] ? bench->fio : "nothing, because without fio there is no ratio");
}

// Fills all files before measuring, because reads of unwritten blocks do not reach the disk.
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

// Rates, latencies and checksums.
static size_t count_cases(const struct nvme_bench *bench)
{
    size_t engines = 0, directions = 0,
           plain = (size_t)bench->directions[STREAM_READ] + bench->directions[STREAM_WRITE];
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++)
        engines += bench->engines[engine];
    for (int direction = 0; direction < STREAM_DIRECTION_COUNT; direction++)
        directions += bench->directions[direction];
    return directions * engines * bench->options.size_count * bench->depth_count + plain * engines + plain;
}

static int nvme_bench_run(struct nvme_bench *bench, const struct given *given)
{
    TRY(choose(bench, given));
    bench->cases_left = count_cases(bench);
    // Within a budget runs are shorter rather than cases left out: each makes BENCH_REPEAT_LEAST, in turn with fio's.
    double fits_s = bench->options.budget_s / (double)(2 * BENCH_REPEAT_LEAST * bench->cases_left) - FIO_START_S;
    if (given->seconds == 0 && bench->options.budget_s > 0)
        bench->seconds = fmax(LEAST_S, fmin(bench->seconds, fits_s));
    int code = files_open(bench);
    if (code == ERR_NONE && !bench->options.json)
        print_header(bench);
    if (code == ERR_NONE)
        bench_say_budget(&bench->options);
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
        {"size", '\0', POPT_ARG_STRING, &given.size, 0,
         "size of the file in each folder (default: 1G); fio uses a second one", "SIZE"},
        {"seconds", '\0', POPT_ARG_DOUBLE, &given.seconds, 0,
         "length of each run in seconds (default: 3, with --quick 0.4)", "S"},
        {"depths", '\0', POPT_ARG_STRING, &given.depths, 0,
         "requests in flight (default: 32); --sizes are bytes of a request", "8,32"},
        {"direction", '\0', POPT_ARG_STRING, &given.direction, 0, "measure only this direction", "read|write|mixed"},
        {"emulate", '\0', POPT_ARG_STRING, &given.emulate, 0,
         "throttle lanes to rates in GB/s, such as nvme-read=0.5,nvme-write=0.2", "LANE=GB/S,..."},
        {"no-fio", '\0', POPT_ARG_NONE, &given.no_fio, 0, "measure without a baseline", NULL},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_nvme, own, &bench.options);
    if (code == ERR_NONE && !bench.options.help)
        code = nvme_bench_run(&bench, &given);
    bench_release(&bench.options, own);
    return bench_exit("nvme", code);
}
