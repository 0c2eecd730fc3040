// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/nvme_stream.h"

#include "bench/harness/bench.h"
#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

// The unit in which the number of writes is known.
enum { BLOCK_BYTES = 4096, BLOCK_WORDS = BLOCK_BYTES / 8, SECTOR_WORDS = 512 / 8 };

static const uint64_t STEP = 0x9e3779b97f4a7c15u;

int nvme_files_open(const char *const paths[], int count, uint64_t bytes, bool buffered, struct nvme_files *out)
{
    assert(count > 0 && bytes > 0 && bytes % BLOCK_BYTES == 0);
    *out = (struct nvme_files){.bytes = bytes};
    out->folders = calloc((size_t)count, sizeof *out->folders);
    out->passes = calloc((size_t)count, sizeof(uint32_t *));
    int code = out->folders && out->passes ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %d files", count);
    while (code == ERR_NONE && out->count < count) {
        struct nvme_folder *folder = &out->folders[out->count];
        code = nvme_folder_open(paths[out->count], buffered, folder);
        if (code != ERR_NONE)
            break;
        uint64_t offset;
        code = nvme_folder_take(folder, NULL, "the benchmark's file", bytes, &offset);
        uint32_t *passes = code == ERR_NONE ? calloc(bytes / BLOCK_BYTES, sizeof *passes) : NULL;
        if (code == ERR_NONE && !passes)
            code = err_set(ERR_MEMORY, "no memory for the write counts of a file");
        out->passes[out->count++] = passes;
    }
    if (code != ERR_NONE)
        nvme_files_close(out);
    return code;
}

void nvme_files_close(struct nvme_files *files)
{
    for (int i = 0; i < files->count; i++) {
        nvme_folder_close(&files->folders[i]);
        free(files->passes[i]);
    }
    free(files->folders);
    free(files->passes);
    *files = (struct nvme_files){0};
}

const char *stream_direction_name(enum stream_direction direction)
{
    static const char *const names[STREAM_DIRECTION_COUNT] = {"read", "write", "mixed"};
    return names[direction];
}

static uint64_t block_key(int file, uint64_t offset, uint32_t pass)
{
    return random_key(random_key((uint64_t)file, offset), pass);
}

static void block_stamp(uint64_t words[BLOCK_WORDS], uint64_t key)
{
    for (uint64_t i = 0; i < BLOCK_WORDS; i += SECTOR_WORDS)
        words[i] = key + i;
}

// Fills the bytes between the stamps.
static void block_fill(uint64_t words[BLOCK_WORDS])
{
    for (uint64_t i = 0; i < BLOCK_WORDS; i++)
        words[i] = i * STEP;
}

// Returns whether the block has the key. A timed read compares the first stamp only: touching more of the buffer would
// bring it into cache and slow down the disk's next transfer into it.
static bool block_is(const uint64_t words[BLOCK_WORDS], uint64_t key, bool thorough)
{
    uint64_t difference = words[0] ^ key;
    for (uint64_t i = 1; thorough && i < BLOCK_WORDS; i++)
        difference |= words[i] ^ (i % SECTOR_WORDS == 0 ? key + i : i * STEP);
    return difference == 0;
}

// A running stream.
struct activity {
    const struct stream *stream;
    uint64_t block_count;  // of all files together
    uint64_t start_ns, deadline_ns;
    unsigned char **vacant;  // buffers of block_bytes that no request uses
    int vacant_count;
    uint64_t began_ns;  // start of the request in flight, with depth 1
    double due_ns[2];   // from the start: when an emulated disk has finished all reads, and all writes, so far
    size_t latency_room;
    struct stream_result *result;
};

// The n-th request of a stream.
struct target {
    bool write;
    int file;
    uint64_t offset;
};

static struct target target_of(const struct activity *activity, uint64_t n)
{
    const struct stream *stream = activity->stream;
    uint64_t files = (uint64_t)stream->files->count, half = activity->block_count / 2;
    uint64_t block = n % activity->block_count;
    struct target target = {.write = stream->direction == STREAM_WRITE};
    if (stream->random)
        block = random_below(random_at(activity->start_ns, n), activity->block_count);
    if (stream->direction == STREAM_MIXED) {
        target.write = n % 2 == 1;
        block = (target.write ? half : 0) + n / 2 % half;
    }
    // Consecutive blocks lie in different files.
    target.file = (int)(block % files);
    target.offset = block / files * stream->block_bytes;
    return target;
}

// Waits until an emulated disk has finished the previous requests of this direction.
static void wait_for_disk(struct activity *activity, bool write)
{
    const struct emulation *emulation = activity->stream->emulation;
    double bytes_per_s = emulation ? emulation->bytes_per_s[write ? LANE_NVME_WRITE : LANE_NVME_READ] : 0;
    if (bytes_per_s == 0)
        return;
    emulation_sleep_until(activity->start_ns + (uint64_t)activity->due_ns[write]);
    activity->due_ns[write] += (double)activity->stream->block_bytes / bytes_per_s * 1e9;
}

static void locate(void *context, uint64_t at, struct io_location *out)
{
    struct activity *activity = context;
    const struct stream *stream = activity->stream;
    if (clock_now_ns() >= activity->deadline_ns) {
        out->bytes = 0;
        return;
    }
    struct target target = target_of(activity, at / stream->block_bytes);
    wait_for_disk(activity, target.write);
    const struct nvme_folder *folder = &stream->files->folders[target.file];
    *out = (struct io_location){.write = target.write,
                                .file = folder->file,
                                .path = folder->path,
                                .alignment_bytes = folder->alignment_bytes,
                                .offset = target.offset,
                                .memory = activity->vacant[--activity->vacant_count],
                                .bytes = stream->block_bytes};
    uint32_t *passes = stream->files->passes[target.file] + target.offset / BLOCK_BYTES;
    for (size_t i = 0; target.write && i < stream->block_bytes / BLOCK_BYTES; i++)
        block_stamp((uint64_t *)(out->memory + i * BLOCK_BYTES),
                    block_key(target.file, target.offset + i * BLOCK_BYTES, ++passes[i]));
    if (stream->depth == 1)
        activity->began_ns = clock_now_ns();
}

static int check(const struct stream *stream, struct target target, const unsigned char *memory, size_t bytes)
{
    const uint32_t *passes = stream->files->passes[target.file] + target.offset / BLOCK_BYTES;
    for (size_t i = 0; i < bytes / BLOCK_BYTES; i++) {
        uint64_t offset = target.offset + i * BLOCK_BYTES;
        uint64_t key = block_key(target.file, offset, passes[i]);
        if (!block_is((const uint64_t *)(memory + i * BLOCK_BYTES), key, stream->thorough))
            return err_set(ERR_CHECK,
                           "%s: data read at offset %" PRIu64 " of the file differs from what was last "
                           "written (pass %" PRIu32 ")",
                           stream->files->folders[target.file].path, offset, passes[i]);
    }
    return ERR_NONE;
}

static int note_latency(struct activity *activity, uint64_t ns)
{
    struct stream_result *result = activity->result;
    if (result->request_count == activity->latency_room) {
        size_t room = activity->latency_room ? 2 * activity->latency_room : 4096;
        uint64_t *larger = realloc(result->latencies_ns, room * sizeof *larger);
        if (!larger)
            return err_set(ERR_MEMORY, "no memory for %zu latencies", room);
        result->latencies_ns = larger;
        activity->latency_room = room;
    }
    result->latencies_ns[result->request_count] = ns;
    return ERR_NONE;
}

static int finish(void *context, uint64_t at, const unsigned char *memory, size_t bytes)
{
    struct activity *activity = context;
    const struct stream *stream = activity->stream;
    if (stream->depth == 1)
        TRY(note_latency(activity, clock_now_ns() - activity->began_ns));
    activity->result->request_count++;
    activity->result->bytes += bytes;
    activity->vacant[activity->vacant_count++] = (unsigned char *)(uintptr_t)memory;
    struct target target = target_of(activity, at / stream->block_bytes);
    return target.write ? ERR_NONE : check(stream, target, memory, bytes);
}

static int activity_run(struct activity *activity)
{
    const struct stream *stream = activity->stream;
    struct nvme_aio aio = {.block_bytes = stream->block_bytes,
                           .queue_depth = stream->depth,
                           .overlap_events = true,
                           .intra_op_parallelism = 1};
    struct io_pool *pool;
    TRY(io_pool_open(io_engine_of(stream->engine), &aio, NULL, &pool));
    uint64_t blocks = stream->block_max ? stream->block_max : UINT64_MAX / 4 / stream->block_bytes;
    struct io_transfer transfer = {blocks * stream->block_bytes, locate, finish, activity, NULL};
    activity->start_ns = clock_now_ns();
    activity->deadline_ns = activity->start_ns + (uint64_t)(stream->seconds * 1e9);
    int code = io_pool_transfer(pool, &transfer);
    emulation_sleep_until(activity->start_ns + (uint64_t)fmax(activity->due_ns[0], activity->due_ns[1]));
    activity->result->ns = clock_now_ns() - activity->start_ns;
    io_pool_close(pool);
    return code;
}

int stream_run(const struct stream *stream, struct stream_result *out)
{
    struct activity activity = {.stream = stream, .result = out, .vacant_count = stream->depth};
    activity.block_count = stream->files->bytes / stream->block_bytes * (uint64_t)stream->files->count;
    assert(stream->depth > 0 && (!stream->random || stream->depth == 1));
    assert(stream->block_bytes > 0 && stream->block_bytes % BLOCK_BYTES == 0);
    *out = (struct stream_result){0};
    if (activity.block_count < 4 * (uint64_t)stream->depth)
        return err_set(ERR_USAGE,
                       "--size: %d requests of %zu bytes in flight need files of at least %" PRIu64 " bytes "
                       "together",
                       stream->depth, stream->block_bytes, 4 * (uint64_t)stream->depth * stream->block_bytes);
    size_t memory_bytes = (size_t)stream->depth * stream->block_bytes;
    unsigned char *memory = bench_alloc(memory_bytes, 1);
    activity.vacant = calloc((size_t)stream->depth, sizeof(unsigned char *));
    int code = ERR_NONE;
    if (!memory || !activity.vacant)
        code = err_set(ERR_MEMORY, "no memory for %d requests of %zu bytes", stream->depth, stream->block_bytes);
    for (int i = 0; code == ERR_NONE && i < stream->depth; i++)
        activity.vacant[i] = memory + (size_t)i * stream->block_bytes;
    bool writes = stream->direction != STREAM_READ;
    for (size_t at = 0; code == ERR_NONE && writes && at < memory_bytes; at += BLOCK_BYTES)
        block_fill((uint64_t *)(memory + at));
    if (code == ERR_NONE)
        code = activity_run(&activity);
    free(activity.vacant);
    bench_free(memory, memory_bytes);
    if (code != ERR_NONE) {
        free(out->latencies_ns);
        *out = (struct stream_result){0};
    }
    return code;
}

// Streams over the first `bytes` of all files together, in the largest blocks, up to 1 MiB, that divide the files.
static int stream_first(struct nvme_files *files, enum stream_direction direction, uint64_t bytes)
{
    size_t block_bytes = 1 << 20;
    while (files->bytes % block_bytes != 0 || files->bytes / block_bytes < 8)
        block_bytes /= 2;
    uint64_t all = files->bytes / block_bytes * (uint64_t)files->count;
    uint64_t blocks = bytes / block_bytes + (bytes % block_bytes != 0);
    struct stream stream = {.files = files,
                            .engine = NVME_LIBAIO,
                            .direction = direction,
                            .block_bytes = block_bytes,
                            .depth = 2,
                            .seconds = 1e9,
                            .thorough = true,
                            .block_max = blocks < all ? blocks : all};
    struct io_queue *queue;
    if (io_queue_open(io_engine_of(NVME_LIBAIO), 1, &queue) == ERR_NONE)
        io_queue_close(queue);
    else
        stream.engine = NVME_IO_URING;
    struct stream_result result;
    return stream_run(&stream, &result);
}

int stream_read_back(struct nvme_files *files, uint64_t bytes, size_t block_bytes)
{
    // Consecutive blocks lie in different files, so that blocks of another size end elsewhere: one more of each in
    // each.
    uint64_t margin = (uint64_t)files->count * (block_bytes + (1 << 20));
    return bytes > 0 ? stream_first(files, STREAM_READ, bytes + margin) : ERR_NONE;
}

int stream_all(struct nvme_files *files, enum stream_direction direction)
{
    return stream_first(files, direction, files->bytes * (uint64_t)files->count);
}
