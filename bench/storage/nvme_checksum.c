// SPDX-License-Identifier: Apache-2.0
// The cost of the NVMe tier's checksums: its transfers with them, in turn with its transfers without.
#include "bench/storage/bench_nvme.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"
#include "ref/tier/tier_nvme.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { MOST_BYTES = 256 << 20, QUICK_MOST_BYTES = 64 << 20, DEPTH = 32 };

// A tier with an allocation, written from `source` and read to `memory`.
struct side {
    struct tier_nvme *tier;
    void *at;
    unsigned char *source, *memory;
    size_t bytes;
    bool write;
};

static int side_open(const struct nvme_bench *bench, enum nvme_engine engine, bool checksum, struct side *side)
{
    struct tier_nvme_setting setting = {.paths = bench->options.storage.paths,
                                        .path_count = bench->options.storage.path_count,
                                        .aio = {.block_bytes = 1 << 20,
                                                .queue_depth = DEPTH,
                                                .overlap_events = true,
                                                .intra_op_parallelism = 1,
                                                .engine = engine},
                                        .buffered = bench->options.storage.buffered,
                                        .checksum = checksum};
    TRY(tier_nvme_open(&setting, NULL, &side->tier));
    TRY(tier_nvme_allocate(side->tier, KIND_STAGING, "the benchmark's file", side->bytes, 0, &side->at));
    return tier_nvme_write(side->tier, side->at, side->source, side->bytes);
}

static int side_prepare(void *context)
{
    const struct side *side = context;
    if (!side->write)
        memset(side->memory, 0, side->bytes);
    return ERR_NONE;
}

static int side_run(void *context)
{
    const struct side *side = context;
    if (side->write)
        return tier_nvme_write(side->tier, side->at, side->source, side->bytes);
    return tier_nvme_read(side->tier, side->at, side->memory, side->bytes);
}

// Verifies that both tiers hold the written bytes.
static int verify(struct side sides[2])
{
    for (int i = 0; i < 2; i++) {
        memset(sides[i].memory, 0, sides[i].bytes);
        TRY(tier_nvme_read(sides[i].tier, sides[i].at, sides[i].memory, sides[i].bytes));
        if (memcmp(sides[i].memory, sides[i].source, sides[i].bytes) != 0)
            return err_set(ERR_CHECK, "the tier %s checksums returned wrong bytes", i == 0 ? "with" : "without");
    }
    return ERR_NONE;
}

// Returns the GB/s of the checksums alone, in memory.
static double checksum_rate(const unsigned char *memory, size_t bytes)
{
    uint64_t sum = 0, start_ns = clock_now_ns();
    for (size_t at = 0; at < bytes; at += TIER_NVME_ALIGNMENT)
        sum += XXH3_64bits(memory + at, TIER_NVME_ALIGNMENT);
    uint64_t ns = clock_now_ns() - start_ns;
    return sum == 0 || ns == 0 ? 0 : (double)bytes / (double)ns;
}

static int print(const struct nvme_bench *bench, const struct side *side, enum nvme_engine engine, uint64_t begin_ns,
                 struct bench_samples *with, struct bench_samples *without)
{
    const char *direction = side->write ? "write" : "read";
    double alone = checksum_rate(side->source, side->bytes);
    char row[160];
    bench_rate(with, (double)side->bytes);
    bench_rate(without, (double)side->bytes);
    snprintf(row, sizeof row, "%-6s %9.3f GB/s with, %.3f without; the checksums alone: %.1f GB/s", direction,
             bench_median(with), bench_median(without), alone);
    struct bench_record record = {.name = "nvme_checksum",
                                  .description = json_pack("{s:s, s:s, s:i, s:i, s:I, s:b}", "direction", direction,
                                                           "engine", io_engine_of(engine)->name, "block_bytes", 1 << 20,
                                                           "depth", DEPTH, "bytes", (json_int_t)side->bytes, "buffered",
                                                           bench->options.storage.buffered),
                                  .detail = json_pack("{s:f}", "checksums_alone_gb_per_s", alone),
                                  .unit = "GB/s",
                                  .items = (double)side->bytes,
                                  .begin_ns = begin_ns,
                                  .samples = with,
                                  .baseline_name = "the same without checksums",
                                  .baseline = without,
                                  .row = row};
    return bench_print(&bench->options, &record);
}

static int measure(struct nvme_bench *bench, enum nvme_engine engine, struct side sides[2])
{
    for (int i = 0; i < 2; i++)
        TRY(side_open(bench, engine, i == 0, &sides[i]));
    struct bench_work work = {"with", side_run, side_prepare, &sides[0]};
    struct bench_work without = {"without", side_run, side_prepare, &sides[1]};
    size_t repeat = 2 * bench->options.repeat + 1;
    for (int write = 0; write < 2; write++) {
        if (!bench->directions[write ? STREAM_WRITE : STREAM_READ] ||
            !bench_budget_next(&bench->options, "nvme", &bench->cases_left))
            continue;
        uint64_t begin_ns = clock_now_ns();
        bench_progress("nvme checksums, %s", write ? "write" : "read");
        sides[0].write = sides[1].write = write;
        struct bench_samples samples, baseline;
        TRY(bench_alternate(&work, &without, 1, repeat, 1, &samples, &baseline));
        TRY(verify(sides));
        TRY(print(bench, &sides[0], engine, begin_ns, &samples, &baseline));
    }
    return ERR_NONE;
}

int nvme_checksums_run(struct nvme_bench *bench)
{
    enum nvme_engine engine = bench->engines[NVME_LIBAIO] ? NVME_LIBAIO : NVME_IO_URING;
    size_t most = bench->options.quick ? QUICK_MOST_BYTES : MOST_BYTES;
    size_t bytes = bench->bytes < most ? bench->bytes : most;
    unsigned char *source = bench_alloc(bytes, 1), *memory = bench_alloc(bytes, 1);
    struct side sides[2] = {{.source = source, .memory = memory, .bytes = bytes},
                            {.source = source, .memory = memory, .bytes = bytes}};
    int code = source && memory ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a transfer of %zu bytes", bytes);
    for (size_t i = 0; source && i < bytes / 8; i++)
        ((uint64_t *)source)[i] = random_at(1, i);
    if (code == ERR_NONE && !bench->options.json)
        printf("\nratio    transfers of %zu MiB in requests of 1 MiB (%s), with checksums and without\n", bytes >> 20,
               io_engine_of(engine)->name);
    if (code == ERR_NONE)
        code = measure(bench, engine, sides);
    tier_nvme_close(sides[0].tier);
    tier_nvme_close(sides[1].tier);
    bench_free(source, bytes);
    bench_free(memory, bytes);
    return code;
}
