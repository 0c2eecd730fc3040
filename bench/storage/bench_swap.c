// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench swap`: the optimizer's step with its states on NVMe, sub-group by sub-group through staging buffers
// (read, Adam, write), against what bounds it: the same bytes through the same disk and buffers without Adam, reads and
// writes at once; or Adam alone, with its states in memory, if that takes longer. The three take turns, for a disk's
// rate drifts. Afterwards every bit of the states is that of the ones in memory.
#include "bench/harness/bench.h"

#include "base/err.h"
#include "bench/storage/swap_states.h"

#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static int run_swap(int argc, const char **argv);

const struct benchmark bench_swap = {
    .name = "swap",
    .run = run_swap,
    .uses = BENCH_USES_STATES,
    .summary = "the optimizer with its states on NVMe against the disk, or Adam",
    .examples = {"zerogauge bench swap --nvme-path /mnt/nvme", "zerogauge bench swap --buffers 3,12 --engine io_uring"},
};

// What the user chose; null and 0: nothing.
struct swap_options {
    char *buffers, *sub_groups;
    int depth, block_kib, io_threads;
    struct bench_options shared;
};

// What varies from case to case.
struct swap_case {
    size_t count, sub_group_count;
    int buffer_count, threads;
    enum nvme_engine engine;
    bool checksum;
};

struct swap_bench {
    const struct swap_options *options;
    const struct bench_storage *storage;
    struct nvme_aio aio;
    struct inject_plan inject;
};

// The three that take turns, and their times.
enum { SWAP, TRANSFER, ADAM, PART_COUNT };

struct swap_run {
    struct swap_states swapped, in_memory;
    struct bench_samples samples[PART_COUNT];
    struct bench_samples bound;
};

static int run_part(struct swap_run *run, int part)
{
    return part == SWAP       ? swap_states_update(&run->swapped)
           : part == TRANSFER ? swap_states_transfer(&run->swapped)
                              : swap_states_update(&run->in_memory);
}

// One of each; who begins changes from round to round.
static int take_turns(struct swap_run *run, size_t round, bool counted)
{
    TRY(swap_states_begin(&run->swapped));
    TRY(swap_states_begin(&run->in_memory));
    double ms[PART_COUNT];
    for (size_t i = 0; i < PART_COUNT; i++) {
        int part = (int)((round + i) % PART_COUNT);
        uint64_t begin_ns = bench_now_ns();
        TRY(run_part(run, part));
        ms[part] = (double)(bench_now_ns() - begin_ns) * 1e-6;
    }
    if (!counted)
        return ERR_NONE;
    for (int part = 0; part < PART_COUNT; part++)
        run->samples[part].values[run->samples[part].count++] = ms[part];
    run->bound.values[run->bound.count++] = ms[TRANSFER] > ms[ADAM] ? ms[TRANSFER] : ms[ADAM];
    return ERR_NONE;
}

// Milliseconds of one thread for the checksums of a step's blocks, read and written: the least of a few rounds over the
// buffers.
static double checksum_ms(const struct swap_states *states)
{
    const struct buffer_pool *buffers = &states->optimizer.host_buffers;
    size_t bytes = (size_t)buffers->count * buffers->buffer_bytes;
    uint64_t least_ns = UINT64_MAX;
    XXH64_hash_t sum = 0;
    for (int round = 0; round < 3; round++) {
        uint64_t begin_ns = bench_now_ns();
        for (size_t at = 0; at < bytes; at += TIER_NVME_ALIGNMENT)
            sum ^= XXH3_64bits(buffers->memory + at, TIER_NVME_ALIGNMENT);
        uint64_t took_ns = bench_now_ns() - begin_ns + (sum == 1);  // so that the sum is needed
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    return (double)least_ns * 1e-6 * 2 * (double)swap_states_bytes(states) / (double)bytes;
}

static json_t *case_json(const struct swap_bench *bench, const struct swap_case *of, const struct swap_run *run)
{
    return json_pack("{s:I,s:I,s:i,s:s,s:b,s:b,s:I,s:i,s:i,s:i,s:i}", "params", (json_int_t)of->count,
                     "sub_group_params", (json_int_t)optimizer_sub_group_count(&run->swapped.optimizer, 0), "buffers",
                     of->buffer_count, "engine", io_engine_of(of->engine)->name, "checksum", of->checksum, "buffered",
                     bench->storage->buffered, "block_bytes", (json_int_t)bench->aio.block_bytes, "depth",
                     bench->aio.queue_depth, "io_threads", bench->aio.intra_op_parallelism, "threads", of->threads,
                     "paths", bench->storage->path_count);
}

static int print(const struct swap_bench *bench, const struct swap_case *of, const struct swap_run *run,
                 uint64_t begin_ns)
{
    double bytes = 2 * (double)swap_states_bytes(&run->swapped);
    double transfer = bench_median(&run->samples[TRANSFER]), checksum = of->checksum ? checksum_ms(&run->swapped) : 0;
    struct bench_record record = {
        .name = "swap",
        .description = case_json(bench, of, run),
        .detail = json_pack("{s:f, s:f, s:f, s:f}", "read_and_written_bytes", bytes, "transfer_ms", transfer, "adam_ms",
                            bench_median(&run->samples[ADAM]), "checksum_thread_ms", checksum),
        .unit = "ms",
        .lower_is_better = true,
        .verified = true,
        .items = 1,
        .begin_ns = begin_ns,
        .item_bytes = bytes * 1e-6,
        .samples = &run->samples[SWAP],
        .baseline_name = "the longer of transfers and Adam",
        .baseline = &run->bound,
    };
    TRY(bench_print(&bench->options->shared, &record));
    if (!bench->options->shared.json)
        printf("         transfers alone %.4g ms (%.4g to %.4g), %.2f GB/s; Adam alone %.4g ms; checksums %.4g ms of a "
               "thread\n",
               transfer, bench_quantile(&run->samples[TRANSFER], 0.1), bench_quantile(&run->samples[TRANSFER], 0.9),
               bytes * 1e-6 / transfer, bench_median(&run->samples[ADAM]), checksum);
    return ERR_NONE;
}

static int measure(const struct swap_bench *bench, const struct swap_case *of, struct swap_run *run)
{
    const struct bench_options *shared = &bench->options->shared;
    uint64_t begin_ns = bench_now_ns();
    struct swap_setting setting = {
        .count = of->count,
        .on_nvme = true,
        .paths = bench->storage->paths,
        .path_count = bench->storage->path_count,
        .sub_group_count = of->sub_group_count,
        .buffer_count = of->buffer_count,
        .aio = bench->aio,
        .checksum = of->checksum,
        .buffered = bench->storage->buffered,
        .threads = of->threads,
        .inject = bench->inject.fault_count > 0 ? &bench->inject : NULL,
    };
    setting.aio.engine = of->engine;
    TRY(swap_states_open(&setting, &run->swapped));
    setting.on_nvme = false;
    TRY(swap_states_open(&setting, &run->in_memory));
    for (size_t round = 0; round < shared->warmup + shared->repeat; round++) {
        bench_progress("swap: %d buffers, sub-groups of %zu, %s, round %zu of %zu", of->buffer_count,
                       of->sub_group_count, io_engine_of(of->engine)->name, round + 1, shared->warmup + shared->repeat);
        TRY(take_turns(run, round, round >= shared->warmup));
    }
    TRY(swap_states_compare(&run->swapped, &run->in_memory));
    return print(bench, of, run, begin_ns);
}

static int run_case(const struct swap_bench *bench, const struct swap_case *of)
{
    struct swap_run *run = calloc(1, sizeof *run);
    if (!run)
        return err_set(ERR_MEMORY, "no memory for a case");
    int code = measure(bench, of, run);
    swap_states_close(&run->swapped);
    swap_states_close(&run->in_memory);
    free(run);
    return code;
}

// The numbers a list option gives, or those of the benchmark, the first of which stands for all others' cases.
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
            return err_set(ERR_USAGE, "--buffers %zu: expected %d, one for each state of a sub-group, to 1024",
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
        out->checksums = (struct choices){{1}, 1};  // the second of with and without
    return check_buffers(&out->buffers);
}

// What was listed is crossed; what was not varies one at a time from the first.
static int run_sweep(const struct swap_bench *bench, const struct sweep *sweep, size_t count, int threads)
{
    const struct swap_options *given = bench->options;
    for (size_t b = 0; b < sweep->buffers.count; b++)
        for (size_t g = 0; g < sweep->sub_groups.count; g++)
            for (size_t e = 0; e < sweep->engines.count; e++)
                for (size_t c = 0; c < sweep->checksums.count; c++) {
                    if ((b > 0 && !given->buffers) + (g > 0 && !given->sub_groups) + (e > 0) + (c > 0) > 1)
                        continue;
                    const struct swap_case of = {
                        .count = count,
                        .sub_group_count = sweep->sub_groups.values[g],
                        .buffer_count = (int)sweep->buffers.values[b],
                        .threads = threads,
                        .engine = (enum nvme_engine)sweep->engines.values[e],
                        .checksum = sweep->checksums.values[c] == 0,
                    };
                    TRY(run_case(bench, &of));
                }
    return ERR_NONE;
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
    bench_default_sizes(shared, (const size_t[]){shared->quick ? 16u << 20 : 64u << 20}, 1);
    bench_default_repeat(shared, 7, 5, 1);
    if (shared->thread_count == 0)
        shared->threads[shared->thread_count++] = bench_thread_count();
    for (size_t t = 0; t < shared->thread_count; t++)
        for (size_t s = 0; s < shared->size_count; s++)
            TRY(run_sweep(bench, &sweep, shared->sizes[s], shared->threads[t]));
    return ERR_NONE;
}

static int swap_main(int argc, const char **argv)
{
    struct swap_options given = {0};
    enum { TEXT = POPT_ARG_STRING, INT = POPT_ARG_INT };
    const struct poptOption own[] = {
        {"buffers", '\0', TEXT, &given.buffers, 0, "staging buffers (12; then 3 to 9), each for one state", "3,12"},
        {"sub-groups", '\0', TEXT, &given.sub_groups, 0, "parameters of a sub-group (2M; then 1M, 8M)", "1M,2M"},
        {"block-kib", '\0', INT, &given.block_kib, 0, "KiB of a request (1024)", "N"},
        {"depth", '\0', INT, &given.depth, 0, "requests in flight, for each direction and thread (8)", "N"},
        {"io-threads", '\0', INT, &given.io_threads, 0, "that share a transfer (1)", "N"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_swap, own, &given.shared);
    struct swap_bench bench = {.options = &given, .storage = &given.shared.storage};
    if (code == ERR_NONE && !given.shared.help)
        code = run_all(&bench, &given);
    bench_release(&given.shared);
    free(given.buffers);
    free(given.sub_groups);
    return code;
}

static int run_swap(int argc, const char **argv)
{
    return bench_exit("swap", swap_main(argc, argv));
}
