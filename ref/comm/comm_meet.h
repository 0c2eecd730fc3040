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

struct meet {
    uint32_t world;
    int spins_max;         // 0: there are more threads than processors
    pthread_mutex_t lock;  // protects the failure's code and message until failed is set, and the children
    int failed_code;
    char failed_message[MEET_MESSAGE_BYTES];  // neither changes after failed is set
    _Atomic bool failed;
    struct meet *children, *next;  // meets that fail with this one, and the next child of its parent
    _Alignas(MEET_LINE_BYTES) _Atomic uint32_t arrived;
    _Atomic int last_processor;                        // of the thread that arrived last
    _Alignas(MEET_LINE_BYTES) _Atomic uint32_t phase;  // barriers passed; also the futex of sleeping threads
    _Alignas(MEET_LINE_BYTES) _Atomic uint32_t sleepers;
    _Alignas(MEET_LINE_BYTES) _Atomic uint32_t reaching;  // threads that access other ranks' buffers
};

int meet_open(struct meet *meet, int world);
void meet_close(struct meet *meet);

// From here on until meet_disown the child fails with the parent, at once if that has failed already.
void meet_adopt(struct meet *parent, struct meet *child);
void meet_disown(struct meet *parent, struct meet *child);

// Waits for all threads, or returns the code and message of a failure, at once if there already was one. *spins, which
// begins as 0, carries the calling thread's spin limit from call to call. overdue is called about once a second while
// the thread sleeps.
int meet_wait(struct meet *meet, int *spins, void (*overdue)(void *context), void *context);

// Returns the failure, if there is one.
int meet_check(struct meet *meet);

// Records a failure, unless there already is one, and wakes all threads. Any thread may call it.
void meet_fail(struct meet *meet, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// A thread accesses other ranks' buffers only between these two. If begin returns a failure, do not call end.
int meet_reach_begin(struct meet *meet);
void meet_reach_end(struct meet *meet);

// After a failure, waits until no thread accesses other ranks' buffers; none will do so again.
void meet_drain(struct meet *meet);

#endif
