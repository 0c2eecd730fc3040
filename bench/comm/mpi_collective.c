// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/native_collective.h"

#include "base/err.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#ifdef ZG_HAVE_MPI
#include "ref/comm/comm_mpi.h"

// MPI has no sum of 16-bit floats. Its own collectives get one that rounds each addition.
static void add_bf16(void *terms, void *sums, int *count, MPI_Datatype *type)
{
    (void)type;
    dtype_accumulate(DTYPE_BF16, sums, DTYPE_BF16, terms, (size_t)*count);
}

static void add_fp16(void *terms, void *sums, int *count, MPI_Datatype *type)
{
    (void)type;
    dtype_accumulate(DTYPE_FP16, sums, DTYPE_FP16, terms, (size_t)*count);
}

// Finds MPI's sum of a dtype, and makes it at its first use; it stays until MPI ends.
static int sum_of(enum dtype dtype, MPI_Op *out)
{
    static MPI_Op made[] = {MPI_OP_NULL, MPI_OP_NULL};
    MPI_Op *op = &made[dtype == DTYPE_FP16];
    int code = MPI_SUCCESS;
    if (dtype != DTYPE_FP32 && *op == MPI_OP_NULL)
        code = MPI_Op_create(dtype == DTYPE_FP16 ? add_fp16 : add_bf16, 1, op);
    *out = dtype == DTYPE_FP32 ? MPI_SUM : *op;
    return comm_mpi_code(code, "MPI_Op_create");
}

// Converts the call's counts, offsets, recv_counts and recv_offsets to MPI's ints.
static int to_ints(const struct comm_call *call, int world, int *out)
{
    const size_t *const arrays[] = {call->counts, call->offsets, call->recv_counts, call->recv_offsets};
    size_t largest = call->count;
    for (int i = 0; i < 4 * world; i++) {
        size_t value = arrays[i / world] ? arrays[i / world][i % world] : 0;
        largest = value > largest ? value : largest;
        out[i] = (int)value;
    }
    return largest <= INT_MAX
               ? ERR_NONE
               : err_set(ERR_USAGE, "MPI's own collective takes at most %d elements, not %zu", INT_MAX, largest);
}

static int run(const struct comm_mpi *mpi, const struct comm_call *call, const int *counts)
{
    const int *offsets = counts + mpi->comm.world, *recv_counts = offsets + mpi->comm.world;
    const int *recv_offsets = recv_counts + mpi->comm.world, count = (int)call->count;
    MPI_Datatype type = call->dtype == DTYPE_FP32 ? MPI_FLOAT : MPI_UINT16_T;
    MPI_Comm world = mpi->data;
    MPI_Op sum;
    TRY(sum_of(call->dtype, &sum));
    int code = MPI_SUCCESS;
    switch (call->operation) {
    case COMM_ALL_TO_ALL:
        code = MPI_Alltoallv(call->send, counts, offsets, type, call->recv, recv_counts, recv_offsets, type, world);
        break;
    case COMM_REDUCE_SCATTER:
        code = MPI_Reduce_scatter(call->send, call->recv, counts, type, sum, world);
        break;
    case COMM_ALL_GATHER:
        code = MPI_Allgatherv(call->send, counts[mpi->comm.rank], type, call->recv, counts, offsets, type, world);
        break;
    case COMM_ALL_REDUCE:
        code = MPI_Allreduce(call->send, call->recv, count, type, sum, world);
        break;
    case COMM_BROADCAST:
        code = MPI_Bcast(call->recv, count, type, call->root, world);
        break;
    case COMM_BARRIER:
        code = MPI_Barrier(world);
        break;
    }
    return comm_mpi_code(code, comm_operation_name(call->operation));
}

int mpi_collective_run(struct comm *comm, const struct comm_call *call)
{
    if (strcmp(comm->ops->name, "mpi") != 0)
        return err_set(ERR_USAGE, "MPI's own collectives need ranks that are processes");
    int *counts = calloc(4 * (size_t)comm->world, sizeof *counts);
    int rc = counts ? to_ints(call, comm->world, counts)
                    : err_set(ERR_MEMORY, "no memory for the counts of %d ranks", comm->world);
    if (rc == ERR_NONE)
        rc = run((const struct comm_mpi *)comm, call, counts);
    free(counts);
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
