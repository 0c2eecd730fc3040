// SPDX-License-Identifier: Apache-2.0
// The world that mpirun, srun or their like have started: this process is one rank of it.
#ifndef ZG_LAUNCHER_H
#define ZG_LAUNCHER_H

#include "ref/comm/comm.h"

struct launcher {
    int world;  // 0: this process was started by itself
    int rank;
    const char *name;  // what says so: "OMPI_COMM_WORLD_SIZE"
};

// What the variables of the environment say, of Open MPI, of PMI (MPICH, Intel MPI), of PMIx and of Slurm's steps.
// ERR_USAGE: they say it badly, or this binary was built without MPI.
int launcher_find(struct launcher *out);

// The number of ranks: that of the launcher, or `asked`, or where that is 0 `otherwise`. A process that was started
// alone, as by `srun -n 1`, may have several ranks: they are threads, and *launcher is as if there was none. ERR_USAGE:
// several processes, and `asked` differs.
int launcher_world(struct launcher *launcher, int asked, int otherwise, int *world);

// Joins the other processes. From then on SIGTERM, where nothing treats it, ends this one half a second later, by the
// timer of SIGALRM: time to say which rank has died. ERR_USAGE: MPI sees another world than the launcher's variables
// say.
int launcher_open(const struct launcher *launcher, struct comm **out);

// Collective: which of the ranks on its host this rank is, and how many they are. A host is known by its name.
int launcher_position(struct comm *comm, int *local_rank, int *local_count);

// Takes world and rank out of this process's environment: what it starts from now on is not of the launcher's world.
void launcher_hide(void);

// Says the calling thread's message on standard error, "COMMAND: MESSAGE", and empties it. A rank that fails calls this
// before launcher_close: until then the others wait, and mpirun, which kills all when one ends, sees none end.
void launcher_tell(const char *command);

// Ends this process's part. With status != 0 the others may have ended already, so nothing waits for them.
void launcher_close(struct comm *comm, int status);

#endif
