// SPDX-License-Identifier: Apache-2.0
// Work of all ranks together on a thread of its own, so that an interruption, or a time limit, ends it: its collectives
// then fail on every rank. Where even that does not end it, it is left to itself, and the process is to end soon.
#ifndef ZG_SUPERVISE_H
#define ZG_SUPERVISE_H

#include "validate/validate_part.h"

struct supervised {
    enum launch_end end;  // LAUNCH_EXITED, LAUNCH_TIME or LAUNCH_INTERRUPTED
    double seconds;
    bool aborted;        // it was ended, or was to be: the message says why
    bool abandoned;      // it runs still: what it uses must stay
    int code;            // of the work, where it ended
    char message[1024];  // why it failed, on one line
};

// ERR_MEMORY: no thread. What the work does is told in *out; the context outlives it.
int supervise(int (*work)(void *context), void *context, double limit_s, const struct part_setting *setting,
              struct supervised *out);

#endif
