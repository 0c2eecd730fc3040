// SPDX-License-Identifier: Apache-2.0
#include "bench/storage/swap_case.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

// The parts that take turns.
enum { SWAP, TRANSFER, ADAM, PART_COUNT };

struct swap_run {
    struct swap_states swapped, in_memory;
    struct bench_samples samples[PART_COUNT];  // ms
    struct bench_samples bound;                // ms, the longer of TRANSFER and ADAM in each round
};

static int run_part(struct swap_run *run, int part)
{
    return part == SWAP       ? swap_states_update(&run->swapped)
           : part == TRANSFER ? swap_states_transfer(&run->swapped)
                              : swap_states_update(&run->in_memory);
}

// Runs each part once; which begins changes from round to round.
static int take_turns(struct swap_run *run, size_t round, bool counted)
{
    TRY(swap_states_begin(&run->swapped));
    TRY(swap_states_begin(&run->in_memory));
    double ms[PART_COUNT];
    for (size_t i = 0; i < PART_COUNT; i++) {
        int part = (int)((round + i) % PART_COUNT);
        uint64_t begin_ns = clock_now_ns();
        TRY(run_part(run, part));
        ms[part] = (double)(clock_now_ns() - begin_ns) * 1e-6;
    }
    if (!counted)
        return ERR_NONE;
    for (int part = 0; part < PART_COUNT; part++)
        run->samples[part].values[run->samples[part].count++] = ms[part];
    run->bound.values[run->bound.count++] = ms[TRANSFER] > ms[ADAM] ? ms[TRANSFER] : ms[ADAM];
    return ERR_NONE;
}

// Returns the ms that one thread needs for the checksums of a step's blocks, read and written, by the shortest of three
// passes over the buffers.
static double checksum_ms(const struct swap_states *states)
{
    const struct buffer_pool *buffers = &states->optimizer.host_buffers;
    size_t bytes = (size_t)buffers->count * buffers->buffer_bytes;
    uint64_t least_ns = UINT64_MAX;
    XXH64_hash_t sum = 0;
    for (int round = 0; round < 3; round++) {
        uint64_t begin_ns = clock_now_ns();
        for (size_t at = 0; at < bytes; at += TIER_NVME_ALIGNMENT)
            sum ^= XXH3_64bits(buffers->memory + at, TIER_NVME_ALIGNMENT);
        uint64_t took_ns = clock_now_ns() - begin_ns + (sum == 1);  // uses the sum
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
        .items = 1,
        .begin_ns = begin_ns,
        .item_bytes = bytes * 1e-6,
        .samples = &run->samples[SWAP],
        .baseline_name = "the longer of transfers and Adam",
        .baseline = &run->bound,
    };
    TRY(bench_print(bench->options, &record));
    if (!bench->options->json)
        printf("         transfers alone %.4g ms (%.4g to %.4g), %.2f GB/s; Adam alone %.4g ms; checksums %.4g ms of "
               "one thread\n",
               transfer, bench_quantile(&run->samples[TRANSFER], 0.1), bench_quantile(&run->samples[TRANSFER], 0.9),
               bytes * 1e-6 / transfer, bench_median(&run->samples[ADAM]), checksum);
    return ERR_NONE;
}

static int measure(const struct swap_bench *bench, const struct swap_case *of, struct swap_run *run)
{
    const struct bench_options *shared = bench->options;
    uint64_t begin_ns = clock_now_ns();
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
    for (size_t round = 0; bench_repeats(shared->warmup, shared->repeat, round); round++) {
        bench_progress("swap: %d buffers, sub-groups of %zu, %s, round %zu of %zu", of->buffer_count,
                       of->sub_group_count, io_engine_of(of->engine)->name, round + 1, shared->warmup + shared->repeat);
        TRY(take_turns(run, round, round >= shared->warmup));
    }
    TRY(swap_states_compare(&run->swapped, &run->in_memory));
    return print(bench, of, run, begin_ns);
}

int swap_case_run(const struct swap_bench *bench, const struct swap_case *of)
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
