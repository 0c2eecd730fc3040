// SPDX-License-Identifier: Apache-2.0
// MPI's collectives as a peer (peer.h): mpirun -n WORLD mpi. Rank 0 speaks the protocol; the others sleep between
// turns, because MPI itself waits actively.
#include <jansson.h>
#include <mpi.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct work {
    char operation[32];
    long long buffer_bytes;
    int rank, world;
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

static void fill(struct work *work)
{
    bool gathers = strcmp(work->operation, "all-gather") == 0, reduces = strcmp(work->operation, "all-reduce") == 0;
    work->shard = (size_t)work->buffer_bytes / sizeof(float) / (size_t)work->world;
    work->count = work->shard * (size_t)work->world;
    size_t begin = (size_t)work->rank * work->shard;
    work->recv_count = gathers || reduces ? work->count : work->shard;
    work->send = malloc(work->count * sizeof(float) + 1);
    work->recv = malloc(work->count * sizeof(float) + 1);
    work->expected = malloc(work->count * sizeof(float) + 1);
    if (!work->send || !work->recv || !work->expected)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < (gathers ? work->shard : work->count); i++)
        work->send[i] = gathers ? value(0, begin + i) : value(work->rank, i);
    for (size_t i = 0; i < work->recv_count; i++)
        work->expected[i] = gathers ? value(0, i) : sum(work->world, reduces ? i : begin + i);
}

static void collective(const struct work *work)
{
    if (strcmp(work->operation, "all-gather") == 0)
        MPI_Allgather(work->send, (int)work->shard, MPI_FLOAT, work->recv, (int)work->shard, MPI_FLOAT, MPI_COMM_WORLD);
    else if (strcmp(work->operation, "all-reduce") == 0)
        MPI_Allreduce(work->send, work->recv, (int)work->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Reduce_scatter_block(work->send, work->recv, (int)work->shard, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

// Runs the collective between two barriers and returns the time in ns. *wrong: wrong elements on all ranks, on rank 0.
static double run(const struct work *work, long long calls, unsigned long long *wrong)
{
    unsigned long long mine = 0;
    for (size_t i = 0; i < work->recv_count; i++)
        work->recv[i] = -1;
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

static void follow(const struct work *work)
{
    for (;;) {
        long long calls;
        unsigned long long wrong;
        int arrived = 0;
        for (;;) {
            MPI_Iprobe(0, 0, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
            if (arrived)
                break;
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
        MPI_Recv(&calls, 1, MPI_LONG_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (calls == 0)
            return;
        run(work, calls, &wrong);
    }
}

static void lead(const struct work *work)
{
    char *line = NULL, version[MPI_MAX_LIBRARY_VERSION_STRING];
    size_t room = 0;
    int length;
    long long calls;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",")] = '\0';
    printf("{\"name\":\"%.100s\"}\n", version);
    fflush(stdout);
    while (getline(&line, &room, stdin) > 0) {
        json_t *request = json_loads(line, 0, NULL);
        unsigned long long wrong = 0;
        calls = json_integer_value(json_object_get(request, "calls"));
        json_decref(request);
        for (int r = 1; r < work->world; r++)
            MPI_Send(&calls, 1, MPI_LONG_LONG, r, 0, MPI_COMM_WORLD);
        double ns = run(work, calls, &wrong);
        if (wrong > 0)
            printf("{\"error\":\"%s: %llu elements are wrong\"}\n", work->operation, wrong);
        else
            printf("{\"ns\":%.1f}\n", ns);
        fflush(stdout);
    }
    calls = 0;
    for (int r = 1; r < work->world; r++)
        MPI_Send(&calls, 1, MPI_LONG_LONG, r, 0, MPI_COMM_WORLD);
    free(line);
}

static void read_setting(struct work *work)
{
    char *line = NULL;
    size_t room = 0;
    json_t *setting = getline(&line, &room, stdin) > 0 ? json_loads(line, 0, NULL) : NULL;
    const char *operation = json_string_value(json_object_get(setting, "operation"));
    snprintf(work->operation, sizeof work->operation, "%s", operation ? operation : "");
    work->buffer_bytes = json_integer_value(json_object_get(setting, "buffer_bytes"));
    json_decref(setting);
    free(line);
}

int main(int argc, char **argv)
{
    struct work work = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &work.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &work.world);
    if (work.rank == 0)
        read_setting(&work);
    MPI_Bcast(work.operation, sizeof work.operation, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Bcast(&work.buffer_bytes, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    fill(&work);
    if (work.rank == 0)
        lead(&work);
    else
        follow(&work);
    free(work.send);
    free(work.recv);
    free(work.expected);
    return MPI_Finalize();
}
