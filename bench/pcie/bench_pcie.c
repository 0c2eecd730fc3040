// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench pcie`: copies between host and devices. Without CUDA the device tier is host memory, which
// `bench memory` and `bench pipeline` measure.
#include "bench/pcie/pcie.h"

#include "base/err.h"
#include "base/size.h"

#include <popt.h>

static int pcie_main(int argc, const char **argv);

const struct benchmark bench_pcie = {
    .name = "pcie",
    .run = pcie_main,
    .uses = BENCH_USES_STORAGE,
    .summary = "copies between host and devices, and between devices; skipped without CUDA",
    .text =
        "Copies between host and devices, in blocks of several sizes, in one direction and both, by the copy engines "
        "and by kernels, one device at a time and all together, and as a share of what the link can carry; the time of "
        "one copy of few bytes each way; then every pair of devices, and a matrix of what each writes to each. Skipped "
        "without CUDA.",
    .examples = {"zerogauge bench pcie", "zerogauge bench pcie --nvme-path /mnt/nvme --json"},
};

static int find_link(const struct pcie_link **out)
{
#ifdef ZG_HAVE_CUDA
    return pcie_cuda(out);
#else
    *out = NULL;
    return err_set(ERR_USAGE, "this binary was built without CUDA: its device tier is host memory");
#endif
}

static int choose(struct bench_options *options, const char *size, uint64_t *bytes)
{
    if (options->thread_count > 0)
        return err_set(ERR_USAGE, "--threads: each stream has exactly one thread here");
    *bytes = options->quick ? 64 << 20 : 128 << 20;
    if (size)
        TRY(size_parse(size, bytes));
    bench_default_sizes(options, (const size_t[]){32 << 20, 1 << 20, 64 << 10}, options->quick ? 1 : 3);
    bench_default_repeat(options, 9, 5, 1);
    for (size_t i = 0; i < options->size_count; i++)
        if (options->sizes[i] % PCIE_COPY_BYTES != 0 || *bytes % options->sizes[i] != 0)
            return err_set(ERR_USAGE, "--sizes %zu: a copy must be a multiple of 16 bytes and divide --size (%llu)",
                           options->sizes[i], (unsigned long long)*bytes);
    return ERR_NONE;
}

static int run(struct bench_options *options, const char *size)
{
    const struct pcie_link *link;
    uint64_t bytes;
    TRY(choose(options, size, &bytes));
    if (find_link(&link) != ERR_NONE)
        return bench_skip("pcie: %s", err_message());
    return pcie_cases_run(link, options, (size_t)bytes);
}

static int pcie_main(int argc, const char **argv)
{
    struct bench_options options;
    char *size = NULL;
    const struct poptOption own[] = {
        {"size", '\0', POPT_ARG_STRING, &size, 0, "bytes of a sample (default: 128M); --sizes are bytes of one copy",
         "SIZE"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_pcie, own, &options);
    if (code == ERR_NONE && !options.help)
        code = run(&options, size);
    bench_release(&options, own);
    return bench_exit("pcie", code);
}
