// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench gds`: a GPU's memory and files, by cuFile (GPUDirect Storage) and through host memory.
#include "bench/storage/bench_gds.h"

#include "base/err.h"
#include "base/size.h"
#ifdef ZG_HAVE_CUDA
#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/io_cufile.h"
#include "ref/cuda/tier_cuda.h"
#endif

#include <popt.h>

#include <stdlib.h>
#include <string.h>

static int gds_main(int argc, const char **argv);

const struct benchmark bench_gds = {
    .name = "gds",
    .run = gds_main,
    .uses = BENCH_USES_DIRECT,
    .summary = "a GPU and files by cuFile, against the path through host memory",
    .text =
        "Transfers between a GPU's memory and files by cuFile (GPUDirect Storage), against the path through "
        "page-locked host memory. Skipped without a GPU or libcufile. Each result names the path that the bytes took, "
        "as far as cuFile reports it.",
    .examples = {"zerogauge bench gds --nvme-path /mnt/nvme",
                 "zerogauge bench gds --quick --direction read --threads 1,8,16"},
};

static int find(struct gds_bench *bench)
{
#ifdef ZG_HAVE_CUDA
    const char *absent = cuda_lane_absent();
    if (absent)
        return err_set(ERR_USAGE, "%s", absent);
    bench->device = (struct bench_device){&cuda_accelerator, 1};
    return io_cufile_library(&bench->calls);
#else
    (void)bench;
    return err_set(ERR_USAGE, "this binary was built without CUDA, so it cannot use a GPU's memory");
#endif
}

// The user's choices, as popt stores them; null: not given.
struct given {
    char *size, *direction;
};

static int choose_requests(struct bench_options *options, uint64_t bytes)
{
    bench_default_sizes(options, (const size_t[]){1 << 20, 16 << 20}, options->quick ? 1 : 2);
    if (options->thread_count == 0) {
        options->threads[options->thread_count++] = 8;
        if (!options->quick)
            options->threads[options->thread_count++] = 1;
    }
    for (size_t i = 0; i < options->size_count; i++)
        if (options->sizes[i] % IO_ALIGNMENT != 0 || bytes % options->sizes[i] != 0 ||
            options->sizes[i] > IO_BLOCK_MAX_BYTES)
            return err_set(ERR_USAGE, "--sizes %zu: a request must be a multiple of %d and divide --size (%llu)",
                           options->sizes[i], IO_ALIGNMENT, (unsigned long long)bytes);
    for (size_t i = 0; i < options->thread_count; i++)
        if (options->threads[i] > IO_THREAD_MAX)
            return err_set(ERR_USAGE, "--threads %d: at most %d requests in flight", options->threads[i],
                           IO_THREAD_MAX);
    return ERR_NONE;
}

static int choose(struct gds_bench *bench, struct bench_options *options, const struct given *given)
{
    if (options->storage.buffered)
        return err_set(ERR_USAGE, "--buffered: cuFile always bypasses the page cache");
    if (options->storage.engine)
        TRY(io_engine_parse(options->storage.engine, &bench->engine));
    bench->bytes = options->quick ? 64 << 20 : 1 << 30;
    if (given->size)
        TRY(size_parse(given->size, &bench->bytes));
    if (bench->bytes < 1 << 20 || bench->bytes % (1 << 20) != 0 || bench->bytes > UINT64_C(1) << 40)
        return err_set(ERR_USAGE, "--size %s: expected a multiple of 1 MiB", given->size);
    bench->directions[0] = !given->direction || strcmp(given->direction, "read") == 0;
    bench->directions[1] = !given->direction || strcmp(given->direction, "write") == 0;
    if (!bench->directions[0] && !bench->directions[1])
        return err_set(ERR_USAGE, "--direction %s: expected read or write", given->direction);
    bench_default_repeat(options, 5, 3, 1);
    return choose_requests(options, bench->bytes);
}

static int run(struct bench_options *options, const struct given *given)
{
    struct gds_bench bench = {.options = options, .engine = NVME_LIBAIO};
    TRY(choose(&bench, options, given));
    if (find(&bench) != ERR_NONE)
        return bench_skip("gds: %s", err_message());
    return gds_cases_run(&bench);
}

static int gds_main(int argc, const char **argv)
{
    struct bench_options options;
    struct given given = {0};
    const struct poptOption own[] = {
        {"size", '\0', POPT_ARG_STRING, &given.size, 0,
         "size of the file in each folder (default: 1G); the GPU needs memory for all of them; --sizes are of a "
         "request, "
         "--threads are requests in flight",
         "SIZE"},
        {"direction", '\0', POPT_ARG_STRING, &given.direction, 0, "measure only this direction", "read|write"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_gds, own, &options);
    if (code == ERR_NONE && !options.help)
        code = run(&options, &given);
    bench_release(&options);
    free(given.size);
    free(given.direction);
    return bench_exit("gds", code);
}
