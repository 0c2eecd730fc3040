// SPDX-License-Identifier: Apache-2.0
// comm_mpi_deadlock_program WORD: ranks that wait for each other in different communicators (ring), or only long
// (slow).
#include "base/err.h"
#include "ref/comm/launcher.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int part_of(struct comm *comm, int a, int b, enum ledger_group group, struct comm **out)
{
    int rank = comm_rank(comm);
    const int pair[] = {a, b}, alone[] = {rank};
    bool member = rank == a || rank == b;
    TRY(comm_split(comm, member ? pair : alone, member ? 2 : 1, out));
    comm_count_for(*out, group);
    return ERR_NONE;
}

// Ranks 0, 1 and 2 wait around a ring of pairs.
static int ring(struct comm *comm, struct comm *parts[3])
{
    return comm_barrier(parts[comm_rank(comm)]);
}

// Rank 1 arrives after three seconds; the others wait for it, in two parts.
static int slow(struct comm *comm, struct comm *parts[3])
{
    int rank = comm_rank(comm);
    if (rank == 1)
        nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    if (rank <= 1)
        TRY(comm_barrier(parts[0]));
    if (rank >= 1)
        TRY(comm_barrier(parts[1]));
    return comm_barrier(comm);
}

int main(int argc, char **argv)
{
    struct launcher launcher;
    struct comm *comm, *parts[3];
    if (argc != 2 || launcher_find(&launcher) != ERR_NONE || launcher_open(&launcher, &comm) != ERR_NONE) {
        fprintf(stderr, "%s\n", err_message());
        return 2;
    }
    int rank = comm_rank(comm), rc = ERR_NONE;
    static const enum ledger_group groups[] = {GROUP_SHARD, GROUP_TENSOR, GROUP_EXPERT};
    for (int i = 0; i < 3 && rc == ERR_NONE; i++)
        rc = part_of(comm, i == 2 ? 0 : i, i == 2 ? 2 : i + 1, groups[i], &parts[i]);
    if (rc == ERR_NONE)
        rc = (strcmp(argv[1], "ring") == 0 ? ring : slow)(comm, parts);
    printf("rank %d: %s\n", rank, rc == ERR_NONE ? "good" : err_message());
    fflush(stdout);
    if (rc == ERR_NONE)
        for (int i = 0; i < 3; i++)
            comm_close(parts[i]);
    launcher_close(comm, rc != ERR_NONE);
    if (rc != ERR_NONE)
        _exit(1);
    return 0;
}
