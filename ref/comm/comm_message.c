// SPDX-License-Identifier: Apache-2.0
// Calls of two ranks, in which the others take no part.
#include "ref/comm/comm_internal.h"

#include "base/err.h"

static int check_peer(const struct comm *comm, int peer)
{
    if (peer < 0 || peer >= comm->world || peer == comm->rank)
        return err_set(ERR_INTERNAL, "rank %d is no peer of rank %d in a world of %d", peer, comm->rank, comm->world);
    return ERR_NONE;
}

int comm_send(struct comm *comm, int peer, uint64_t tag, const void *buffer, size_t bytes)
{
    // The cast drops const for the call alone: a send reads the buffer.
    const struct comm_message message = {{tag, bytes}, peer, (void *)(uintptr_t)buffer};
    TRY(check_peer(comm, peer));
    if (!comm->ops->send)
        return err_set(ERR_USAGE, "send: the transport %s has no messages between two ranks", comm->ops->name);
    TRY(comm->ops->send(comm, &message));
    comm_count(comm, comm->purpose, OPERATION_SEND, 1, bytes);
    return ERR_NONE;
}

int comm_receive(struct comm *comm, int peer, uint64_t tag, void *buffer, size_t bytes)
{
    const struct comm_message message = {{tag, bytes}, peer, buffer};
    TRY(check_peer(comm, peer));
    if (!comm->ops->receive)
        return err_set(ERR_USAGE, "receive: the transport %s has no messages between two ranks", comm->ops->name);
    return comm->ops->receive(comm, &message);
}

int comm_exchange(struct comm *comm, int peer, const void *send, void *recv, size_t bytes)
{
    if (!comm->ops->exchange)
        return err_set(ERR_USAGE, "exchange: ranks that are threads have no link between them");
    TRY(check_peer(comm, peer));
    return comm->ops->exchange(comm, peer, send, recv, bytes);
}
