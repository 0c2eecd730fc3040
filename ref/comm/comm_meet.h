// SPDX-License-Identifier: Apache-2.0
// A barrier of threads. A rank announces its arrivals, numbered from 1, each in a place of its own: it writes
// there what it has for the others, and then the number, which they watch. So a few bytes reach the others in the cache
// line that also tells them of the arrival. A failure ends every wait for good; the first one wins, and every
// later call returns its message.
//
// A rank has a ring of places and uses them in turn. It writes a place again only when all ranks have reached a later
// arrival than the one that it overwrites, and so have read it.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Cache lines have 64 bytes on x86-64, and up to 256 on aarch64.
#if defined(__aarch64__)
enum { MEET_LINE_BYTES = 256 };
#else
enum { MEET_LINE_BYTES = 64 };
#endif
enum { MEET_MESSAGE_BYTES = 1024 };
// Places of a rank, a power of two: few, which stay in a cache; and more where ranks share processors, for which a rank
// that is ahead then seldom has to wait for its turn.
// Large worlds have fewer, since each place that was used is resident.
enum { MEET_RING = 16, MEET_LONG_RING = 64, MEET_SHORT_RING = 8, MEET_RANKS_OF_LONG_RINGS = 16 };
enum { MEET_ALL = -1 };

struct meet_mark {
    // Of the rank itself.
    _Alignas(MEET_LINE_BYTES) uint64_t number;  // its arrivals
    uint64_t all;                               // the last of them that all have reached, as far as it knows
    int patience;                               // spent on watching before it sleeps; see comm_meet.c
    // The others read these.
    _Alignas(MEET_LINE_BYTES) _Atomic int processor;  // on which it arrived last; -1: nowhere yet
    _Atomic bool reaching;                            // it accesses other ranks' buffers
};

// Awaited: that a peer, or MEET_ALL, has reached its arrival `number`.
struct meet_target {
    int peer;
    uint64_t number;
};

struct meet {
    int world;
    bool crowded;             // there are more threads than processors
    struct meet_mark *marks;  // [world]
    size_t place_bytes;
    uint64_t ring;         // places of a rank
    char *places;          // [world][ring]
    void *memory;          // of the places
    pthread_mutex_t lock;  // protects the failure's code and message until failed is set, and the children
    int failed_code;
    char failed_message[MEET_MESSAGE_BYTES];  // neither changes after failed is set
    _Atomic bool failed;
    struct meet *children, *next;                     // barriers that fail with this one; its parent's next child
    _Alignas(MEET_LINE_BYTES) _Atomic bool sleepers;  // since the bell was rung
    _Alignas(MEET_LINE_BYTES) _Atomic uint32_t bell;  // the futex of sleeping threads; changes to wake them
    _Atomic uint64_t rung_ns;                         // when it last did
};

// A place has place_bytes, a multiple of MEET_LINE_BYTES, zeroed, and begins with the number of the arrival.
// ERR_MEMORY: nothing is left open.
int meet_open(struct meet *meet, int world, size_t place_bytes);
void meet_close(struct meet *meet);

static inline void *meet_place(const struct meet *meet, int rank, uint64_t number)
{
    return meet->places + ((uint64_t)rank * meet->ring + (number & (meet->ring - 1))) * meet->place_bytes;
}

// Returns whether the rank has reached its arrival `number`. What it wrote to the place before is there then.
static inline bool meet_has_come(const struct meet *meet, int rank, uint64_t number)
{
    return atomic_load((_Atomic uint64_t *)meet_place(meet, rank, number)) >= number;
}

// From here on until meet_disown the child fails with the parent, immediately if that has failed already.
void meet_adopt(struct meet *parent, struct meet *child);
void meet_disown(struct meet *parent, struct meet *child);

// Begins to fetch a cache line that this thread writes soon and that others have read.
static inline void meet_fetch_line(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

// Called about once a second while a thread sleeps.
typedef void meet_overdue(void *context, const struct meet_target *target);

// Waits until the place of the rank's next arrival may be written.
int meet_room(struct meet *meet, int rank, meet_overdue *overdue, void *context);

// Announces the rank's next arrival. leads: others wait for it alone.
void meet_come(struct meet *meet, int rank, bool leads);

// Waits for the target, or returns the code and message of a failure, immediately if there already was one.
int meet_await(struct meet *meet, int rank, struct meet_target target, meet_overdue *overdue, void *context);

// Returns the failure, if there is one.
int meet_check(struct meet *meet);

// Records a failure, unless there already is one, and wakes all threads. Any thread may call it.
void meet_fail(struct meet *meet, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// A thread accesses other ranks' buffers only between these two. If begin returns a failure, do not call end.
int meet_reach_begin(struct meet *meet, int rank);
void meet_reach_end(struct meet *meet, int rank);

// After a failure, waits until no thread accesses other ranks' buffers; none will do so again.
void meet_drain(struct meet *meet);
