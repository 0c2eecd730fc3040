// SPDX-License-Identifier: Apache-2.0
// For tests with ranks: one thread for each rank, and its findings.
#pragma once

#include "ref/comm/comm.h"
#include "base/clock.h"
#include "base/err.h"
#include "ref/arithmetic/accelerator.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    RANKS_MAX = 16,
    REPORT_BYTES = 512,
    HANG_S = 300  // which no call lasts that ends at all
};

static const int many_worlds[] = {1, 2, 3, 4, 8, 11};
#define EACH_WORLD(index)                                                                                              \
    size_t index = 0;                                                                                                  \
    index < sizeof many_worlds / sizeof many_worlds[0];                                                                \
    index++

// One rank's thread. The test's body uses comm and context, and reports an error by rank_wrong.
struct rank {
    struct comm *comm;
    int index, world;
    void *context;
    void (*body)(struct rank *rank);
    int rc;                      // of the call that the test is about
    char message[REPORT_BYTES];  // its error message
    double seconds;              // how long it took
    char report[REPORT_BYTES];   // the first thing that is wrong; "" if nothing is
    bool closed;                 // the body has closed the handle itself
    pthread_t thread;
};

static inline void store(enum dtype dtype, void *to, size_t index, float value)
{
    if (dtype == DTYPE_BYTE)
        ((uint8_t *)to)[index] = (uint8_t)value;
    else
        dtype_narrow(dtype, &value, (char *)to + index * dtype_bytes(dtype), 1);
}

static inline float load(enum dtype dtype, const void *from, size_t index)
{
    if (dtype == DTYPE_BYTE)
        return ((const uint8_t *)from)[index];
    float value;
    dtype_widen(dtype, (const char *)from + index * dtype_bytes(dtype), &value, 1);
    return value;
}

static inline void sleep_seconds(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

// Records the first error of a rank and makes the other ranks stop.
__attribute__((format(printf, 2, 3))) static inline void rank_wrong(struct rank *rank, const char *format, ...)
{
    if (rank->report[0] != '\0')
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rank->report, sizeof rank->report, format, arguments);
    va_end(arguments);
    comm_abort(rank->comm, rank->report);
}

// Keeps the outcome of the call that began at `start`.
static inline void rank_keep(struct rank *rank, double start, int rc)
{
    rank->rc = rc;
    rank->seconds = clock_now_s() - start;
    snprintf(rank->message, sizeof rank->message, "%s", rc == ERR_NONE ? "" : err_message());
}

// Messages whose contents name their sender and their number.
static inline unsigned char byte_at(int from, int number, size_t i)
{
    return (unsigned char)((size_t)from * 131 + (size_t)number * 31 + i * 7);
}

static inline size_t size_of(int number)
{
    static const size_t sizes[] = {0, 1, 8, 4096, 100003, 5};
    return sizes[(size_t)number % (sizeof sizes / sizeof sizes[0])];
}

static inline void send_numbered(struct rank *rank, int peer, int number)
{
    size_t bytes = size_of(number);
    unsigned char *buffer = calloc(bytes + 1, 1);
    for (size_t i = 0; i < bytes; i++)
        buffer[i] = byte_at(rank->index, number, i);
    if (comm_send(rank->comm, peer, (uint64_t)number, buffer, bytes) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    memset(buffer, 0, bytes);  // the message is on its way without it
    free(buffer);
}

static inline void receive_numbered(struct rank *rank, int peer, int number)
{
    size_t bytes = size_of(number);
    unsigned char *buffer = calloc(bytes + 1, 1);
    if (comm_receive(rank->comm, peer, (uint64_t)number, buffer, bytes) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    for (size_t i = 0; i < bytes; i++)
        if (buffer[i] != byte_at(peer, number, i)) {
            rank_wrong(rank, "byte %zu of message %d from rank %d is %d", i, number, peer, buffer[i]);
            break;
        }
    free(buffer);
}

// To all others, in both directions together: the sends of one round do not wait for receives.
static inline void send_around(struct rank *rank)
{
    for (int number = 0; number < 40; number++) {
        for (int peer = 0; peer < rank->world; peer++)
            if (peer != rank->index)
                send_numbered(rank, peer, number);
        for (int peer = 0; peer < rank->world; peer++)
            if (peer != rank->index)
                receive_numbered(rank, peer, number);
        int all[RANKS_MAX];
        if (number % 9 == 0 && comm_all_gather_equal(rank->comm, &number, all, sizeof number) != ERR_NONE)
            rank_wrong(rank, "%s", err_message());
    }
}

static inline void *rank_thread(void *argument)
{
    struct rank *rank = argument;
    rank->body(rank);
    if (!rank->closed)
        comm_close(rank->comm);
    return NULL;
}

// Runs body on each of `world` ranks and returns when all have ended; asserts nothing about their findings.
static inline void ranks_run(struct rank ranks[], int world, void (*body)(struct rank *), void *context)
{
    struct comm *comms[RANKS_MAX];
    cr_assert_leq(world, RANKS_MAX);
    cr_assert_eq(comm_local_open(world, comms), ERR_NONE, "%s", err_message());
    for (int index = 0; index < world; index++)
        ranks[index] =
            (struct rank){.comm = comms[index], .index = index, .world = world, .context = context, .body = body};
    for (int index = 0; index < world; index++)
        cr_assert_eq(pthread_create(&ranks[index].thread, NULL, rank_thread, &ranks[index]), 0);
    for (int index = 0; index < world; index++)
        pthread_join(ranks[index].thread, NULL);
}

// As ranks_run; expects that no rank reports an error.
static inline void ranks_run_well(int world, void (*body)(struct rank *), void *context)
{
    struct rank ranks[RANKS_MAX];
    ranks_run(ranks, world, body, context);
    for (int index = 0; index < world; index++)
        cr_expect(ranks[index].report[0] == '\0', "world %d, rank %d: %s", world, index, ranks[index].report);
}

// Expects that message in what all ranks say but one; -1: all.
static inline void expect_all_failed(const struct rank ranks[], int world, int except, int rc, const char *message)
{
    for (int index = 0; index < world; index++) {
        if (index == except)
            continue;
        cr_expect_eq(ranks[index].rc, rc, "rank %d of %d returned %d", index, world, ranks[index].rc);
        cr_expect(strstr(ranks[index].message, message), "rank %d of %d says \"%s\", not \"%s\"", index, world,
                  ranks[index].message, message);
        cr_expect_lt(ranks[index].seconds, HANG_S, "rank %d of %d took %g s", index, world, ranks[index].seconds);
    }
}

enum { POISON = 0xa5, EDGE_BYTES = 192 };

// Whose memory the collectives get; null: the host's.
static const struct accelerator *carried;

// A buffer with poison in it and around it, here and where the collective finds it, which is the same on the host.
struct area {
    char *memory, *data, *memory_there, *data_there;
    size_t bytes;
};

static inline struct area area_open(size_t bytes, size_t shift_bytes)
{
    struct area area = {.bytes = EDGE_BYTES + shift_bytes + bytes + EDGE_BYTES};
    area.memory = area.memory_there = aligned_alloc(64, (area.bytes + 63) / 64 * 64);
    area.data = area.data_there = area.memory + EDGE_BYTES + shift_bytes;
    memset(area.memory, POISON, area.bytes);
    return area;
}

// Takes the buffer to the accelerator, if there is one, and back.
static inline void area_send(struct area *area)
{
    void *there = NULL;
    if (!carried)
        return;
    if (carried->allocate(area->bytes, &there) != ERR_NONE ||
        accelerator_claim(carried, there, area->bytes) != ERR_NONE ||
        bytes_copy(there, area->memory, area->bytes) != ERR_NONE)
        abort();
    area->memory_there = there;
    area->data_there = area->memory_there + (area->data - area->memory);
}

static inline void area_return(struct area *area)
{
    if (!carried)
        return;
    if (bytes_copy(area->memory, area->memory_there, area->bytes) != ERR_NONE)
        abort();
    accelerator_disclaim(area->memory_there);
    carried->release(area->memory_there);
}

static inline void area_close(struct rank *rank, struct area *area)
{
    for (size_t i = 0; i < EDGE_BYTES; i++)
        if ((uint8_t)area->memory[i] != POISON || (uint8_t)area->memory[area->bytes - 1 - i] != POISON)
            rank_wrong(rank, "byte %zu of an edge is overwritten", i);
    free(area->memory);
}
