// SPDX-License-Identifier: Apache-2.0
// The processes of a launcher (mpirun, srun) that measure together, of which this one is a rank; joined once for a
// process. A process that was started by itself is rank 0 of 1, and has no comm. Only one thread calls these.
//
// A benchmark is run by all ranks together, or, where it is about a machine, by the first rank of each host, while the
// others wait. Rank 0 alone speaks to the user: what another host's rank printed, and its records, come to rank 0.
#ifndef ZG_BENCH_WORLD_H
#define ZG_BENCH_WORLD_H

#include "bench/harness/bench_device.h"
#include "ref/comm/comm.h"

#include <jansson.h>

enum { BENCH_HOST_BYTES = 64 };

// Joins the world, unless this process has or there is none. ERR_USAGE: launcher and library do not belong together.
int bench_world_join(void);

// Ends this process's part, if it has one. After a code other than ERR_NONE it waits for nobody.
void bench_world_leave(int code);

// The number of ranks that --world asks for becomes that of the launcher, or `otherwise` where nothing is said, which
// is BENCH_WORLD_UNSAID. ERR_USAGE: the launcher's is another, or it is not from 1 to `most` threads.
enum { BENCH_WORLD_UNSAID = -1000000 };
int bench_world_choose(int *asked, int otherwise, int most);

// bench_device_find for so many ranks; those of a launcher, which all call it, take a device of their host each, that
// the calling thread has then entered, and bench_world_comm is from now on the transport that carries what lies there,
// too. *absent: one of them has none, or no NCCL, so that none of them uses one.
int bench_world_find_device(const char *name, int ranks, struct bench_device *out, bool *absent);

struct comm *bench_world_comm(void);
int bench_world_rank(void);
int bench_world_size(void);

// Hosts by name, as they call themselves.
const char *bench_world_host(int rank);
int bench_world_host_count(void);
int bench_world_rank_on_host(void);  // 0: this rank is its host's first
int bench_world_host_size(void);     // ranks on this one's

// The processor that this rank takes for itself: of those that it may run on, in turn with the ranks of its host that
// may run on the same.
int bench_world_processor(void);

// Whether the present benchmark is one of all ranks together. False where there is no world.
bool bench_world_is_together(void);

// Where every rank of a host is bound to processors of its own, its first one may use all of theirs from now on, or
// again no more than its own.
void bench_world_take_host(bool take);

// A text of each rank to rank 0, together: there all[rank], each to be freed as is the array; elsewhere *all is null.
int bench_world_gather(const char *text, char ***all);

// A benchmark as its table says: by all ranks together, or by the first of each host. Returns the exit status.
int bench_world_run(const char *name, int (*run)(int argc, const char **argv), bool together, int argc,
                    const char **argv);

// Called by bench_exit on every rank: brings what other hosts have to rank 0, which prints it, and counts in what they
// printed and skipped. Returns the code, on rank 0 that of all. Where all ranks measure together, one's error ends all.
int bench_world_end(int code, size_t *printed_count, size_t *skipped_count);

// Whether this rank tells the user of an error: rank 0 of any, another of what is its own and may have come too late to
// be told to rank 0.
bool bench_world_speaks(int code);

// Whether the ranks cannot go on together, because one has failed.
bool bench_world_is_broken(void);

// For bench_file_append: whether the record is kept to be brought to rank 0, which is not this one.
bool bench_world_keep(json_t *record);

#endif
