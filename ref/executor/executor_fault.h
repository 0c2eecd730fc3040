// SPDX-License-Identifier: Apache-2.0
// Says what went wrong when an operation of the chaos mode touches a page that is closed to it, and ends the program.
#ifndef ZG_EXECUTOR_FAULT_H
#define ZG_EXECUTOR_FAULT_H

#include "ref/executor/executor_internal.h"

// One rank whose tier is guarded.
struct executor_fault {
    struct executor_fault *_Atomic next;  // of all that are open
    const struct tier *tier;
    int rank;
    const struct operation *_Atomic operation;  // running now, or null
};

// While any is open, SIGSEGV of this process is handled here: a fault in the tier of one that is open ends the
// program with status 1 and a message; every other is passed to the handler that was there before.
int executor_fault_open(struct executor_fault *fault);
void executor_fault_close(struct executor_fault *fault);

// Around an operation, on the thread that runs it.
void executor_fault_enter(struct executor_fault *fault, const struct operation *operation);
void executor_fault_leave(struct executor_fault *fault);

#endif
