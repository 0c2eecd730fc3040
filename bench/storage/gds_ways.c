// SPDX-License-Identifier: Apache-2.0
#include "bench/storage/gds_ways.h"

#include "bench/harness/bench.h"
#include "base/err.h"
#include "ref/executor/executor.h"
#include "ref/cuda/io_cufile.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 16 };  // at most; more leave the disk idle between pieces, fewer leave it idle during the end copies

struct gds_ways {
    struct gds_setting setting;
    size_t bytes, piece_bytes;
    void *there;             // on the GPU
    unsigned char *host[2];  // pieces
    bool registered;
    uint64_t round;  // of the data
    struct io_pool *direct, *through;
    struct executor *executor;
};

// A range of the files' bytes and the memory it moves to or from.
struct part {
    const struct gds_ways *ways;
    bool write;
    size_t begin;
    unsigned char *memory;
};

// Consecutive blocks lie in different files.
static void locate(void *context, uint64_t at, struct io_location *out)
{
    const struct part *part = context;
    const struct gds_setting *s = &part->ways->setting;
    uint64_t whole = part->begin + at, block = whole / s->block_bytes, inside = whole % s->block_bytes;
    const struct nvme_folder *folder = &s->files->folders[block % (uint64_t)s->files->count];
    *out = (struct io_location){.write = part->write,
                                .file = folder->file,
                                .path = folder->path,
                                .alignment_bytes = folder->alignment_bytes,
                                .offset = block / (uint64_t)s->files->count * s->block_bytes + inside,
                                .memory = part->memory + at,
                                .bytes = s->block_bytes - inside};
}

static int move_part(struct io_pool *pool, struct part part, size_t bytes)
{
    return io_pool_transfer(pool, &(struct io_transfer){bytes, locate, NULL, &part, NULL});
}

static size_t bytes_at(const struct gds_ways *ways, size_t at)
{
    return ways->bytes - at < ways->piece_bytes ? ways->bytes - at : ways->piece_bytes;
}

static unsigned char *there_at(const struct gds_ways *ways, size_t at)
{
    return (unsigned char *)ways->there + at;
}

// One step of a piece: between files and host memory, or between host memory and the GPU.
struct step {
    struct gds_ways *ways;
    bool write, storage;
    size_t at;
    unsigned char *host;
};

static int run_step(void *arguments)
{
    const struct step *step = arguments;
    struct gds_ways *ways = step->ways;
    size_t bytes = bytes_at(ways, step->at);
    if (step->storage)
        return move_part(ways->through, (struct part){ways, step->write, step->at, step->host}, bytes);
    return step->write ? bytes_copy(step->host, there_at(ways, step->at), bytes)
                       : bytes_copy(there_at(ways, step->at), step->host, bytes);
}

static int issue_step(struct gds_ways *ways, bool write, bool storage, size_t at)
{
    size_t bytes = bytes_at(ways, at);
    struct step step = {ways, write, storage, at, ways->host[at / ways->piece_bytes % 2]};
    const struct executor_span spans[] = {
        {step.host, bytes, write == storage ? EXECUTOR_READ : EXECUTOR_WRITE},
        {there_at(ways, at), storage ? 0 : bytes, write ? EXECUTOR_READ : EXECUTOR_WRITE},
    };
    static const enum lane lanes[2][2] = {{LANE_H2D, LANE_NVME_READ}, {LANE_D2H, LANE_NVME_WRITE}};
    struct executor_operation operation = {.name = storage ? "a transfer" : "a copy",
                                           .lane = lanes[write][storage],
                                           .run = run_step,
                                           .arguments = &step,
                                           .arguments_bytes = sizeof step,
                                           .spans = spans,
                                           .span_count = 2,
                                           .bytes = bytes};
    return executor_issue(ways->executor, &operation);
}

// Pieces use the two buffers in turn; the spans make each wait for the previous use of its buffer.
static int move_through(struct gds_ways *ways, bool write)
{
    int code = ERR_NONE;
    for (size_t at = 0; code == ERR_NONE && at < ways->bytes; at += ways->piece_bytes) {
        code = issue_step(ways, write, !write, at);
        if (code == ERR_NONE)
            code = issue_step(ways, write, write, at);
    }
    int ended = executor_wait(ways->executor);
    return code != ERR_NONE ? code : ended;
}

static int move_direct(struct gds_ways *ways, bool write)
{
    return io_cufile_explain(move_part(ways->direct, (struct part){ways, write, 0, ways->there}, ways->bytes));
}

static uint64_t word_at(const struct gds_ways *ways, size_t at)
{
    return random_at(random_key(ways->round, 0), at);
}

// Writes new data to the GPU's memory.
static int renew(struct gds_ways *ways)
{
    ways->round++;
    for (size_t at = 0; at < ways->bytes; at += ways->piece_bytes) {
        size_t bytes = bytes_at(ways, at);
        for (size_t i = 0; i < bytes; i += sizeof(uint64_t))
            *(uint64_t *)(ways->host[0] + i) = word_at(ways, at + i);
        TRY(bytes_copy(there_at(ways, at), ways->host[0], bytes));
    }
    return ERR_NONE;
}

// Clears the GPU's memory by copies from the host, which are complete on return: cuFile waits for no stream.
static int clear(struct gds_ways *ways)
{
    memset(ways->host[0], 0, ways->piece_bytes);
    for (size_t at = 0; at < ways->bytes; at += ways->piece_bytes)
        TRY(bytes_copy(there_at(ways, at), ways->host[0], bytes_at(ways, at)));
    return ERR_NONE;
}

static int compare(const struct gds_ways *ways, size_t begin, size_t bytes, bool write, bool direct)
{
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t expected = word_at(ways, begin + i);
        if (memcmp(&expected, ways->host[0] + i, sizeof expected) == 0)
            continue;
        struct io_location where;
        struct part part = {ways, write, begin, ways->host[0]};
        locate(&part, i, &where);
        return err_set(ERR_CHECK,
                       "gds: data %s %s is wrong in the 8 bytes at %zu on the GPU, which belong to offset "
                       "%" PRIu64 " of the file in %s",
                       write ? "written" : "read", direct ? "by cuFile" : "through host memory", begin + i,
                       where.offset, where.path);
    }
    return ERR_NONE;
}

// Verifies what the files hold after a write, and the GPU after a read.
static int verify(struct gds_ways *ways, bool write, bool direct)
{
    for (size_t at = 0; at < ways->bytes; at += ways->piece_bytes) {
        size_t bytes = bytes_at(ways, at);
        memset(ways->host[0], 0, bytes);
        if (write)
            TRY(move_part(ways->through, (struct part){ways, false, at, ways->host[0]}, bytes));
        else
            TRY(bytes_copy(ways->host[0], there_at(ways, at), bytes));
        TRY(compare(ways, at, bytes, write, direct));
    }
    return ERR_NONE;
}

int gds_ways_sample(struct gds_ways *ways, bool write, bool direct, double *bytes_per_ns)
{
    TRY(write ? renew(ways) : clear(ways));
    uint64_t begin_ns = clock_now_ns();
    TRY(direct ? move_direct(ways, write) : move_through(ways, write));
    *bytes_per_ns = (double)ways->bytes / (double)(clock_now_ns() - begin_ns);
    return verify(ways, write, direct);
}

size_t gds_ways_piece_bytes(const struct gds_ways *ways)
{
    return ways->piece_bytes;
}

static int open_parts(struct gds_ways *ways)
{
    const struct gds_setting *s = &ways->setting;
    struct nvme_aio aio = {.block_bytes = s->block_bytes,
                           .queue_depth = 1,
                           .overlap_events = true,
                           .intra_op_parallelism = s->flight_count};
    TRY(io_pool_open(&io_engine_cufile, &aio, NULL, &ways->direct));
    aio.queue_depth = s->flight_count;
    aio.intra_op_parallelism = 1;
    TRY(io_pool_open(io_engine_of(s->engine), &aio, NULL, &ways->through));
    TRY(executor_open((struct executor_schedule){EXECUTOR_OVERLAP, 0}, 0, NULL, NULL, NULL, &ways->executor));
    for (int i = 0; i < 2; i++) {
        void *host;
        TRY(bench_device_alloc_host(s->device, ways->piece_bytes, &host));
        ways->host[i] = host;
    }
    TRY(bench_device_alloc(s->device, ways->bytes, &ways->there));
    TRY(io_cufile_register(ways->there, ways->bytes, 0));
    ways->registered = true;
    TRY(renew(ways));
    return move_through(ways, true);
}

int gds_ways_open(const struct gds_setting *setting, struct gds_ways **out)
{
    assert(setting->block_bytes > 0 && setting->files->bytes % setting->block_bytes == 0 && setting->flight_count > 0);
    size_t flight_bytes = setting->block_bytes * (size_t)setting->flight_count;
    size_t bytes = (size_t)setting->files->bytes * (size_t)setting->files->count;
    size_t piece_bytes = bytes / PIECES / setting->block_bytes * setting->block_bytes;
    if (bytes / 4 < flight_bytes)
        return err_set(ERR_USAGE,
                       "--size: %d requests of %zu bytes in flight need files of at least %zu bytes "
                       "together",
                       setting->flight_count, setting->block_bytes, 4 * flight_bytes);
    struct gds_ways *ways = calloc(1, sizeof *ways);
    if (!ways)
        return err_set(ERR_MEMORY, "no memory for a case");
    ways->setting = *setting;
    ways->bytes = bytes;
    ways->piece_bytes = piece_bytes > flight_bytes ? piece_bytes : flight_bytes;
    int code = open_parts(ways);
    if (code == ERR_NONE)
        *out = ways;
    else
        gds_ways_close(ways);
    return code;
}

void gds_ways_close(struct gds_ways *ways)
{
    if (!ways)
        return;
    executor_close(ways->executor);
    io_pool_close(ways->direct);
    io_pool_close(ways->through);
    if (ways->registered)
        io_cufile_deregister(ways->there);
    bench_device_free(ways->setting.device, ways->there, ways->bytes);
    for (int i = 0; i < 2; i++)
        bench_device_free_host(ways->setting.device, ways->host[i], ways->piece_bytes);
    free(ways);
}
