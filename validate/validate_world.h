// SPDX-License-Identifier: Apache-2.0
// A validation by the processes of a launcher such as mpirun. The first rank of each host runs the parts about a
// machine as child processes on the processors of all ranks of that host. Parts that need all ranks run in these
// processes. Rank 0 collects all results and writes the file.
#ifndef ZG_VALIDATE_WORLD_H
#define ZG_VALIDATE_WORLD_H

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
// call it with a null record. In validate_hosts.c.
int validate_world_describe(const char *const *paths, json_t *run);

#endif
