// SPDX-License-Identifier: Apache-2.0
// Failures and departures of ranks that are processes. Ranks send them to each other as notices, outside the
// collectives; peer_watch.h detects the death of a neighbour.
#include "ref/comm/comm_mpi.h"

#include "base/err.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

int comm_mpi_keep_failure(struct comm_mpi *mpi, int code, const char *message)
{
    pthread_mutex_lock(&mpi->lock);
    int before = atomic_load(&mpi->failed);
    if (before == ERR_NONE) {
        snprintf(mpi->message, sizeof mpi->message, "%s", message);
        atomic_store(&mpi->failed, code);
    }
    pthread_mutex_unlock(&mpi->lock);
    return before;
}

// This world, or the nearest one that it is a part of, that has failed; null if none has.
static const struct comm_mpi *failed_world(const struct comm_mpi *mpi)
{
    while (mpi && atomic_load(&mpi->failed) == ERR_NONE)
        mpi = mpi->parent;
    return mpi;
}

int comm_mpi_check(const struct comm_mpi *mpi)
{
    const struct comm_mpi *failed = failed_world(mpi);
    return failed ? err_set(atomic_load(&failed->failed), "%s", failed->message) : ERR_NONE;
}

const char *comm_mpi_failure(const struct comm_mpi *mpi)
{
    const struct comm_mpi *failed = failed_world(mpi);
    return failed ? failed->message : NULL;
}

// Of the text, most often empty, only what there is: each rank of a world sends this to each other one when it leaves.
static int send_to(const struct comm_mpi *mpi, int rank, const struct comm_mpi_notice *notice, MPI_Request *out)
{
    size_t bytes = offsetof(struct comm_mpi_notice, text) + strlen(notice->text) + 1;
    return MPI_Isend(notice, (int)bytes, MPI_BYTE, rank, 0, mpi->control, out);
}

void comm_mpi_send_notice(struct comm_mpi *mpi, enum comm_mpi_notice_kind kind)
{
    struct comm_mpi_notice *notice = &mpi->sent[kind];
    pthread_mutex_lock(&mpi->lock);
    *notice = (struct comm_mpi_notice){.sequence = mpi->comm.sequence, .kind = kind, .dead = atomic_load(&mpi->dead)};
    snprintf(notice->text, sizeof notice->text, "%s", mpi->message);
    for (int rank = 0; rank < mpi->comm.world; rank++)
        if (rank != mpi->comm.rank && rank != notice->dead)
            send_to(mpi, rank, notice, &mpi->notices[mpi->notice_count++]);
    pthread_mutex_unlock(&mpi->lock);
}

void comm_mpi_send_waits(struct comm_mpi *mpi, int peer)
{
    int done = 0;
    if (MPI_Test(&mpi->waits_request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
        return;
    mpi->waits = (struct comm_mpi_notice){
        .sequence = mpi->comm.sequence, .received = mpi->outboxes[peer].received, .kind = NOTICE_WAITS, .dead = -1};
    send_to(mpi, peer, &mpi->waits, &mpi->waits_request);
}

void comm_mpi_fail_everywhere(struct comm_mpi *mpi, int code, const char *message)
{
    if (comm_mpi_keep_failure(mpi, code, message) == ERR_NONE)
        comm_mpi_send_notice(mpi, NOTICE_FAILED);
}

static void note_failing(struct comm_mpi *mpi, int rank, uint64_t sequence)
{
    mpi->left_count += mpi->left[rank] == 0;
    mpi->left[rank] = sequence + 1;
}

static void note_leaving(struct comm_mpi *mpi, int rank, uint64_t sequence)
{
    note_failing(mpi, rank, sequence);
    mpi->gone_count += !mpi->gone[rank];
    mpi->gone[rank] = true;
}

static void note_death(struct comm_mpi *mpi, int rank)
{
    note_leaving(mpi, rank, 0);
    atomic_store(&mpi->dead, rank);
}

void comm_mpi_take_notices(struct comm_mpi *mpi)
{
    if (mpi->parent)
        comm_mpi_take_notices(mpi->parent);
    else
        comm_mpi_hear(mpi);
    for (;;) {
        MPI_Message message;
        MPI_Status status;
        struct comm_mpi_notice notice;
        int found = 0;
        // MPI_Improbe, because another thread may receive between a probe and a receive.
        if (MPI_Improbe(MPI_ANY_SOURCE, 0, mpi->control, &found, &message, &status) != MPI_SUCCESS || !found)
            return;
        if (MPI_Mrecv(&notice, sizeof notice, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        if (notice.kind == NOTICE_WAITS) {
            mpi->outboxes[status.MPI_SOURCE].waits_sequence = notice.sequence + 1;
            mpi->outboxes[status.MPI_SOURCE].waits_received = notice.received;
            continue;
        }
        (notice.kind == NOTICE_LEFT ? note_leaving : note_failing)(mpi, status.MPI_SOURCE, notice.sequence);
        if (notice.dead >= 0 && notice.dead < mpi->comm.world && notice.dead != mpi->comm.rank)
            note_death(mpi, notice.dead);
        // The departure of a rank that knows of a death may arrive before the notice of the one that found it.
        if (notice.kind == NOTICE_FAILED || notice.dead >= 0)
            comm_mpi_keep_failure(mpi, ERR_PEER, notice.text);
    }
}

void comm_mpi_find_deaths(struct comm_mpi *mpi)
{
    char text[256];
    if (mpi->parent)
        comm_mpi_find_deaths(mpi->parent);
    int rank = peer_watch_poll(&mpi->watch, text, sizeof text);
    if (rank < 0)
        return;
    // Another rank may have named it before it died, and wants to be heard first. MPI looks for a message before it
    // makes progress, so that the second look finds what the first one let in.
    for (int look = 0; look < 2; look++)
        comm_mpi_take_notices(mpi);
    if (mpi->gone[rank])
        return;
    note_death(mpi, rank);
    comm_mpi_fail_everywhere(mpi, ERR_PEER, text);
}

void comm_mpi_find_leavers(struct comm_mpi *mpi)
{
    char text[128];
    for (int rank = 0; mpi->left_count > 0 && rank < mpi->comm.world; rank++)
        if (mpi->left[rank] != 0 && mpi->left[rank] - 1 < mpi->comm.sequence) {
            snprintf(text, sizeof text, "rank %d left while rank %d was in %s", rank, mpi->comm.rank,
                     comm_operation_name(mpi->operation));
            comm_mpi_fail_everywhere(mpi, ERR_PEER, text);
        }
}

void comm_mpi_find_waiters(struct comm_mpi *mpi)
{
    char text[192];
    for (int rank = 0; rank < mpi->comm.world; rank++) {
        const struct comm_mpi_outbox *box = &mpi->outboxes[rank];
        if (box->waits_sequence == 0 || box->waits_sequence > mpi->comm.sequence || box->waits_received != box->sent)
            continue;
        snprintf(text, sizeof text,
                 "the ranks disagree about collective %" PRIu64
                 ": rank %d calls %s, while rank %d is in receive and waits for it",
                 mpi->comm.sequence, mpi->comm.rank, comm_operation_name(mpi->operation), rank);
        comm_mpi_fail_everywhere(mpi, ERR_INTERNAL, text);
        return;
    }
}
