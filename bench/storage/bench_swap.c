// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench swap`: the optimizer's step with its states on NVMe, sub-group by sub-group through staging buffers
// (read, Adam, write), against its bound: the same bytes through the same disk and buffers without Adam, or Adam alone
// with states in memory, whichever takes longer. The three take turns because a disk's rate drifts. Afterwards every
// bit of the states is compared with the states in memory.
#include "bench/storage/swap_case.h"

#include "base/err.h"

#include <popt.h>

static int run_swap(int argc, const char **argv);

const struct benchmark bench_swap = {
    .name = "swap",
    .run = run_swap,
    .uses = BENCH_USES_STATES,
    .summary = "the optimizer with its states on NVMe, against the disk or Adam",
    .examples = {"zerogauge bench swap --nvme-path /mnt/nvme", "zerogauge bench swap --buffers 3,12 --engine io_uring"},
};

// The user's choices; null and 0: not given.
struct swap_options {
    char *buffers, *sub_groups;
    int depth, block_kib, io_threads;
    struct bench_options shared;
};

// The values of an option, or the benchmark's defaults, the first of which other options' cases use.
struct choices {
    size_t values[BENCH_LIST_MAX], count;
};

static int choose(const char *option, const char *text, const struct choices *own, bool quick, struct choices *out)
{
    *out = *own;
    if (quick)
        out->count = 1;
    if (!text)
        return ERR_NONE;
    int code = bench_parse_sizes(text, out->values, &out->count);
    return code == ERR_NONE ? ERR_NONE : err_prefix(code, "%s", option);
}

struct sweep {
    struct choices buffers, sub_groups, engines, checksums;
};

static int check_buffers(const struct choices *buffers)
{
    for (size_t i = 0; i < buffers->count; i++)
        if (buffers->values[i] < SWAP_BUFFERS_MIN || buffers->values[i] > 1024)
            return err_set(ERR_USAGE, "--buffers %zu: expected %d (one for each state of a sub-group) to 1024",
                           buffers->values[i], SWAP_BUFFERS_MIN);
    return ERR_NONE;
}

static int make_sweep(const struct swap_options *given, struct sweep *out)
{
    static const struct choices buffers = {{12, 3, 4, 6, 9}, 5}, sub_groups = {{2 << 20, 1 << 20, 8 << 20}, 3},
                                both = {{0, 1}, 2};
    bool quick = given->shared.quick;
    TRY(choose("--buffers", given->buffers, &buffers, quick, &out->buffers));
    TRY(choose("--sub-groups", given->sub_groups, &sub_groups, quick, &out->sub_groups));
    TRY(choose("", NULL, &both, quick, &out->engines));
    TRY(choose("", NULL, &both, quick, &out->checksums));
    if (given->shared.storage.engine) {
        enum nvme_engine engine;
        TRY(io_engine_parse(given->shared.storage.engine, &engine));
        out->engines = (struct choices){{(size_t)engine}, 1};
    }
    if (given->shared.storage.no_checksum)
        out->checksums = (struct choices){{1}, 1};  // index of `without` among {with, without}
    return check_buffers(&out->buffers);
}

// The index-th of all combinations: false where it is not wanted. All values that the user listed are combined; other
// settings vary one at a time from their first value.
static bool combination(const struct swap_options *given, const struct sweep *sweep, size_t index,
                        struct swap_case *out)
{
    size_t c = index % sweep->checksums.count, rest = index / sweep->checksums.count;
    size_t e = rest % sweep->engines.count;
    rest /= sweep->engines.count;
    size_t g = rest % sweep->sub_groups.count, b = rest / sweep->sub_groups.count;
    out->sub_group_count = sweep->sub_groups.values[g];
    out->buffer_count = (int)sweep->buffers.values[b];
    out->engine = (enum nvme_engine)sweep->engines.values[e];
    out->checksum = sweep->checksums.values[c] == 0;
    return (b > 0 && !given->buffers) + (g > 0 && !given->sub_groups) + (e > 0) + (c > 0) <= 1;
}

static int run_sweep(const struct swap_bench *bench, const struct swap_options *given, const struct sweep *sweep,
                     struct swap_case *of)
{
    size_t all = sweep->buffers.count * sweep->sub_groups.count * sweep->engines.count * sweep->checksums.count;
    size_t left = 0;
    for (size_t i = 0; i < all; i++)
        left += combination(given, sweep, i, of);
    for (size_t i = 0; i < all; i++) {
        if (combination(given, sweep, i, of) && bench_budget_next(bench->options, "swap", &left))
            TRY(swap_case_run(bench, of));
    }
    return ERR_NONE;
}

// Returns the parameters of the default case: fewer than usual where memory is short. A parameter has 20 bytes in both
// sets of states together, and the staging buffers take some 200 MiB.
static size_t default_params(bool quick)
{
    const size_t wanted = quick ? 16 << 20 : 64 << 20, least = 2 << 20, unit = 1 << 20, others = (size_t)256 << 20;
    size_t memory = bench_memory_bytes(), permitted = memory > others ? (memory - others) / 24 / unit * unit : 0;
    size_t params = wanted < permitted ? wanted : permitted;
    return params > least ? params : least;
}

static int run_all(struct swap_bench *bench, struct swap_options *given)
{
    struct bench_options *shared = &given->shared;
    struct sweep sweep;
    TRY(make_sweep(given, &sweep));
    if (given->depth < 0 || given->block_kib < 0 || given->io_threads < 0)
        return err_set(ERR_USAGE, "--depth, --block-kib and --io-threads: expected 1 or more");
    bench->aio = (struct nvme_aio){
        .block_bytes = (size_t)(given->block_kib ? given->block_kib : 1024) << 10,
        .queue_depth = given->depth ? given->depth : 8,
        .overlap_events = true,
        .intra_op_parallelism = given->io_threads ? given->io_threads : 1,
    };
    if (shared->storage.inject)
        TRY(inject_parse(shared->storage.inject, &bench->inject));
    TRY(inject_check(&bench->inject, 0, 0, true));
    bench_default_sizes(shared, (const size_t[]){default_params(shared->quick)}, 1);
    bench_default_budget(shared);
    bench_default_repeat(shared, 7, 5, 1);
    if (shared->thread_count == 0)
        shared->threads[shared->thread_count++] = bench_thread_count();
    bench_say_budget(shared);
    for (size_t t = 0; t < shared->thread_count; t++)
        for (size_t s = 0; s < shared->size_count; s++) {
            struct swap_case of = {.count = shared->sizes[s], .threads = shared->threads[t]};
            TRY(run_sweep(bench, given, &sweep, &of));
        }
    return ERR_NONE;
}

static int swap_main(int argc, const char **argv)
{
    struct swap_options given = {0};
    enum { TEXT = POPT_ARG_STRING, INT = POPT_ARG_INT };
    const struct poptOption own[] = {
        {"buffers", '\0', TEXT, &given.buffers, 0, "staging buffers, one per state (default: 12, then 3 to 9)", "3,12"},
        {"sub-groups", '\0', TEXT, &given.sub_groups, 0, "parameters per sub-group (default: 2M, then 1M and 8M)",
         "1M,2M"},
        {"block-kib", '\0', INT, &given.block_kib, 0, "KiB of a request (default: 1024)", "N"},
        {"depth", '\0', INT, &given.depth, 0, "requests in flight per direction and thread (default: 8)", "N"},
        {"io-threads", '\0', INT, &given.io_threads, 0, "threads that share a transfer (default: 1)", "N"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_swap, own, &given.shared);
    struct swap_bench bench = {.options = &given.shared, .storage = &given.shared.storage};
    if (code == ERR_NONE && !given.shared.help)
        code = run_all(&bench, &given);
    bench_release(&given.shared, own);
    return code;
}

static int run_swap(int argc, const char **argv)
{
    return bench_exit("swap", swap_main(argc, argv));
}
