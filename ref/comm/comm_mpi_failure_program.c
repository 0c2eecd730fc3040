// SPDX-License-Identifier: Apache-2.0
// A rank of the tests of comm_mpi.c, started by mpirun, that fails as its word says, or meets others' failures. Each
// rank prints its error message on one line.
#include "ref/comm/comm_failure_test.h"
#include "ref/comm/launcher.h"

#include <unistd.h>

// Rank 1 does what the word says; the others wait in a part without it.
static int provoke_beside_part(struct comm *comm, const char *word)
{
    int others[RANKS_MAX], size = 0;
    const int alone[] = {1};
    struct comm *part;
    for (int rank = 0; rank < comm_world(comm); rank++)
        if (rank != 1)
            others[size++] = rank;
    bool odd = comm_rank(comm) == 1;
    TRY(comm_split(comm, odd ? alone : others, odd ? 1 : size, &part));
    TRY(comm_barrier(comm));
    if (odd && strcmp(word, "die-beside") == 0)
        raise(SIGKILL);
    int rc = ERR_NONE;
    if (odd)
        comm_abort(comm, "the disk is full");
    while (!odd && rc == ERR_NONE)
        rc = comm_barrier(part);
    char message[ERR_MESSAGE_BYTES];
    err_keep(message);
    comm_close(part);
    return odd ? err_set(ERR_IO, "the disk is full") : err_set(rc, "%s", message);
}

// Rank 2 fails, and rank 0, which is in a part with it, leaves a part with rank 1.
static int provoke_inside_parts(struct comm *comm)
{
    int rank = comm_rank(comm), next = rank / 2 * 2, across = rank % 2;
    struct comm *pair, *column;
    TRY(comm_split(comm, (int[]){next, next + 1}, 2, &pair));
    TRY(comm_split(comm, (int[]){across, across + 2}, 2, &column));
    TRY(comm_barrier(comm));
    int rc = ERR_NONE;
    if (rank == 2)
        comm_abort(comm, "the disk is full");
    while (rank != 2 && rc == ERR_NONE)
        rc = comm_barrier(rank == 0 ? column : pair);
    char message[ERR_MESSAGE_BYTES];
    err_keep(message);
    comm_close(column);
    comm_close(pair);
    return rank == 2 ? err_set(ERR_IO, "the disk is full") : err_set(rc, "%s", message);
}

// A rank that gets SIGPIPE, as MPI lets it get from a rank that has ended, goes on; one that gets SIGTERM does, until a
// timer ends it, whose signal waits here for the line.
static int provoke_sigterm(struct comm *comm)
{
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, NULL);
    TRY(comm_barrier(comm));
    raise(SIGPIPE);
    raise(SIGTERM);
    printf("rank %d: goes on\n", comm_rank(comm));
    fflush(stdout);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    while (true)
        pause();
}

// Rank 1 is stopped, and killed when the others have heard of it.
static int provoke_stop(struct comm *comm)
{
    pid_t own = getpid(), all[RANKS_MAX];
    TRY(comm_all_gather_equal(comm, &own, all, sizeof own));
    if (comm_rank(comm) == 1)
        raise(SIGSTOP);
    int rc = comm_barrier(comm);
    if (comm_rank(comm) == 0)
        kill(all[1], SIGKILL);
    return rc;
}

// Rank 1 does what the word says; the others go on with collectives.
static int provoke(struct comm *comm, const char *word)
{
    float numbers[64] = {0};
    bool odd = comm_rank(comm) == 1;
    TRY(comm_barrier(comm));
    if (odd && strcmp(word, "abort") == 0) {
        comm_abort(comm, "the disk is full");
        return err_set(ERR_IO, "the disk is full");
    }
    if (odd && strcmp(word, "leave") == 0)
        return ERR_NONE;
    // The others have said that they leave before rank 1 does.
    if (odd && strcmp(word, "late") == 0)
        nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    if (strcmp(word, "late") == 0)
        return ERR_NONE;
    if (odd && strcmp(word, "die") == 0)
        raise(SIGKILL);
    for (int i = 0; i < 3; i++)
        TRY(comm_all_reduce(comm, numbers, numbers, 64, DTYPE_FP32, COMM_SUM));
    return ERR_NONE;
}

// Ranks 0, 1 and 2 wait for each other around a ring of pairs; or rank 1 arrives after three seconds, for which the
// others wait in two of the pairs.
static int wait_in_pairs(struct comm *comm, const char *word)
{
    static const int pairs[3][2] = {{0, 1}, {1, 2}, {0, 2}};
    static const enum ledger_group groups[] = {GROUP_SHARD, GROUP_TENSOR, GROUP_EXPERT};
    int rank = comm_rank(comm);
    struct comm *parts[3];
    for (int i = 0; i < 3; i++) {
        bool member = rank == pairs[i][0] || rank == pairs[i][1];
        TRY(comm_split(comm, member ? pairs[i] : &rank, member ? 2 : 1, &parts[i]));
        comm_count_for(parts[i], groups[i]);
    }
    if (strcmp(word, "ring") == 0)
        return comm_barrier(parts[rank]);
    if (rank == 1)
        nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    if (rank <= 1)
        TRY(comm_barrier(parts[0]));
    if (rank >= 1)
        TRY(comm_barrier(parts[1]));
    TRY(comm_barrier(comm));
    for (int i = 0; i < 3; i++)
        comm_close(parts[i]);
    return ERR_NONE;
}

int main(int argc, char **argv)
{
    struct launcher launcher;
    struct comm *comm;
    if (argc == 2 && strcmp(argv[1], "stop") == 0)
        setenv("ZG_HANG_S", "5", 1);
    if (argc == 2 && strcmp(argv[1], "limit") == 0)
        setenv("ZG_HANG_S", "5s", 1);
    if (argc != 2 || launcher_find(&launcher) != ERR_NONE || launcher_open(&launcher, &comm) != ERR_NONE) {
        fprintf(stderr, "%s\n", err_message());
        return 2;
    }
    const char *word = argv[1];
    int rank = comm_rank(comm);
    int rc = strstr(word, "-inside")                                  ? provoke_inside_parts(comm)
             : strcmp(word, "stop") == 0                              ? provoke_stop(comm)
             : strcmp(word, "sigterm") == 0                           ? provoke_sigterm(comm)
             : strcmp(word, "ring") == 0 || strcmp(word, "slow") == 0 ? wait_in_pairs(comm, word)
             : strstr(word, "message-")                               ? provoke_message(comm, word)
             : strstr(word, "mistake-") ? make_mistake(comm, (enum mistake)atoi(word + strlen("mistake-")))
             : strstr(word, "-beside")  ? provoke_beside_part(comm, word)
                                        : provoke(comm, word);
    printf("rank %d: %s\n", rank, rc == ERR_NONE ? "good" : err_message());
    fflush(stdout);
    launcher_close(comm, rc != ERR_NONE || (strcmp(word, "slow") != 0 && strcmp(word, "late") != 0));
    _exit(rc == ERR_NONE ? 0 : 1);
}
