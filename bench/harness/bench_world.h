// SPDX-License-Identifier: Apache-2.0
// The processes of a launcher (mpirun, srun) that measure together, of which this one is a rank. A process joins once.
// A process started without a launcher is rank 0 of 1 and has no comm. All functions are for one thread only.
//
// A benchmark is run by all ranks together, or, if it measures a machine, by the first rank of each host while the
// others wait. Only rank 0 prints: it receives the output and the records of the other ranks.
#pragma once

#include "bench/harness/bench_device.h"
#include "ref/comm/comm.h"

#include <jansson.h>

enum { BENCH_HOST_BYTES = 64 };

// Joins the world if there is a launcher and this process has not joined. ERR_USAGE: the launcher belongs to another
// MPI library.
int bench_world_join(void);

// Leaves the world, if this process is in one. After an error it does not wait for other ranks.
void bench_world_leave(int code);

// Resolves --world. *ranks is the option's value, BENCH_WORLD_DEFAULT if it was not given, and becomes the launcher's
// number of ranks, else the option's, else default_ranks. ERR_USAGE: the option contradicts the launcher, or without a
// launcher is not from 1 to max_ranks.
enum { BENCH_WORLD_DEFAULT = -1000000 };
int bench_world_choose(int *ranks, int default_ranks, int max_ranks);

// Finds a device as bench_device_find does. Under a launcher all ranks call it together: each gets a device of its
// host, which becomes current in the calling thread, and bench_world_comm becomes the transport for memory on that
// device. *absent: a rank has no device or no NCCL, so no rank uses one.
int bench_world_find_device(const char *name, int ranks, struct bench_device *out, bool *absent);

struct comm *bench_world_comm(void);
int bench_world_rank(void);
int bench_world_size(void);

// Host names, as gethostname reports them; where two hosts have one, with the first rank of each: node7#12.
const char *bench_world_host(int rank);
bool bench_world_name_is_shared(void);  // this host's name is another's, too
int bench_world_host_count(void);
int bench_world_rank_on_host(void);  // 0: the first rank of its host
int bench_world_host_size(void);     // ranks on this host

// Returns a processor for this rank alone: ranks of a host that may run on the same processors take them in turn. Needs
// a world.
int bench_world_processor(void);

// Returns whether all ranks run the current benchmark together. False without a world. bench_run says so.
bool bench_world_is_together(void);
void bench_world_set_together(bool value);

// Lets this rank run on the processors of all ranks of its host (take), or restores its own. Launchers bind each rank
// to its processors; the rank that measures a host needs all of them.
void bench_world_take_host(bool take);

// Gathers a text of each rank at rank 0; all ranks call it. On rank 0 (*all)[rank] are the texts, and the caller frees
// each and the array; elsewhere *all is null. Needs a world.
int bench_world_gather(const char *text, char ***all);

// The output and the records of a benchmark, from begin to end (bench_world_report.c). Ranks other than 0 keep them to
// send them to rank 0. Need a world.
void bench_world_report_begin(void);
void bench_world_report_end(void);

// Appends a record to the file of --out on rank 0, keeps it on the others, where a report must have begun. Takes
// ownership of it.
int bench_world_record(json_t *record);

// Ends a benchmark; bench_exit calls it on every rank. Sends the output and records of other hosts to rank 0, which
// prints them and adds their counts to its own. Returns the code, on rank 0 the first error of any rank. If all ranks
// measure together, an error of one aborts all.
int bench_world_end(int code, size_t *printed_count, size_t *skipped_count);

// Returns whether this rank prints the error: rank 0 prints all; another rank its own errors, which may be known too
// late to reach rank 0.
bool bench_world_prints_error(int code);

// Returns whether a rank has failed or is stuck, so that no collective works; bench_world_break says so.
bool bench_world_is_broken(void);
void bench_world_break(void);
