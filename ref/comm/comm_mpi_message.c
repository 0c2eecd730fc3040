// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks that are processes. A send copies its message into an outbox, from where MPI takes it
// while the rank does other work; its kind goes first, in a message of its own.
#include "ref/comm/comm_mpi.h"

#include "base/clock.h"
#include "base/err.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// Apart from those of collectives, whose tag is 0.
enum { MESSAGE_TAG = 1 };

// A rank that waits this long for a message tells its peer, which may be waiting for this rank.
static const uint64_t patience_ns = 50000000u;

// A message that a rank sent before it left may arrive this long after the notice.
static const uint64_t left_limit_ns = 500000000u;

// As comm_mpi_wait, for transfers between this rank and one peer: its departure is an error as well.
static int wait_for_peer(struct comm_mpi *mpi, MPI_Request requests[], int count, int peer, bool receives)
{
    const char *what = receives ? "receive" : "send";
    uint64_t begin_ns = clock_now_ns(), limit_ns = 0;
    bool slept = false, told = !receives;
    for (unsigned tests = 0;; tests++) {
        int done = 0;
        if (!told && slept && clock_now_ns() - begin_ns > patience_ns) {
            comm_mpi_send_waits(mpi, peer);
            told = true;
        }
        TRY(comm_mpi_code(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "a message"));
        if (done)
            return ERR_NONE;
        if (slept || tests % 16 == 15) {
            comm_mpi_take_notices(mpi);
            if (mpi->left[peer] != 0 && limit_ns == 0)
                limit_ns = clock_now_ns() + left_limit_ns;
        }
        if (slept)
            comm_mpi_find_deaths(mpi);
        TRY(comm_mpi_check(mpi));
        if (limit_ns != 0 && clock_now_ns() > limit_ns)
            return err_set(ERR_PEER, "rank %d left while rank %d was in %s", peer, mpi->comm.rank, what);
        slept = comm_mpi_pause(begin_ns);
    }
}

static int wait_or_fail(struct comm_mpi *mpi, MPI_Request requests[], int count, int peer, bool receives)
{
    int rc = wait_for_peer(mpi, requests, count, peer, receives);
    if (rc == ERR_NONE)
        return ERR_NONE;
    char message[ERR_MESSAGE_BYTES];
    err_keep(message);
    comm_mpi_cancel(requests, count);
    comm_mpi_fail_everywhere(mpi, ERR_PEER, message);
    return comm_mpi_check(mpi);
}

static int piece_bytes(const struct comm_mpi *mpi, size_t bytes, size_t at)
{
    size_t left = bytes - at;
    assert(mpi->message_bytes <= INT_MAX);
    return (int)(left < mpi->message_bytes ? left : mpi->message_bytes);
}

// Room for a message, when the one before it has left.
static int prepare(struct comm_mpi *mpi, struct comm_mpi_outbox *box, const struct comm_message *message)
{
    size_t bytes = message->kind.bytes, pieces = bytes / mpi->message_bytes + 2;
    int count = box->request_count;
    box->request_count = 0;
    TRY(wait_or_fail(mpi, box->requests, count, message->peer, false));
    if (bytes <= box->room_bytes && box->memory)
        return ERR_NONE;
    free(box->memory);
    free(box->requests);
    box->memory = malloc(bytes + 1);
    box->requests = malloc(pieces * sizeof(MPI_Request));
    box->room_bytes = bytes;
    if (!box->memory || !box->requests)
        return err_set(ERR_MEMORY, "no memory for a message of %zu bytes", bytes);
    return ERR_NONE;
}

int comm_mpi_send_message(struct comm *comm, const struct comm_message *message)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    struct comm_mpi_outbox *box = &mpi->outboxes[message->peer];
    size_t bytes = message->kind.bytes;
    box->sent++;
    comm_mpi_take_notices(mpi);
    TRY(comm_mpi_check(mpi));
    TRY(prepare(mpi, box, message));
    if (bytes > 0)
        memcpy(box->memory, message->buffer, bytes);
    box->kind = message->kind;
    TRY(comm_mpi_code(MPI_Isend(&box->kind, (int)sizeof box->kind, MPI_BYTE, message->peer, MESSAGE_TAG, mpi->data,
                                &box->requests[box->request_count++]),
                      "MPI_Isend"));
    for (size_t at = 0; at < bytes; at += mpi->message_bytes)
        TRY(comm_mpi_code(MPI_Isend(box->memory + at, piece_bytes(mpi, bytes, at), MPI_BYTE, message->peer, MESSAGE_TAG,
                                    mpi->data, &box->requests[box->request_count++]),
                          "MPI_Isend"));
    return ERR_NONE;
}

static int receive_bytes(struct comm_mpi *mpi, void *to, int bytes, int peer)
{
    MPI_Request request;
    TRY(comm_mpi_code(MPI_Irecv(to, bytes, MPI_BYTE, peer, MESSAGE_TAG, mpi->data, &request), "MPI_Irecv"));
    return wait_or_fail(mpi, &request, 1, peer, true);
}

int comm_mpi_receive_message(struct comm *comm, const struct comm_message *message)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    struct comm_message_kind sent;
    size_t bytes = message->kind.bytes;
    TRY(receive_bytes(mpi, &sent, (int)sizeof sent, message->peer));
    if (memcmp(&sent, &message->kind, sizeof sent) != 0) {
        char text[256];
        comm_message_text(comm, message, &sent, text, sizeof text);
        comm_mpi_fail_everywhere(mpi, ERR_INTERNAL, text);
        return comm_mpi_check(mpi);
    }
    for (size_t at = 0; at < bytes; at += mpi->message_bytes)
        TRY(receive_bytes(mpi, (char *)message->buffer + at, piece_bytes(mpi, bytes, at), message->peer));
    mpi->outboxes[message->peer].received++;
    return ERR_NONE;
}

void comm_mpi_close_outboxes(struct comm_mpi *mpi)
{
    for (int rank = 0; mpi->outboxes && rank < mpi->comm.world; rank++) {
        struct comm_mpi_outbox *box = &mpi->outboxes[rank];
        int done = 1;
        MPI_Testall(box->request_count, box->requests, &done, MPI_STATUSES_IGNORE);
        // MPI may still read a message that nobody received.
        if (!done)
            continue;
        free(box->requests);
        free(box->memory);
    }
    free(mpi->outboxes);
    mpi->outboxes = NULL;
}
