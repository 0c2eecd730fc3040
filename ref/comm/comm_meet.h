// SPDX-License-Identifier: Apache-2.0
// A barrier for the threads of a group, which a failure opens for good. The first failure wins; every later call
// returns its message.
#ifndef ZG_COMM_MEET_H
#define ZG_COMM_MEET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// Cache lines have 64 bytes on x86-64, and up to 256 on aarch64.
#if defined(__aarch64__)
enum { MEET_LINE_BYTES = 256 };
#else
enum { MEET_LINE_BYTES = 64 };
#endif
enum { MEET_MESSAGE_BYTES = 1024 };

// The values that a rank writes. Each has a cache line of its own: the others watch `came`, and nobody else writes it.
struct meet_mark {
    _Alignas(MEET_LINE_BYTES) _Atomic uint64_t came;  // barriers that the rank has come to
    _Atomic int processor;                            // on which it came to the last one; -1: to none yet
    _Alignas(MEET_LINE_BYTES) _Atomic bool reaching;  // it accesses other ranks' buffers
    int patience;                                     // spent on watching before it sleeps; see comm_meet.c
};

struct meet {
    int world;
    bool crowded;             // there are more threads than processors
    struct meet_mark *marks;  // [world]
    pthread_mutex_t lock;     // protects the failure's code and message until failed is set, and the children
    int failed_code;
    char failed_message[MEET_MESSAGE_BYTES];  // neither changes after failed is set
    _Atomic bool failed;
    struct meet *children, *next;  // meets that fail with this one, and the next child of its parent
    _Alignas(MEET_LINE_BYTES) _Atomic uint32_t sleepers;
    _Alignas(MEET_LINE_BYTES) _Atomic uint32_t bell;  // the futex of sleeping threads; changes to wake them
    _Atomic uint64_t rung_ns;                         // when it last did
};

// ERR_MEMORY: nothing is left open.
int meet_open(struct meet *meet, int world);
void meet_close(struct meet *meet);

// From here on until meet_disown the child fails with the parent, at once if that has failed already.
void meet_adopt(struct meet *parent, struct meet *child);
void meet_disown(struct meet *parent, struct meet *child);

// Begins to fetch a cache line that this thread writes soon and that others have read, so that several such lines come
// at the same time.
static inline void meet_fetch_line(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

// Waits for all ranks, or returns the code and message of a failure, at once if there already was one. overdue is
// called about once a second while the thread sleeps.
int meet_wait(struct meet *meet, int rank, void (*overdue)(void *context), void *context);

// Returns the failure, if there is one.
int meet_check(struct meet *meet);

// Records a failure, unless there already is one, and wakes all threads. Any thread may call it.
void meet_fail(struct meet *meet, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// A thread accesses other ranks' buffers only between these two. If begin returns a failure, do not call end.
int meet_reach_begin(struct meet *meet, int rank);
void meet_reach_end(struct meet *meet, int rank);

// After a failure, waits until no thread accesses other ranks' buffers; none will do so again.
void meet_drain(struct meet *meet);

#endif
