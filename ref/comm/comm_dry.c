// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/comm_internal.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static int dry_run(struct comm *comm, const struct comm_call *call)
{
    size_t element_bytes = dtype_bytes(call->dtype);
    if (call->operation != COMM_ALL_GATHER && call->operation != COMM_BARRIER)
        return err_set(ERR_INTERNAL, "%s: a plan supports only all-gathers and barriers",
                       comm_operation_name(call->operation));
    for (int rank = 0; call->operation == COMM_ALL_GATHER && rank < comm->world; rank++) {
        if (call->counts[rank] != call->counts[comm->rank])
            return err_set(ERR_INTERNAL, "%s: a plan needs equal counts on all ranks",
                           comm_operation_name(call->operation));
        memmove((char *)call->recv + call->offsets[rank] * element_bytes, call->send,
                call->counts[rank] * element_bytes);
    }
    return ERR_NONE;
}

static void dry_abort(struct comm *comm, const char *message)
{
    (void)comm, (void)message;
}

static void dry_close(struct comm *comm)
{
    free(comm);
}

static int dry_split(struct comm *comm, const struct comm_part *part, struct comm **out)
{
    (void)comm;
    return comm_dry_open(part->rank, part->world, out);
}

int comm_dry_open(int rank, int world, struct comm **out)
{
    static const struct comm_ops ops = {
        .name = "dry", .run = dry_run, .split = dry_split, .abort = dry_abort, .close = dry_close};
    if (world < 1 || rank < 0 || rank >= world)
        return err_set(ERR_USAGE, "rank %d of %d: expected a rank from 0 to %d", rank, world, world - 1);
    struct comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return err_set(ERR_MEMORY, "out of memory for a rank of a plan");
    *comm = (struct comm){.ops = &ops, .rank = rank, .world = world};
    *out = comm;
    return ERR_NONE;
}
