// SPDX-License-Identifier: Apache-2.0
// MPI's collectives as a peer (peer.h): mpirun -n WORLD mpi. Rank 0 speaks the protocol; the others sleep between
// turns, because MPI itself waits actively.
#include <jansson.h>
#include <mpi.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum operation { ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, ALL_TO_ALL, BROADCAST, OPERATION_KINDS };

static const char *const names[OPERATION_KINDS] = {"all-gather", "all-reduce", "reduce-scatter", "all-to-all",
                                                   "broadcast"};

struct work {
    int operation, rank, world;
    size_t count, shard;  // elements of the full buffer, and of one rank's shard
    float *send, *recv, *expected;
    size_t recv_count;
};

// The data of a rank: small integers, so that every sum is exact.
static float value(int rank, size_t position)
{
    return (float)((position * 7 + 13 * (size_t)rank) % 251);
}

static float sum(int world, size_t position)
{
    float total = 0;
    for (int r = 0; r < world; r++)
        total += value(r, position);
    return total;
}

// In huge pages where the system provides them on request, as on our side.
static float *floats(size_t count)
{
    const size_t huge = 2 << 20, bytes = (count * sizeof(float) + huge) / huge * huge;
    float *memory = aligned_alloc(huge, bytes);
    if (!memory)
        MPI_Abort(MPI_COMM_WORLD, 1);
    madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static float result(const struct work *work, size_t i)
{
    size_t begin = (size_t)work->rank * work->shard;
    switch (work->operation) {
    case ALL_REDUCE:
        return sum(work->world, i);
    case REDUCE_SCATTER:
        return sum(work->world, begin + i);
    case ALL_TO_ALL:
        return value((int)(i / work->shard), begin + i % work->shard);
    default:
        return value(0, i);
    }
}

// Makes buffers of this size and fills them.
static void resize(struct work *work, long long buffer_bytes)
{
    free(work->send);
    free(work->recv);
    free(work->expected);
    work->shard = (size_t)buffer_bytes / sizeof(float) / (size_t)work->world;
    work->count = work->shard * (size_t)work->world;
    work->recv_count = work->operation == REDUCE_SCATTER ? work->shard : work->count;
    work->send = floats(work->count);
    work->recv = floats(work->count);
    work->expected = floats(work->count);
    bool gathers = work->operation == ALL_GATHER;
    for (size_t i = 0; i < (gathers ? work->shard : work->count); i++)
        work->send[i] = gathers ? value(0, (size_t)work->rank * work->shard + i) : value(work->rank, i);
    for (size_t i = 0; i < work->recv_count; i++)
        work->expected[i] = result(work, i);
}

// Fills recv with what the collective reads there, and with what no collective writes.
static void poison(const struct work *work)
{
    bool sends = work->operation == BROADCAST && work->rank == 0;
    for (size_t i = 0; i < work->recv_count; i++)
        work->recv[i] = sends ? work->expected[i] : -1;
}

static void collective(const struct work *work)
{
    int shard = (int)work->shard, count = (int)work->count;
    switch (work->operation) {
    case ALL_GATHER:
        MPI_Allgather(work->send, shard, MPI_FLOAT, work->recv, shard, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    case ALL_REDUCE:
        MPI_Allreduce(work->send, work->recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(work->send, work->recv, shard, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case ALL_TO_ALL:
        MPI_Alltoall(work->send, shard, MPI_FLOAT, work->recv, shard, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    default:
        MPI_Bcast(work->recv, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    }
}

// Runs the collective between two barriers and returns the time in ns. *wrong: wrong elements on all ranks, on rank 0.
static double run(const struct work *work, long long calls, unsigned long long *wrong)
{
    unsigned long long mine = 0;
    poison(work);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long long i = 0; i < calls; i++)
        collective(work);
    MPI_Barrier(MPI_COMM_WORLD);
    double took_ns = (MPI_Wtime() - begin) * 1e9;
    for (size_t i = 0; i < work->recv_count; i++)
        mine += work->recv[i] != work->expected[i];
    MPI_Reduce(&mine, wrong, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    return took_ns;
}

// Rank 0 tells the others to make buffers of a size, or to run a number of calls; neither ends them.
struct order {
    long long buffer_bytes, calls;
};

static void follow(struct work *work)
{
    for (;;) {
        struct order order;
        unsigned long long wrong;
        int arrived = 0;
        for (;;) {
            MPI_Iprobe(0, 0, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
            if (arrived)
                break;
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
        MPI_Recv(&order, 2, MPI_LONG_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (order.buffer_bytes > 0)
            resize(work, order.buffer_bytes);
        else if (order.calls > 0)
            run(work, order.calls, &wrong);
        else
            return;
    }
}

static void tell(const struct work *work, struct order order)
{
    for (int r = 1; r < work->world; r++)
        MPI_Send(&order, 2, MPI_LONG_LONG, r, 0, MPI_COMM_WORLD);
}

static void obey(struct work *work, struct order order)
{
    unsigned long long wrong = 0;
    tell(work, order);
    if (order.buffer_bytes > 0) {
        resize(work, order.buffer_bytes);
        printf("{}\n");
        return;
    }
    double ns = run(work, order.calls, &wrong);
    if (wrong > 0)
        printf("{\"error\":\"%s: %llu elements are wrong\"}\n", names[work->operation], wrong);
    else
        printf("{\"ns\":%.1f}\n", ns);
}

static void lead(struct work *work)
{
    char *line = NULL, version[MPI_MAX_LIBRARY_VERSION_STRING];
    size_t room = 0;
    int length;
    MPI_Get_library_version(version, &length);
    // "Open MPI v4.1.4, package: ...", or lines of names and values, of which "MPICH Version:\t4.0.2" is the first.
    version[strcspn(version, ",\n")] = '\0';
    const char *value = strchr(version, '\t');
    printf("{\"name\":\"%s%.100s\"}\n", value ? "MPICH " : "", value ? value + 1 : version);
    fflush(stdout);
    while (getline(&line, &room, stdin) > 0) {
        json_t *request = json_loads(line, 0, NULL);
        obey(work, (struct order){json_integer_value(json_object_get(request, "buffer_bytes")),
                                  json_integer_value(json_object_get(request, "calls"))});
        json_decref(request);
        fflush(stdout);
    }
    tell(work, (struct order){0, 0});
    free(line);
}

static int read_operation(void)
{
    char *line = NULL;
    size_t room = 0;
    json_t *setting = getline(&line, &room, stdin) > 0 ? json_loads(line, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(setting, "operation"));
    int operation = 0;
    while (operation < OPERATION_KINDS && strcmp(names[operation], name ? name : "") != 0)
        operation++;
    if (operation == OPERATION_KINDS)
        printf("{\"error\":\"unknown operation %.40s\"}\n", name ? name : "");
    json_decref(setting);
    free(line);
    return operation;
}

int main(int argc, char **argv)
{
    struct work work = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &work.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &work.world);
    if (work.rank == 0)
        work.operation = read_operation();
    MPI_Bcast(&work.operation, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (work.operation < OPERATION_KINDS) {
        if (work.rank == 0)
            lead(&work);
        else
            follow(&work);
    }
    free(work.send);
    free(work.recv);
    free(work.expected);
    return MPI_Finalize();
}
