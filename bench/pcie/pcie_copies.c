// SPDX-License-Identifier: Apache-2.0
#include "bench/pcie/pcie.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct copy_stream {
    struct pcie_copies *copies;
    int device;
    bool to_device;
    pthread_t thread;
    void *device_memory, *host;  // host: where the copies are compared, too
    void *peer_memory;           // null: the copies go to and from `host`
    void *from, *to;
    unsigned char *pattern;  // the bytes that are copied
    double ms;
    int code;
    char message[512];
};

struct pcie_copies {
    struct pcie_setting setting;
    pthread_barrier_t turn;  // of all streams and the caller: before prepare, copy, compare, and after
    bool closing;
    pthread_mutex_t start;  // held until all threads are started, or one could not be
    bool incomplete;
    int stream_count;
    struct copy_stream streams[];
};

bool pcie_memory_is_peer(enum pcie_memory memory)
{
    return memory == PCIE_PEER || memory == PCIE_PEER_MAPPED;
}

const char *pcie_direction_name(enum pcie_memory memory, enum pcie_direction direction)
{
    static const char *const names[][PCIE_DIRECTION_COUNT] = {{"h2d", "d2h", "both"}, {"read", "write", "both"}};
    return names[pcie_memory_is_peer(memory)][direction];
}

const char *pcie_memory_name(enum pcie_memory memory)
{
    static const char *const names[] = {"pinned", "driver's", "pageable", "mapped", "peer", "peer mapped"};
    return names[memory];
}

static int peer_of(const struct copy_stream *stream)
{
    const struct pcie_setting *s = &stream->copies->setting;
    return (stream->device + s->distance) % s->link->device_count;
}

// The pattern differs between offsets, directions and devices.
static void fill_pattern(struct copy_stream *stream)
{
    uint64_t key = random_key((uint64_t)stream->device, stream->to_device);
    for (size_t at = 0; at < stream->copies->setting.bytes; at += sizeof(uint64_t)) {
        uint64_t word = random_at(key, at);
        memcpy(stream->pattern + at, &word, sizeof word);
    }
}

// Copies everything between the host and a device, and waits.
static int pass_all(const struct copy_stream *stream, void *to, const void *from)
{
    const struct pcie_setting *s = &stream->copies->setting;
    double ms;
    TRY(s->link->begin());
    TRY(s->link->copy(to, from, s->bytes));
    return s->link->end(&ms);
}

static int open_peer(struct copy_stream *stream)
{
    const struct pcie_setting *s = &stream->copies->setting;
    TRY(s->link->enter(peer_of(stream)));
    return s->link->device_open(s->bytes, &stream->peer_memory);
}

static int open_stream(struct copy_stream *stream)
{
    const struct pcie_setting *s = &stream->copies->setting;
    TRY(pcie_memory_is_peer(s->memory) ? open_peer(stream) : ERR_NONE);
    TRY(s->link->enter(stream->device));
    TRY(s->link->device_open(s->bytes, &stream->device_memory));
    TRY(s->link->host_open(s->memory, s->bytes, &stream->host));
    if (!(stream->pattern = malloc(s->bytes)))
        return err_set(ERR_MEMORY, "no memory for a pattern of %zu bytes", s->bytes);
    fill_pattern(stream);
    void *other = stream->peer_memory ? stream->peer_memory : stream->host;
    stream->to = stream->to_device ? stream->device_memory : other;
    stream->from = stream->to_device ? other : stream->device_memory;
    memcpy(stream->host, stream->pattern, s->bytes);
    return stream->from == stream->host ? ERR_NONE : pass_all(stream, stream->from, stream->host);
}

// Overwrites every byte of the target with another value than the pattern's.
static int prepare(struct copy_stream *stream)
{
    const struct pcie_setting *s = &stream->copies->setting;
    for (size_t i = 0; i < s->bytes; i++)
        ((unsigned char *)stream->host)[i] = (unsigned char)~stream->pattern[i];
    if (stream->to != stream->host)
        TRY(pass_all(stream, stream->to, stream->host));
    if (stream->from == stream->host)
        memcpy(stream->host, stream->pattern, s->bytes);
    return ERR_NONE;
}

static int compare(struct copy_stream *stream)
{
    const struct pcie_setting *s = &stream->copies->setting;
    if (stream->to != stream->host) {
        memset(stream->host, 0, s->bytes);
        TRY(pass_all(stream, stream->host, stream->to));
    }
    if (memcmp(stream->host, stream->pattern, s->bytes) == 0)
        return ERR_NONE;
    size_t at = 0;
    while (((unsigned char *)stream->host)[at] == stream->pattern[at])
        at++;
    if (stream->peer_memory)
        return err_set(ERR_CHECK, "pcie: byte %zu of %zu copied %s device %d by device %d is wrong", at, s->bytes,
                       stream->to_device ? "from" : "to", peer_of(stream), stream->device);
    return err_set(ERR_CHECK, "pcie: byte %zu of %zu copied %s device %d is wrong", at, s->bytes,
                   stream->to_device ? "to" : "from", stream->device);
}

static int run_copies(struct copy_stream *stream)
{
    const struct pcie_setting *s = &stream->copies->setting;
    bool by_kernel = s->memory == PCIE_MAPPED || s->memory == PCIE_PEER_MAPPED;
    int (*copy)(void *, const void *, size_t) = by_kernel ? s->link->copy_by_kernel : s->link->copy;
    TRY(s->link->begin());
    for (size_t at = 0; at < s->bytes; at += s->block_bytes)
        TRY(copy((char *)stream->to + at, (const char *)stream->from + at, s->block_bytes));
    return s->link->end(&stream->ms);
}

static void keep(struct copy_stream *stream, int code)
{
    if (code == ERR_NONE || stream->code != ERR_NONE)
        return;
    stream->code = code;
    snprintf(stream->message, sizeof stream->message, "%s", err_message());
}

// Every stream passes every barrier, also after an error, so that no other stream waits for it.
static void *run_stream(void *argument)
{
    struct copy_stream *stream = argument;
    struct pcie_copies *copies = stream->copies;
    pthread_mutex_lock(&copies->start);
    bool incomplete = copies->incomplete;
    pthread_mutex_unlock(&copies->start);
    if (incomplete)
        return NULL;
    keep(stream, open_stream(stream));
    for (;;) {
        pthread_barrier_wait(&copies->turn);
        if (copies->closing)
            break;
        if (stream->code == ERR_NONE)
            keep(stream, prepare(stream));
        pthread_barrier_wait(&copies->turn);
        if (stream->code == ERR_NONE)
            keep(stream, run_copies(stream));
        pthread_barrier_wait(&copies->turn);
        if (stream->code == ERR_NONE)
            keep(stream, compare(stream));
        pthread_barrier_wait(&copies->turn);
    }
    if (stream->device_memory)
        copies->setting.link->device_close(stream->device_memory);
    if (stream->peer_memory)
        copies->setting.link->device_close(stream->peer_memory);
    copies->setting.link->host_close(copies->setting.memory, stream->host, copies->setting.bytes);
    free(stream->pattern);
    return NULL;
}

static void free_copies(struct pcie_copies *copies)
{
    pthread_mutex_destroy(&copies->start);
    pthread_barrier_destroy(&copies->turn);
    free(copies);
}

int pcie_copies_open(const struct pcie_setting *setting, struct pcie_copies **out)
{
    assert(setting->device_count > 0 && setting->block_bytes > 0 && setting->bytes % setting->block_bytes == 0 &&
           setting->block_bytes % PCIE_COPY_BYTES == 0);
    int each = setting->direction == PCIE_BOTH ? 2 : 1, count = each * setting->device_count;
    struct pcie_copies *copies = calloc(1, sizeof *copies + (size_t)count * sizeof copies->streams[0]);
    *out = NULL;
    if (!copies)
        return err_set(ERR_MEMORY, "no memory for %d streams", count);
    copies->setting = *setting;
    copies->stream_count = count;
    pthread_barrier_init(&copies->turn, NULL, (unsigned)count + 1);
    pthread_mutex_init(&copies->start, NULL);
    pthread_mutex_lock(&copies->start);
    int started = 0;
    for (; started < count; started++) {
        struct copy_stream *stream = &copies->streams[started];
        stream->copies = copies;
        stream->device = setting->first_device + started / each;
        stream->to_device = setting->direction == PCIE_H2D || (setting->direction == PCIE_BOTH && started % 2 == 0);
        if (pthread_create(&stream->thread, NULL, run_stream, stream) != 0)
            break;
    }
    copies->incomplete = started < count;
    pthread_mutex_unlock(&copies->start);
    if (started == count) {
        *out = copies;
        return ERR_NONE;
    }
    for (int i = 0; i < started; i++)
        pthread_join(copies->streams[i].thread, NULL);
    free_copies(copies);
    return err_set(ERR_MEMORY, "cannot start a thread for copies");
}

void pcie_copies_close(struct pcie_copies *copies)
{
    if (!copies)
        return;
    copies->closing = true;
    pthread_barrier_wait(&copies->turn);
    for (int i = 0; i < copies->stream_count; i++)
        pthread_join(copies->streams[i].thread, NULL);
    free_copies(copies);
}

int pcie_copies_sample(struct pcie_copies *copies, double *bytes_per_s)
{
    for (int turn = 0; turn < 4; turn++)
        pthread_barrier_wait(&copies->turn);
    double longest_ms = 0;
    for (int i = 0; i < copies->stream_count; i++) {
        const struct copy_stream *stream = &copies->streams[i];
        if (stream->code != ERR_NONE)
            return err_set(stream->code, "%s", stream->message);
        longest_ms = stream->ms > longest_ms ? stream->ms : longest_ms;
    }
    *bytes_per_s = (double)copies->setting.bytes * copies->stream_count / longest_ms * 1e3;
    return ERR_NONE;
}
