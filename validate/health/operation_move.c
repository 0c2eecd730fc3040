// SPDX-License-Identifier: Apache-2.0
// The operations that move bytes: through memory, to a disk and back, between two ranks; and a training of all tiers.
#include "validate/health/operation.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "validate/health/health_round.h"
#include "ref/arithmetic/random.h"
#include "ref/comm/comm.h"
#include "ref/model/names/model_find.h"
#include "ref/model/text.h"
#include "ref/train/train.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { ALIGNMENT = 4096 };

static void fill_words(uint64_t *out, size_t bytes, uint64_t key)
{
    for (size_t i = 0; i < bytes / sizeof *out; i++)
        out[i] = random_at(key, i);
}

// The digests of the blocks, and whether each word is the one that was written. ERR_CHECK names the first that is not.
static int read_back(const uint64_t *from, size_t bytes, uint64_t key, unsigned char *result)
{
    for (size_t at = 0; at < bytes; at += HEALTH_BLOCK_BYTES, result += HEALTH_DIGEST_BYTES) {
        XXH128_canonical_t canonical;
        XXH128_canonicalFromHash(&canonical, XXH3_128bits((const char *)from + at, HEALTH_BLOCK_BYTES));
        memcpy(result, canonical.digest, HEALTH_DIGEST_BYTES);
    }
    for (size_t i = 0; i < bytes / sizeof *from; i++)
        if (from[i] != random_at(key, i))
            return err_set(ERR_CHECK, "offset %zu: %016llx was written, %016llx was read", i * sizeof *from,
                           (unsigned long long)random_at(key, i), (unsigned long long)from[i]);
    return ERR_NONE;
}

int health_memory(const struct health_operation *operation, const struct health_place *place, uint64_t seed,
                  void *result)
{
    // Moves up by half of the bytes, the upper half first, so that neither half overlaps what it is copied from, and
    // three halves are enough: all processors hold them together.
    const size_t half = HEALTH_MEMORY_BYTES / 2;
    char *words = aligned_alloc(ALIGNMENT, 3 * half);
    if (!words)
        return err_set(ERR_MEMORY, "out of memory for %zu bytes", 3 * half);
    fill_words((uint64_t *)words, HEALTH_MEMORY_BYTES, seed);
    memset(words + 2 * half, 0, half);
    double begin = clock_now_s();
    memcpy(words + 2 * half, words + half, half);
    memcpy(words + half, words, half);
    *place->moving_s = clock_now_s() - begin;
    health_spoil(operation, place, words + half, HEALTH_MEMORY_BYTES);
    int code = read_back((uint64_t *)(words + half), HEALTH_MEMORY_BYTES, seed, result);
    free(words);
    return code;
}

// The file has no name once it is open, so that nothing is left of it whatever happens. O_DIRECT keeps the page cache
// out, where the file system has it.
static int open_file(const char *folder, int core, char path[PATH_MAX])
{
    char name[64];
    snprintf(name, sizeof name, "zerogauge-health-%d-%ld", core, (long)getpid());
    if (file_join(folder, name, path) != ERR_NONE)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EINVAL)
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        (void)err_set(ERR_IO, "%s: %s", path, strerror(errno));
    else
        (void)unlink(path);
    return fd;
}

int health_disk(const struct health_operation *operation, const struct health_place *place, uint64_t seed, void *result)
{
    char path[PATH_MAX];
    uint64_t *words = aligned_alloc(ALIGNMENT, HEALTH_FILE_BYTES);
    if (!words)
        return err_set(ERR_MEMORY, "out of memory for %d bytes", HEALTH_FILE_BYTES);
    int fd = open_file(place->folder, place->core, path);
    if (fd < 0) {
        free(words);
        return ERR_IO;
    }
    fill_words(words, HEALTH_FILE_BYTES, seed);
    health_spoil(operation, place, words, HEALTH_FILE_BYTES);
    double begin = clock_now_s();
    int code = file_write(fd, path, words, HEALTH_FILE_BYTES);
    if (code == ERR_NONE)
        code = file_sync(fd, path);
    if (code == ERR_NONE)
        memset(words, 0, HEALTH_FILE_BYTES);
    if (code == ERR_NONE)
        code = file_read_at(fd, path, 0, words, HEALTH_FILE_BYTES);
    *place->moving_s = clock_now_s() - begin;
    if (code == ERR_NONE)
        code = read_back(words, HEALTH_FILE_BYTES, seed, result);
    close(fd);
    free(words);
    return code;
}

// One rank of a collective between two cores.
struct half {
    const struct health_operation *operation;
    const struct health_place *place;
    struct comm *comm;
    uint64_t seed;
    float *gathered;  // [2 x HEALTH_SHARD_COUNT]
    int code;
    char message[256];
};

static float sent(uint64_t seed, int rank, size_t element)
{
    return random_normal(random_at(random_key(seed, (uint64_t)rank), element));
}

static int reduce_and_gather(struct half *half, int rank)
{
    const size_t counts[] = {HEALTH_SHARD_COUNT, HEALTH_SHARD_COUNT}, offsets[] = {0, HEALTH_SHARD_COUNT};
    float *send = malloc(3 * (size_t)HEALTH_SHARD_COUNT * sizeof *send), *shard = send + 2 * HEALTH_SHARD_COUNT;
    if (!send)
        return err_set(ERR_MEMORY, "out of memory for a collective");
    for (size_t i = 0; i < 2 * (size_t)HEALTH_SHARD_COUNT; i++)
        send[i] = sent(half->seed, rank, i);
    double begin = clock_now_s();
    int code = comm_reduce_scatter(half->comm, send, shard, counts, offsets, DTYPE_FP32);
    if (code == ERR_NONE && rank == 0)
        health_spoil(half->operation, half->place, shard, HEALTH_SHARD_COUNT * sizeof *shard);
    if (code == ERR_NONE)
        code = comm_all_gather(half->comm, shard, half->gathered, counts, offsets, DTYPE_FP32);
    if (rank == 0)
        *half->place->moving_s = clock_now_s() - begin;
    free(send);
    return code;
}

static void *run_neighbour(void *context)
{
    struct half *half = context;
    half->code = pin_to(half->place->neighbour);
    if (half->code == ERR_NONE)
        half->code = reduce_and_gather(half, 1);
    if (half->code != ERR_NONE) {
        snprintf(half->message, sizeof half->message, "%s", err_message());
        comm_abort(half->comm, half->message);
    }
    return NULL;
}

// The result is what this core received; it and the neighbour's must be the sums.
int health_collective(const struct health_operation *operation, const struct health_place *place, uint64_t seed,
                      void *result)
{
    struct comm *comms[2];
    pthread_t thread;
    const size_t bytes = operation->result_bytes;
    float *theirs = malloc(bytes);
    if (!theirs)
        return err_set(ERR_MEMORY, "out of memory for a collective");
    int code = comm_local_open(2, comms);
    if (code != ERR_NONE) {
        free(theirs);
        return code;
    }
    struct half here = {operation, place, comms[0], seed, result, 0, ""},
                there = {operation, place, comms[1], seed, theirs, 0, ""};
    if (pthread_create(&thread, NULL, run_neighbour, &there) != 0) {
        code = err_set(ERR_MEMORY, "no thread for a collective");
    } else {
        code = reduce_and_gather(&here, 0);
        if (code != ERR_NONE)
            comm_abort(here.comm, err_message());
        pthread_join(thread, NULL);
    }
    if (code == ERR_NONE && there.code != ERR_NONE)
        code = err_set(there.code, "core %d: %s", place->neighbour, there.message);
    const float *received = result;
    for (size_t i = 0; i < bytes / sizeof *received && code == ERR_NONE; i++) {
        float sum = sent(seed, 0, i) + sent(seed, 1, i);
        if (received[i] != sum || theirs[i] != sum)
            code = err_set(ERR_CHECK, "element %zu: core %d received %a and core %d %a, of %a", i, place->core,
                           (double)received[i], place->neighbour, (double)theirs[i], (double)sum);
    }
    comm_close(comms[0]);
    comm_close(comms[1]);
    free(theirs);
    return code;
}

// A GPT by two ranks under ZeRO-3 with every state on NVMe, or in memory where there is no folder, compared with
// unsharded Adam's. All threads inherit this one's core.
int health_training(const struct health_operation *operation, const struct health_place *place, uint64_t seed,
                    void *result)
{
    const struct model *model;
    struct config config;
    struct train_result trained;
    struct text *text;
    TRY(model_find("gpt-nano", &model));
    const struct config_options options = {
        .world = 2, .nvme_paths = &place->folder, .nvme_path_count = place->folder ? 1 : 0};
    TRY(config_load_preset(place->folder ? "zero_infinity" : "zero3", &options, &config, NULL));
    TRY(text_open(TEXT_TIMES, &text));
    const struct train_setting setting = {.config = &config,
                                          .model = model,
                                          .text = text,
                                          .world = 2,
                                          .steps = 2,
                                          .seed = seed,
                                          .schedule = {EXECUTOR_OVERLAP, 0},
                                          .threads = 1,
                                          .swap_checksum = true,
                                          .buffered = true,
                                          .verify = true};
    int code = train_run(&setting, &trained);
    text_close(text);
    free(trained.step_ns);
    if (code == ERR_NONE && trained.difference.found)
        code = err_set(ERR_CHECK, "step %llu, rank %d: %s of %s, element %llu is %0*llx instead of %0*llx",
                       (unsigned long long)trained.difference.step, trained.difference.rank, trained.difference.state,
                       trained.difference.tensor, (unsigned long long)trained.difference.element,
                       trained.difference.bits / 4, (unsigned long long)trained.difference.actual_bits,
                       trained.difference.bits / 4, (unsigned long long)trained.difference.expected_bits);
    if (code == ERR_NONE)
        memcpy(result, trained.digest, operation->result_bytes);
    health_spoil(operation, place, result, operation->result_bytes);
    return code;
}
