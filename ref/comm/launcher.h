// SPDX-License-Identifier: Apache-2.0
// The world that mpirun, srun or another launcher has started, of which this process is one rank.
#pragma once

#include "ref/comm/comm.h"

struct launcher {
    int world;  // 0: no launcher started this process
    int rank;
    const char *name;  // the variable that gives the world, such as "OMPI_COMM_WORLD_SIZE"
};

// Reads world and rank from the environment variables of Open MPI, PMI (MPICH, Intel MPI), PMIx or Slurm's steps.
// ERR_USAGE: a variable is no valid number, or this binary was built without MPI.
int launcher_find(struct launcher *out);

// Sets *world to the launcher's number of ranks, else to `asked`, else, if that is 0, to `otherwise`. A single process,
// as of `srun -n 1`, may run several ranks as threads; *launcher is then cleared. ERR_USAGE: the launcher has started
// several processes and `asked` differs.
int launcher_world(struct launcher *launcher, int asked, int otherwise, int *world);

// Joins the other processes. Afterwards SIGTERM, unless handled otherwise, ends this process only after half a second
// (by SIGALRM's timer), so that it can report which rank has died. ERR_USAGE: the world that MPI sees differs from the
// launcher's variables.
int launcher_open(const struct launcher *launcher, struct comm **out);

// A number of this machine that another machine, or another network namespace of it, does not have: two hosts may have
// one name.
uint64_t launcher_machine(void);

// Collective: finds this rank's index among the ranks of its host, and their number.
int launcher_position(struct comm *comm, int *local_rank, int *local_count);

// Removes world and rank from this process's environment, so that its child processes do not join the launcher's world.
void launcher_hide(void);

// Prints the calling thread's message on standard error as "COMMAND: MESSAGE" and clears it. A rank that fails calls
// this before launcher_close: mpirun kills all ranks once one ends, and until then the others wait.
void launcher_tell(const char *command);

// Leaves the world. With status != 0 it does not wait for the other processes, which may have ended.
void launcher_close(struct comm *comm, int status);
