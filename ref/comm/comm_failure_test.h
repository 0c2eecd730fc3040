// SPDX-License-Identifier: Apache-2.0
// For tests of transports: calls of ranks that do not match, and what all of them say then.
#pragma once

#include "ref/comm/comm_test.h"

#include <signal.h>

enum { WORLD = 4 };

enum mistake {
    OTHER_COLLECTIVE,
    OTHER_COUNT,
    OTHER_SHARDS,
    OTHER_DTYPE,
    OTHER_REDUCTION,
    OTHER_ROOT,
    OTHER_PAIR,
    MISTAKE_COUNT
};

static const char *const mistake_messages[MISTAKE_COUNT] = {
    [OTHER_COLLECTIVE] = "collective 2: rank 0 calls all-reduce (sum) of 8 fp32, rank 3 barrier",
    [OTHER_COUNT] = "collective 2: rank 0 calls all-reduce (sum) of 8 fp32, rank 3 all-reduce (sum) of 9 fp32",
    [OTHER_SHARDS] = ("rank 0 calls reduce-scatter of 8 fp32 in shards with digest 9b5361d2, "
                      "rank 3 reduce-scatter of 8 fp32 in shards with digest 65f9719e"),
    [OTHER_DTYPE] = "rank 0 calls all-reduce (sum) of 8 fp32, rank 3 all-reduce (sum) of 8 bf16",
    [OTHER_REDUCTION] = "rank 0 calls all-reduce (sum) of 8 fp32, rank 3 all-reduce (maximum) of 8 fp32",
    [OTHER_ROOT] = "calls broadcast of 8 bytes from rank 0, rank 3 broadcast of 8 bytes from rank 1",
    [OTHER_PAIR] = "rank 3 sends 3 elements to rank 1, which expects 2",
};

static inline int mistaken_call(struct comm *comm, enum mistake mistake, bool wrong)
{
    static const size_t even[WORLD] = {2, 2, 2, 2}, uneven[WORLD] = {2, 1, 3, 2}, offsets[WORLD] = {0, 2, 4, 6};
    static const size_t one_more[WORLD] = {2, 3, 2, 2}, wide_offsets[WORLD] = {0, 3, 6, 9};
    float send[16] = {0}, recv[16] = {0};
    switch (mistake) {
    case OTHER_COLLECTIVE:
        return wrong ? comm_barrier(comm) : comm_all_reduce(comm, send, recv, 8, DTYPE_FP32, COMM_SUM);
    case OTHER_COUNT:
        return comm_all_reduce(comm, send, recv, wrong ? 9 : 8, DTYPE_FP32, COMM_SUM);
    case OTHER_SHARDS:
        return comm_reduce_scatter(comm, send, recv, wrong ? uneven : even, wide_offsets, DTYPE_FP32);
    case OTHER_DTYPE:
        return comm_all_reduce(comm, send, recv, 8, wrong ? DTYPE_BF16 : DTYPE_FP32, COMM_SUM);
    case OTHER_REDUCTION:
        return comm_all_reduce(comm, send, recv, 8, DTYPE_FP32, wrong ? COMM_MAX : COMM_SUM);
    case OTHER_ROOT:
        return comm_broadcast(comm, send, 8, wrong);
    default:
        return comm_all_to_all(comm, send, wrong ? one_more : even, wide_offsets, recv, even, offsets, DTYPE_FP32);
    }
}

// The last rank makes the mistake in the second call.
static inline int make_mistake(struct comm *comm, enum mistake mistake)
{
    // In a broadcast ranks wait for its root alone, so that some may have failed before the others leave the barrier.
    int rc = comm_barrier(comm);
    if (rc != ERR_NONE && mistake != OTHER_ROOT)
        return err_set(ERR_INTERNAL, "the call before the mistake failed");
    rc = mistaken_call(comm, mistake, comm_rank(comm) == WORLD - 1);
    // The next call tells the root.
    return rc == ERR_NONE && mistake == OTHER_ROOT ? comm_barrier(comm) : rc;
}

// Rank 1 does what the word says; rank 0 receives message 6, or 7, of 8 bytes from it.
static inline int provoke_message(struct comm *comm, const char *word)
{
    char buffer[9] = {0};
    bool odd = comm_rank(comm) == 1;
    TRY(comm_barrier(comm));
    if (!odd)
        TRY(comm_receive(comm, 1, strcmp(word, "message-tag") == 0 ? 7 : 6, buffer, 8));
    sleep_seconds(odd ? 0.05 : 0);
    if (odd && strcmp(word, "message-leave") == 0)
        return ERR_NONE;
    if (odd && strcmp(word, "message-die") == 0)
        raise(SIGKILL);
    if (odd && strcmp(word, "message-abort") == 0)
        comm_abort(comm, "the disk is full");
    else if (odd && strcmp(word, "message-collective") != 0)
        TRY(comm_send(comm, 0, 6, buffer, strcmp(word, "message-size") == 0 ? 9 : 8));
    return comm_barrier(comm);
}

static const struct {
    const char *word, *said;
    int code;
} message_failures[] = {
    {"message-tag", "rank 0 expects message 7 of 8 bytes from rank 1, which sends message 6 of 8 bytes", ERR_INTERNAL},
    {"message-size", "rank 0 expects message 6 of 8 bytes from rank 1, which sends message 6 of 9 bytes", ERR_INTERNAL},
    {"message-abort", " failed: the disk is full", ERR_PEER},
    {"message-collective",
     "the ranks disagree about collective 2: rank 1 calls barrier, while rank 0 is in receive and waits for it",
     ERR_INTERNAL},
};
enum { MESSAGE_FAILURES = sizeof message_failures / sizeof *message_failures };

// A rank of a circle of ranks that wait for each other, and where it waits for the next one.
struct waiting {
    int rank;
    const char *where;
};

// The words of the rank at `first` of the circle.
static inline const char *circle_text(const struct waiting circle[], int count, int first)
{
    static char text[1024];
    int used = snprintf(text, sizeof text, "the ranks wait for each other: rank %d is in ", circle[first].rank);
    for (int i = 0; i < count; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s and waits for rank %d%s",
                         circle[(first + i) % count].where, circle[(first + i + 1) % count].rank,
                         i + 1 < count ? ", which is in " : "");
    return text;
}
