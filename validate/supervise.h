// SPDX-License-Identifier: Apache-2.0
// Runs work of all ranks on a separate thread, so that an interruption or a time limit can abort it: its collectives
// then fail on every rank. Work that does not return even then is abandoned; the process should exit soon.
#ifndef ZG_SUPERVISE_H
#define ZG_SUPERVISE_H

#include "validate/validate_part.h"

struct supervised {
    enum launch_end end;  // LAUNCH_EXITED, LAUNCH_TIME or LAUNCH_INTERRUPTED
    double seconds;
    bool aborted;        // its collectives were aborted; `message` says why
    bool abandoned;      // it still runs: do not free its context
    int code;            // the work's return value, unless abandoned
    char message[1024];  // why it failed, on one line; "" if it did not
};

// limit_s 0: no limit. The setting supplies `interrupted` and `tick`. Failures of the work are reported in *out, not
// returned; ERR_MEMORY: no thread could be started.
int supervise(int (*work)(void *context), void *context, double limit_s, const struct part_setting *setting,
              struct supervised *out);

#endif
