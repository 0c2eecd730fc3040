// SPDX-License-Identifier: Apache-2.0
// Where the threads of a group meet: a barrier that a failure opens for good. The first failure wins; its message is
// what every later call returns.
#ifndef ZG_COMM_MEET_H
#define ZG_COMM_MEET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { MEET_MESSAGE_BYTES = 1024, MEET_LINE_BYTES = 64 };

struct meet {
    uint32_t world;
    int spins_max;         // 0: there are more threads than processors
    pthread_mutex_t lock;  // of the failure's text while it is made
    int failed_code;
    char failed_message[MEET_MESSAGE_BYTES];  // neither is changed after failed is set
    _Atomic bool failed;
    _Alignas(MEET_LINE_BYTES) _Atomic uint32_t arrived;
    _Atomic int last_processor;                        // of the thread that arrived last
    _Alignas(MEET_LINE_BYTES) _Atomic uint32_t phase;  // barriers passed; also what sleeping threads wait on
    _Alignas(MEET_LINE_BYTES) _Atomic uint32_t sleepers;
    _Alignas(MEET_LINE_BYTES) _Atomic uint32_t reaching;  // threads that touch others' buffers
};

int meet_open(struct meet *meet, int world);
void meet_close(struct meet *meet);

// Waits for all; or returns the failure's code with its message, at once if there was one. *spins is the calling
// thread's patience for the next time; it begins as 0.
int meet_wait(struct meet *meet, int *spins);

// 0, or the failure.
int meet_check(struct meet *meet);

// Fails with this message, unless something failed before; wakes everybody. Any thread may call it.
void meet_fail(struct meet *meet, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// A thread touches others' buffers only between these two: begin returns the failure, if there is one, and then there
// is no end.
int meet_reach_begin(struct meet *meet);
void meet_reach_end(struct meet *meet);

// After a failure: returns when nobody touches others' buffers, nor ever will.
void meet_drain(struct meet *meet);

#endif
