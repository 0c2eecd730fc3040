// SPDX-License-Identifier: Apache-2.0
// Sums by MPI, in an order of its choice, each compared with the canonical sum of the same values. MPI_SUM adds fp32;
// for 16-bit formats, which MPI lacks, an operation adds two numbers in fp32 and rounds, as other libraries do at every
// hop. Uses non-blocking collectives, so that the wait detects a rank's death.
#include "ref/comm/comm_mpi.h"

#include "base/err.h"
#include "ref/comm/comm_native.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void add_bf16(void *in, void *sum, int *count, MPI_Datatype *type)
{
    const struct bf16 *a = in;
    struct bf16 *b = sum;
    (void)type;
    for (int i = 0; i < *count; i++)
        b[i] = f32_to_bf16(bf16_to_f32(a[i]) + bf16_to_f32(b[i]));
}

static void add_fp16(void *in, void *sum, int *count, MPI_Datatype *type)
{
    const struct fp16 *a = in;
    struct fp16 *b = sum;
    (void)type;
    for (int i = 0; i < *count; i++)
        b[i] = f32_to_fp16(fp16_to_f32(a[i]) + fp16_to_f32(b[i]));
}

static int choose_operation(struct comm_mpi *mpi, enum dtype dtype, MPI_Op *out)
{
    MPI_Op *own = &mpi->native_operations[dtype == DTYPE_FP16];
    *out = MPI_SUM;
    if (dtype == DTYPE_FP32)
        return ERR_NONE;
    int rc = ERR_NONE;
    if (*own == MPI_OP_NULL)
        rc = comm_mpi_code(MPI_Op_create(dtype == DTYPE_FP16 ? add_fp16 : add_bf16, 1, own), "MPI_Op_create");
    *out = *own;
    return rc;
}

void comm_mpi_native_close(struct comm_mpi *mpi)
{
    for (int i = 0; i < 2; i++)
        if (mpi->native_operations[i] != MPI_OP_NULL)
            MPI_Op_free(&mpi->native_operations[i]);
    free(mpi->native_counts);
    free(mpi->native_memory);
}

// Allocates buffers in the handle, because MPI cannot cancel a collective that uses them.
static int make_room(struct comm_mpi *mpi, size_t bytes)
{
    if (!mpi->native_counts)
        mpi->native_counts = calloc((size_t)mpi->comm.world, sizeof *mpi->native_counts);
    if (mpi->native_bytes < bytes) {
        free(mpi->native_memory);
        mpi->native_memory = malloc(bytes);
        mpi->native_bytes = mpi->native_memory ? bytes : 0;
    }
    if (!mpi->native_counts || mpi->native_bytes < bytes)
        return err_set(ERR_MEMORY, "out of memory for %zu bytes of native sums", bytes);
    return ERR_NONE;
}

static size_t part(size_t count, enum dtype dtype)
{
    return (count * dtype_bytes(dtype) + 63) / 64 * 64;
}

// Computes MPI's sum of `send`, whose shards are packed.
static int sum_natively(struct comm_mpi *mpi, const struct comm_call *call, void *send, void *sum)
{
    MPI_Datatype type = call->send_dtype == DTYPE_FP32 ? MPI_FLOAT : MPI_UINT16_T;
    MPI_Request request;
    MPI_Op operation;
    TRY(choose_operation(mpi, call->send_dtype, &operation));
    for (int rank = 0; call->operation == COMM_REDUCE_SCATTER && rank < mpi->comm.world; rank++)
        mpi->native_counts[rank] = (int)call->counts[rank];
    if (call->operation == COMM_REDUCE_SCATTER)
        TRY(comm_mpi_code(MPI_Ireduce_scatter(send, sum, mpi->native_counts, type, operation, mpi->data, &request),
                          "MPI_Ireduce_scatter"));
    else
        TRY(comm_mpi_code(MPI_Iallreduce(send, sum, (int)call->count, type, operation, mpi->data, &request),
                          "MPI_Iallreduce"));
    return comm_mpi_wait_collective(mpi, &request);
}

int comm_mpi_native(struct comm_mpi *mpi, const struct comm_call *call)
{
    const struct comm *comm = &mpi->comm;
    bool scatter = call->operation == COMM_REDUCE_SCATTER;
    size_t own = scatter ? call->counts[comm->rank] : call->count, element_bytes = dtype_bytes(call->send_dtype);
    size_t send_bytes = part(call->count, call->send_dtype), sum_bytes = part(own, call->send_dtype);
    if (call->count > INT_MAX)
        return err_set(ERR_USAGE,
                       "a native sum of MPI has at most %d elements, this one has %zu: omit --native-reduction",
                       INT_MAX, call->count);
    TRY(make_room(mpi, send_bytes + sum_bytes + part(own, call->recv_dtype)));
    unsigned char *send = mpi->native_memory, *sum = send + send_bytes, *canonical = sum + sum_bytes;
    size_t at = 0;
    for (int rank = 0; scatter && rank < comm->world; rank++) {
        size_t bytes = call->counts[rank] * element_bytes;
        if (bytes > 0)
            memcpy(send + at, (const char *)call->send + call->offsets[rank] * element_bytes, bytes);
        at += bytes;
    }
    if (!scatter && call->count > 0)
        memcpy(send, call->send, call->count * element_bytes);
    if (call->add && own > 0)
        memcpy(canonical, call->recv, own * dtype_bytes(call->recv_dtype));
    struct comm_call beside = *call;
    beside.recv = canonical;
    TRY(comm_mpi_move(mpi, &beside));
    if (call->count > 0)
        TRY(sum_natively(mpi, call, send, sum));
    const void *in[] = {sum};
    dtype_fold(call->send_dtype, in, 1, call->recv_dtype, call->recv, own, call->add);
    comm_native_compare(&mpi->comm, call->recv_dtype, canonical, call->recv, scatter ? call->offsets[comm->rank] : 0,
                        own);
    return ERR_NONE;
}
