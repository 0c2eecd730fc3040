// SPDX-License-Identifier: Apache-2.0
// A validation by the processes of a launcher such as mpirun. The first rank of each host runs the parts about a
// machine as child processes on the processors of all ranks of that host. Parts that need all ranks run in these
// processes. Rank 0 collects all results and writes the file.
#pragma once

#include "validate/validate_part.h"

// Runs one part; called on rank 0 while the others are in validate_world_follow. runs: one for each rank of the world,
// zeroed; those of ranks that ran nothing stay PART_NOT_RUN. Free each with part_run_free, also after an error.
// `broken` gets the reason why the ranks cannot continue together, such as "rank 1 (host b, process 7) has died", or
// "".
int validate_world_part(const struct validate_part *part, const struct part_setting *setting, struct part_run runs[],
                        char broken[BENCH_FINDING_TEXT_BYTES]);

// The work of every other rank, from the description of its host to the last part of the plan. paths: folders whose
// disks are described, null at the end. ERR_PEER: the ranks cannot continue together.
int validate_world_follow(const struct validate_plan *plan, const char *const *paths,
                          const volatile sig_atomic_t *interrupted);

// Adds the machines of the other hosts to the `run` record; called on rank 0 before the first part. The other ranks
// call it with a null record.
int validate_world_describe(const char *const *paths, json_t *run);

// Runs work of all ranks on a separate thread, so that an interruption or a time limit can abort it: its collectives
// then fail on every rank. Work that does not return even then is abandoned; the process should exit soon.

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
