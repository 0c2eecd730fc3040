// SPDX-License-Identifier: Apache-2.0
// Says what went wrong when an operation of the chaos mode touches a page that is closed to it, and ends the program.
#ifndef ZG_FLOW_FAULT_H
#define ZG_FLOW_FAULT_H

#include "ref/flow/flow_internal.h"

// One rank whose tier is guarded.
struct flow_fault {
    struct flow_fault *_Atomic next;  // of all that are open
    const struct tier *tier;
    int rank;
    const struct operation *_Atomic operation;  // running now, or null
};

// While any is open, SIGSEGV of this process is handled here: a fault in the tier of one that is open ends the
// program with status 1 and a message; every other is passed to the handler that was there before.
int flow_fault_open(struct flow_fault *fault);
void flow_fault_close(struct flow_fault *fault);

// Around an operation, on the thread that runs it.
void flow_fault_enter(struct flow_fault *fault, const struct operation *operation);
void flow_fault_leave(struct flow_fault *fault);

#endif
