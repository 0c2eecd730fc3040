// SPDX-License-Identifier: Apache-2.0
// A rank of the tests of comm_mpi.c, started by mpirun.
//   collectives   every collective over formats, sizes and alignments (comm_case_test.h)
//   pieces        the same with odd message sizes and little memory, so that every message is cut
//   groups        as `pieces`, with hierarchical sums
//   parts         the same in parts of the world, and in parts of these
//   messages      messages between all ranks, cut into many of MPI's, between collectives
//   large         single buffers beyond 2^31 bytes
// Each rank prints its error message on one line.
#include "ref/comm/comm_case_test.h"
#include "ref/comm/comm_mpi.h"
#include "ref/comm/launcher.h"

#include <unistd.h>

static int group;  // of sums

static struct rank rank_of(struct comm *comm)
{
    return (struct rank){.comm = comm, .index = comm_rank(comm), .world = comm_world(comm)};
}

static int verdict_of(const struct rank *rank)
{
    return rank->report[0] == '\0' ? comm_barrier(rank->comm) : err_set(ERR_CHECK, "%s", rank->report);
}

static int collectives(struct comm *comm)
{
    struct rank rank = rank_of(comm);
    reduce_values(rank.world, group > 0 ? group : rank.world);
    every_collective(&rank);
    if (rank.report[0] == '\0')
        many_calls(&rank);
    return verdict_of(&rank);
}

static int pieces(struct comm *comm)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    mpi->message_bytes = 4099;
    mpi->stage_bytes = 128 << 10;
    return collectives(comm);
}

static int groups(struct comm *comm)
{
    group = comm_world(comm) % 3 == 0 ? 3 : 2;
    TRY(comm_set_group(comm, group));
    return pieces(comm);
}

// Element i of a large buffer: one of 64 small whole numbers, without a period that a message could have.
static uint16_t large_element(size_t i, int rank)
{
    uint64_t number = (i + (size_t)rank * 7919) * 0x9E3779B97F4A7C15u;
    return f32_to_bf16((float)(number >> 58)).bits;
}

// 2 ranks. A broadcast, an all-to-all in which one rank sends all, and a reduce-scatter of one shard, in place.
static int large(struct comm *comm)
{
    const size_t count = ((size_t)1 << 30) + 4099;
    int rank = comm_rank(comm);
    uint16_t *buffer = malloc(count * sizeof *buffer), *other = rank == 0 ? malloc(count * sizeof *other) : buffer;
    if (!buffer || !other)
        return err_set(ERR_MEMORY, "no memory for %zu bytes", count * sizeof *buffer);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        buffer[i] = rank == 1 ? large_element(i, 1) : 0;
    TRY(comm_broadcast(comm, buffer, count * sizeof *buffer, 1));
    for (size_t i = 0; i < count; i++)
        wrong += buffer[i] != large_element(i, 1);
    const size_t none[] = {0, 0}, to_zero[] = {count, 0}, from_one[] = {0, count};
    memset(other, 0, rank == 0 ? count * sizeof *other : 0);
    TRY(comm_all_to_all(comm, buffer, rank == 1 ? to_zero : none, none, rank == 0 ? other : NULL,
                        rank == 0 ? from_one : none, none, DTYPE_BF16));
    for (size_t i = 0; i < count && rank == 0; i++)
        wrong += other[i] != large_element(i, 1);
    for (size_t i = 0; i < count && rank == 0; i++)
        buffer[i] = large_element(i, 0);
    TRY(comm_reduce_scatter(comm, buffer, rank == 0 ? buffer : other + count, to_zero, none, DTYPE_BF16));
    for (size_t i = 0; i < count && rank == 0; i++) {
        float sum = bf16_to_f32((struct bf16){large_element(i, 0)}) + bf16_to_f32((struct bf16){large_element(i, 1)});
        wrong += buffer[i] != f32_to_bf16(sum).bits;
    }
    free(rank == 0 ? other : NULL);
    free(buffer);
    return wrong == 0 ? comm_barrier(comm) : err_set(ERR_CHECK, "%zu elements are wrong", wrong);
}

static int messages(struct comm *comm)
{
    struct rank rank = rank_of(comm);
    ((struct comm_mpi *)comm)->message_bytes = 4099;
    send_around(&rank);
    return verdict_of(&rank);
}

// The collectives of parts: of the even and the odd ranks, and of neighbours in these.
static int parts(struct comm *comm)
{
    int members[RANKS_MAX], size = 0;
    struct comm *part, *inner;
    for (int rank = comm_rank(comm) % 2; rank < comm_world(comm); rank += 2)
        members[size++] = rank;
    TRY(comm_split(comm, members, size, &part));
    TRY(collectives(part));
    int first = comm_rank(part) / 2 * 2, pair[] = {first, first + 1};
    TRY(comm_split(part, pair, first + 1 < size ? 2 : 1, &inner));
    TRY(collectives(inner));
    TRY(collectives(comm));
    comm_close(inner);
    comm_close(part);
    return ERR_NONE;
}

int main(int argc, char **argv)
{
    struct launcher launcher;
    struct comm *comm;
    if (argc < 2 || launcher_find(&launcher) != ERR_NONE || launcher_open(&launcher, &comm) != ERR_NONE) {
        fprintf(stderr, "%s\n", err_message());
        return 2;
    }
    int rank = comm_rank(comm);
    const char *word = argv[1];
    static const struct {
        const char *word;
        int (*run)(struct comm *);
    } trials[] = {{"collectives", collectives}, {"pieces", pieces}, {"groups", groups}, {"parts", parts},
                  {"messages", messages},       {"large", large}};
    int rc = ERR_USAGE;
    make_values();
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++)
        if (strcmp(word, trials[i].word) == 0)
            rc = trials[i].run(comm);
    free_values();
    printf("rank %d: %s\n", rank, rc == ERR_NONE ? "good" : err_message());
    fflush(stdout);
    launcher_close(comm, rc != ERR_NONE);
    if (rc != ERR_NONE)
        _exit(1);
    return 0;
}
