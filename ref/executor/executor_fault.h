// SPDX-License-Identifier: Apache-2.0
// Reports an operation of the chaos mode that touches an inaccessible page, and ends the program.
#pragma once

#include "ref/executor/executor_internal.h"

#include <pthread.h>

// Judges the issuing thread's first access to a closed page since the last operation or wait. Returns the pending
// operation that owns what it touches; null: none, and the page opens.
typedef const struct operation *executor_touch(void *context, const void *address, const struct tier_range *page);

// One rank whose tier is guarded. The thread that issues operations is guarded as they are.
struct executor_fault {
    struct executor_fault *_Atomic next;  // in the list of open ones
    struct tier *tier;
    int rank;
    const struct operation *_Atomic operation;  // running now, or null
    executor_touch *touch;                      // null: the issuing thread has no access to closed pages
    void *context;
    pthread_t issuer;
};

// While any executor_fault is open, handles SIGSEGV of this process: a fault in the tier of an open one ends the
// program with status 1 and a message; any other fault goes to the previous handler.
int executor_fault_open(struct executor_fault *fault);
void executor_fault_close(struct executor_fault *fault);

// Call before and after an operation, on the thread that runs it.
void executor_fault_enter(struct executor_fault *fault, const struct operation *operation);
void executor_fault_leave(struct executor_fault *fault);
