// SPDX-License-Identifier: Apache-2.0
// A validation by the processes of a launcher. What is about a machine is run by the first rank of each host, as a
// child process with the processors of all the host's ranks; what all ranks measure together, by these processes.
// Rank 0 writes the file, and has what the others found.
#ifndef ZG_VALIDATE_WORLD_H
#define ZG_VALIDATE_WORLD_H

#include "validate/validate_part.h"

// On rank 0, while the others follow: one part into runs, one for each rank of the world, which is PART_NOT_RUN where a
// rank ran nothing itself. Each to be freed with part_run_free, also after an error. *broken says why the ranks cannot
// go on together, such as "rank 1 (host b, process 7) has died"; "" where they can.
int validate_world_part(const struct validate_part *part, const struct part_setting *setting, struct part_run runs[],
                        char broken[BENCH_FINDING_TEXT_BYTES]);

// On every other rank: its share of all that follows, from the description of its host to the last part of the plan.
// paths are folders whose disks are described, null at the end. ERR_PEER: the ranks could not go on together.
int validate_world_follow(const struct validate_plan *plan, const char *const *paths,
                          const volatile sig_atomic_t *interrupted);

// On rank 0, before the first part: adds the machines of the other hosts to the `run` record. validate_hosts.c, where
// the others call it with a null one.
int validate_world_describe(const char *const *paths, json_t *run);

#endif
