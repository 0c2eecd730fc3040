// SPDX-License-Identifier: Apache-2.0
#include "validate/health/cuda_check.h"
#include "validate/health/device_check.h"
#include "validate/health/vote.h"

#include "base/err.h"
#include "ref/cuda/cuda_lane.h"

#include <cuda_runtime_api.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS_EACH = 4, MULTIPROCESSOR_MAX = 1024, CHUNK_MAX = 1024, COPY_BYTES = 8 << 20, ALL = -1 };
static const size_t CHUNK_BYTES = 1 << 30, CHUNK_LEAST_BYTES = 1 << 20;

struct check {
    int device;
    uint64_t seed, round_number;
    const struct device_flip *flip;
    struct health_round *round;
    size_t multiprocessors, memory_bytes, wanted_bytes;
};

static bool is_flipped(const struct check *c, const char *operation, int at)
{
    const struct device_flip *flip = c->flip;
    return flip && flip->operation && strcmp(flip->operation, operation) == 0 && flip->at == at &&
           (flip->round == 0 || flip->round == c->round_number);
}

static const struct health_operation *operation_of(const char *name)
{
    static const struct health_operation operations[] = {{.name = DEVICE_PRODUCTS, .lane = HEALTH_COMPUTE},
                                                         {.name = DEVICE_MEMORY, .lane = HEALTH_MEMORY},
                                                         {.name = DEVICE_COPIES, .lane = HEALTH_MEMORY}};
    size_t i = 0;
    while (strcmp(operations[i].name, name) != 0)
        i++;
    return &operations[i];
}

static int add(const struct check *c, const char *operation, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int add(const struct check *c, const char *operation, const char *format, ...)
{
    struct health_mismatch m = {.core = HEALTH_CORE_GPU,
                                .gpu = c->device,
                                .operation = operation_of(operation),
                                .round = c->round_number,
                                .seed = c->seed};
    int used = snprintf(m.text, sizeof m.text, "GPU %d: ", c->device);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(m.text + used, sizeof m.text - (size_t)used, format, arguments);
    va_end(arguments);
    return health_mismatch_add(c->round, &m);
}

// One launch. seen: [MULTIPROCESSOR_MAX], whether a block of that one worked; their numbers may have gaps.
static int check_launch(const struct check *c, int only, const uint64_t expected[2], struct cuda_check_block *blocks,
                        bool *seen)
{
    unsigned count = (unsigned)(BLOCKS_EACH * c->multiprocessors);
    int flip = c->flip && is_flipped(c, DEVICE_PRODUCTS, c->flip->at) ? c->flip->at : -1;
    TRY(cuda_check_products(c->seed, only, flip, blocks, count));
    size_t worked[MULTIPROCESSOR_MAX] = {0}, wrong[MULTIPROCESSOR_MAX][2] = {{0}};
    for (unsigned i = 0; i < count; i++) {
        unsigned m = blocks[i].multiprocessor;
        if (!blocks[i].worked || m >= MULTIPROCESSOR_MAX)
            continue;
        worked[m]++;
        seen[m] = true;
        for (int kind = 0; kind < 2; kind++)
            wrong[m][kind] += blocks[i].digests[kind] != expected[kind];
    }
    for (unsigned m = 0; m < MULTIPROCESSOR_MAX; m++)
        for (int kind = 0; kind < 2; kind++)
            if (wrong[m][kind] > 0)
                TRY(add(c, DEVICE_PRODUCTS, "multiprocessor %u: %s are not the processor's in %zu of %zu products%s", m,
                        kind == 0 ? "chains of fused multiply-adds" : "sums of tensor cores", wrong[m][kind], worked[m],
                        only == ALL ? ", while all others work" : ", alone"));
    return ERR_NONE;
}

// All together, then each alone, which shows whose fault a wrong result is.
static int check_products(const struct check *c)
{
    uint64_t expected[2];
    bool seen[MULTIPROCESSOR_MAX] = {false}, alone[MULTIPROCESSOR_MAX] = {false};
    size_t seen_count = 0;
    struct cuda_check_block *blocks = calloc(BLOCKS_EACH * c->multiprocessors, sizeof *blocks);
    int code = blocks ? ERR_NONE : err_set(ERR_MEMORY, "out of memory for digests");
    cuda_check_expected(c->seed, expected);
    if (code == ERR_NONE)
        code = check_launch(c, ALL, expected, blocks, seen);
    for (int m = 0; m < MULTIPROCESSOR_MAX && code == ERR_NONE; m++) {
        if (!seen[m])
            continue;
        code = check_launch(c, m, expected, blocks, alone);
        seen_count += alone[m];
    }
    free(blocks);
    if (code == ERR_NONE && seen_count < c->multiprocessors)
        code =
            add(c, DEVICE_PRODUCTS, "products ran on %zu of its %zu multiprocessors", seen_count, c->multiprocessors);
    return code;
}

struct chunk {
    uint64_t *words;
    size_t count, first;
};

// Takes nine tenths of the free memory, in pieces, or as much of that as the device gives.
static size_t take_memory(struct chunk *chunks, struct check *c)
{
    size_t free_bytes = 0, total_bytes, count = 0, bytes = CHUNK_BYTES, first = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess)
        return 0;
    c->wanted_bytes = free_bytes / 80 * 9 * sizeof(uint64_t);
    while (count < CHUNK_MAX && c->memory_bytes < c->wanted_bytes && bytes >= CHUNK_LEAST_BYTES) {
        size_t asked = c->wanted_bytes - c->memory_bytes < bytes ? c->wanted_bytes - c->memory_bytes : bytes;
        if (cudaMalloc((void **)&chunks[count].words, asked) != cudaSuccess) {
            (void)cudaGetLastError();
            bytes /= 2;
            continue;
        }
        chunks[count].count = asked / sizeof(uint64_t);
        chunks[count].first = first;
        first += chunks[count++].count;
        c->memory_bytes += asked;
    }
    return count;
}

static const char *pattern_name(int pattern)
{
    static const char *const names[PATTERN_COUNT] = {"its own address", "alternating bits", "a walking one",
                                                     "random bits"};
    return names[pattern];
}

// A pattern is written, read while its complement is written, and that is read.
static int check_pattern(const struct check *c, const struct chunk *chunks, size_t count, int pattern,
                         struct cuda_check_wrong *found)
{
    struct cuda_check_wrong wrong[2] = {{0}};
    const uint64_t middle = chunks[count - 1].first + chunks[count - 1].count / 2;
    const uint64_t flip = is_flipped(c, DEVICE_MEMORY, c->device) ? middle : UINT64_MAX;
    TRY(cuda_lane_note(cudaMemsetAsync(found, 0, sizeof wrong, cuda_lane_stream()), "counts"));
    for (size_t i = 0; i < count; i++)
        cuda_check_write(chunks[i].words, chunks[i].count, chunks[i].first, (enum cuda_check_pattern)pattern, c->seed);
    for (int complement = 0; complement < 2; complement++)
        for (size_t i = 0; i < count; i++)
            cuda_check_read(chunks[i].words, chunks[i].count, chunks[i].first, (enum cuda_check_pattern)pattern,
                            c->seed, complement, flip, &found[complement]);
    TRY(cuda_lane_note(cudaMemcpyAsync(wrong, found, sizeof wrong, cudaMemcpyDeviceToHost, cuda_lane_stream()),
                       "counts of wrong words"));
    TRY(cuda_lane_wait());
    for (int complement = 0; complement < 2; complement++)
        if (wrong[complement].count > 0)
            TRY(add(c, DEVICE_MEMORY, "%llu words did not keep %s%s, first at byte %llu of what was tested",
                    wrong[complement].count, complement ? "the complement of " : "", pattern_name(pattern),
                    8 * ~wrong[complement].last_inverse));
    return ERR_NONE;
}

static int check_memory(struct check *c)
{
    struct chunk *chunks = calloc(CHUNK_MAX, sizeof *chunks);
    struct cuda_check_wrong *found = NULL;
    int code = chunks ? cuda_lane_error(cudaMalloc((void **)&found, 2 * sizeof *found), "memory for counts")
                      : err_set(ERR_MEMORY, "out of memory for addresses");
    size_t count = code == ERR_NONE ? take_memory(chunks, c) : 0;
    if (code == ERR_NONE && c->wanted_bytes == 0)
        code = err_set(ERR_MEMORY, "GPU %d has no memory left to test", c->device);
    for (int pattern = 0; count > 0 && pattern < PATTERN_COUNT && code == ERR_NONE; pattern++)
        code = check_pattern(c, chunks, count, pattern, found);
    if (code == ERR_NONE && c->memory_bytes < c->wanted_bytes)
        code = add(c, DEVICE_MEMORY,
                   "%.3f GB of memory were tested, and not %.3f, nine tenths of what is free: the device gave no more, "
                   "in %zu pieces",
                   (double)c->memory_bytes * 1e-9, (double)c->wanted_bytes * 1e-9, count);
    for (size_t i = 0; i < count; i++)
        (void)cudaFree(chunks[i].words);
    (void)cudaFree(found);
    free(chunks);
    return code;
}

// To the device, which compares and writes the complements; and back.
static int copy_both_ways(const struct check *c, uint64_t *host, uint64_t *device, struct cuda_check_wrong *found)
{
    const size_t count = COPY_BYTES / sizeof *host;
    struct cuda_check_wrong wrong = {0};
    for (size_t i = 0; i < count; i++)
        host[i] = cuda_check_word(c->seed, i);
    TRY(cuda_lane_note(cudaMemsetAsync(found, 0, sizeof *found, cuda_lane_stream()), "counts"));
    TRY(cuda_lane_note(cudaMemcpyAsync(device, host, COPY_BYTES, cudaMemcpyHostToDevice, cuda_lane_stream()),
                       "a copy to the device"));
    const bool flips = is_flipped(c, DEVICE_COPIES, c->device);
    cuda_check_read(device, count, 0, PATTERN_RANDOM, c->seed, 0, flips ? count / 2 : UINT64_MAX, found);
    TRY(cuda_lane_note(cudaMemcpyAsync(&wrong, found, sizeof wrong, cudaMemcpyDeviceToHost, cuda_lane_stream()),
                       "counts of wrong words"));
    TRY(cuda_lane_note(cudaMemcpyAsync(host, device, COPY_BYTES, cudaMemcpyDeviceToHost, cuda_lane_stream()),
                       "a copy to the host"));
    TRY(cuda_lane_wait());
    if (flips)
        host[count / 2] ^= 0x10;
    if (wrong.count > 0)
        TRY(add(c, DEVICE_COPIES, "%llu of %zu words arrived otherwise from the host, first number %llu", wrong.count,
                count, ~wrong.last_inverse));
    for (size_t i = 0; i < count; i++)
        if (host[i] != ~cuda_check_word(c->seed, i))
            return add(c, DEVICE_COPIES,
                       "word %zu of %zu arrived otherwise from the device: %016" PRIx64 ", not %016" PRIx64, i, count,
                       host[i], ~cuda_check_word(c->seed, i));
    return ERR_NONE;
}

static int check_copies(const struct check *c)
{
    uint64_t *host = NULL, *device = NULL;
    struct cuda_check_wrong *found = NULL;
    int code = cuda_lane_error(cudaHostAlloc((void **)&host, COPY_BYTES, cudaHostAllocPortable), "page-locked memory");
    if (code == ERR_NONE)
        code = cuda_lane_error(cudaMalloc((void **)&device, COPY_BYTES), "memory for copies");
    if (code == ERR_NONE)
        code = cuda_lane_error(cudaMalloc((void **)&found, sizeof *found), "memory for counts");
    if (code == ERR_NONE)
        code = copy_both_ways(c, host, device, found);
    (void)cudaFree(found);
    (void)cudaFree(device);
    (void)cudaFreeHost(host);
    return code;
}

int cuda_check_multiprocessors(int device)
{
    int count = 0;
    if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        count = 0;
    return count;
}

static int check_device(struct check *c)
{
    TRY(cuda_lane_use(c->device));
    c->multiprocessors = (size_t)cuda_check_multiprocessors(c->device);
    if (c->multiprocessors == 0)
        return err_set(ERR_IO, "GPU %d: the driver does not say how many multiprocessors it has", c->device);
    TRY(check_products(c));
    TRY(check_copies(c));
    return check_memory(c);
}

int cuda_check(uint64_t seed, const struct device_flip *flip, uint64_t round_number, struct health_round *round,
               char text[HEALTH_TEXT_MAX])
{
    size_t multiprocessors = 0, memory_bytes = 0, before = round->mismatch_count;
    int devices = cuda_lane_device_count();
    for (int device = 0; device < devices; device++) {
        struct check c = {.device = device, .seed = seed, .round_number = round_number, .flip = flip, .round = round};
        TRY(check_device(&c));
        multiprocessors += c.multiprocessors;
        memory_bytes += c.memory_bytes;
    }
    *text = '\0';
    if (round->mismatch_count > before)
        return ERR_NONE;
    snprintf(
        text, HEALTH_TEXT_MAX,
        "%d GPUs: %zu multiprocessors have the processor's bits, alone and all together; %.2f GB of memory keep %d "
        "patterns; copies arrive unchanged",
        devices, multiprocessors, (double)memory_bytes * 1e-9, PATTERN_COUNT);
    return ERR_NONE;
}
