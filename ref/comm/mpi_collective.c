// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/mpi_collective.h"

#include "base/err.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#ifdef ZG_HAVE_MPI
#include "ref/comm/comm_mpi.h"

// The arrays of size_t as MPI's ints: counts, offsets, and the same of what is received.
struct int_arrays {
    int *counts, *offsets, *recv_counts, *recv_offsets;  // counts owns all
};

static int to_ints(const size_t from[], int count, int to[])
{
    for (int i = 0; from && i < count; i++) {
        if (from[i] > INT_MAX)
            return err_set(ERR_USAGE, "MPI's own collective counts up to %d elements, and %zu are asked for", INT_MAX,
                           from[i]);
        to[i] = (int)from[i];
    }
    return ERR_NONE;
}

static int arrays_open(const struct comm_call *call, int world, struct int_arrays *out)
{
    int *room = calloc(4 * (size_t)world, sizeof *room);
    if (!room)
        return err_set(ERR_MEMORY, "no memory for the counts of %d ranks", world);
    *out = (struct int_arrays){room, room + world, room + 2 * world, room + 3 * world};
    TRY(call->count > INT_MAX ? to_ints(&call->count, 1, room) : ERR_NONE);
    TRY(to_ints(call->counts, world, out->counts));
    TRY(to_ints(call->offsets, world, out->offsets));
    TRY(to_ints(call->recv_counts, world, out->recv_counts));
    return to_ints(call->recv_offsets, world, out->recv_offsets);
}

static int run(MPI_Comm world, int rank, const struct comm_call *call, const struct int_arrays *a)
{
    MPI_Datatype type = call->send_dtype == DTYPE_FP32 ? MPI_FLOAT : MPI_BYTE;
    int count = (int)call->count;
    switch (call->operation) {
    case COMM_ALL_TO_ALL:
        return comm_mpi_code(MPI_Alltoallv(call->send, a->counts, a->offsets, type, call->recv, a->recv_counts,
                                           a->recv_offsets, type, world),
                             "MPI_Alltoallv");
    case COMM_REDUCE_SCATTER:
        return comm_mpi_code(MPI_Reduce_scatter(call->send, call->recv, a->counts, type, MPI_SUM, world),
                             "MPI_Reduce_scatter");
    case COMM_ALL_GATHER:
        return comm_mpi_code(
            MPI_Allgatherv(call->send, a->counts[rank], type, call->recv, a->counts, a->offsets, type, world),
            "MPI_Allgatherv");
    case COMM_ALL_REDUCE:
        return comm_mpi_code(MPI_Allreduce(call->send, call->recv, count, type, MPI_SUM, world), "MPI_Allreduce");
    case COMM_BROADCAST:
        return comm_mpi_code(MPI_Bcast(call->recv, count, type, call->root, world), "MPI_Bcast");
    case COMM_BARRIER:
        break;
    }
    return comm_mpi_code(MPI_Barrier(world), "MPI_Barrier");
}

int mpi_collective_run(struct comm *comm, const struct comm_call *call)
{
    if (strcmp(comm->ops->name, "mpi") != 0)
        return err_set(ERR_USAGE, "ranks that are threads have no collectives of MPI");
    struct int_arrays arrays = {0};
    int rc = arrays_open(call, comm->world, &arrays);
    if (rc == ERR_NONE)
        rc = run(((struct comm_mpi *)comm)->data, comm->rank, call, &arrays);
    free(arrays.counts);
    return rc;
}

const char *mpi_collective_library(void)
{
    static char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(name, &length);
    name[strcspn(name, ",\n")] = '\0';
    return name;
}
#else
int mpi_collective_run(struct comm *comm, const struct comm_call *call)
{
    (void)comm, (void)call;
    return err_set(ERR_USAGE, "this binary was built without MPI");
}

const char *mpi_collective_library(void)
{
    return NULL;
}
#endif
