// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/comm_mpi.h"

#include "base/clock.h"
#include "base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

// Memory for the two pieces of a reduction that are in flight together.
enum { STAGE_BYTES = 8 << 20, STAGE_PIECE_BYTES = 4096 };

enum { MESSAGE_BYTES = 256 << 20 };

// A rank that closes waits this long for the others to close after a failure, and longer in a large world, where each
// sends to each other: MPI ends a process that still sends to one that has ended.
static const uint64_t close_limit_ns = 5000000000u, close_limit_of_rank_ns = 40000000u;

// A rank that waits this long for the others to close, and longer in a large world, tells them that it has left.
static const uint64_t close_patience_ns = 1000000000u, close_patience_of_rank_ns = 20000000u;

// Every rank compares the same signatures and so reaches the same conclusion.
static int name_disagreement(struct comm_mpi *mpi, const struct comm_signature *mine)
{
    struct comm_signature *all = mpi->signatures;
    int world = mpi->comm.world, bytes = sizeof *all;
    MPI_Request request;
    all[world] = *mine;
    TRY(comm_mpi_code(MPI_Iallgather(&all[world], bytes, MPI_BYTE, all, bytes, MPI_BYTE, mpi->data, &request),
                      "signatures"));
    TRY(comm_mpi_wait_collective(mpi, &request));
    int rank = 1;
    while (rank < world - 1 && memcmp(&all[rank], &all[0], sizeof all[0]) == 0)
        rank++;
    char a[128], b[128], text[512];
    comm_signature_text(&all[0], a, sizeof a);
    comm_signature_text(&all[rank], b, sizeof b);
    snprintf(text, sizeof text, "the ranks disagree about collective %" PRIu64 ": rank 0 calls %s, rank %d %s",
             all[0].sequence, a, rank, b);
    comm_mpi_keep_failure(mpi, ERR_INTERNAL, text);
    return comm_mpi_check(mpi);
}

// Compares digests of the signatures in one all-reduce: all ranks have the same digest d exactly if the minimum of d is
// the complement of the minimum of ~d.
static int compare_calls(struct comm_mpi *mpi, const struct comm_call *call)
{
    uint64_t *digests = mpi->digests, *least = digests + 2;
    digests[0] = XXH3_64bits(&call->signature, sizeof call->signature);
    digests[1] = ~digests[0];
    MPI_Request request;
    TRY(comm_mpi_code(MPI_Iallreduce(digests, least, 2, MPI_UINT64_T, MPI_MIN, mpi->data, &request), "agreement"));
    TRY(comm_mpi_wait_collective(mpi, &request));
    return least[0] == ~least[1] ? ERR_NONE : name_disagreement(mpi, &call->signature);
}

static int compare_pairs(struct comm_mpi *mpi, const struct comm_call *call)
{
    int world = mpi->comm.world;
    uint64_t *sent = mpi->pair_counts, *received = sent + world;
    for (int rank = 0; rank < world; rank++)
        sent[rank] = call->counts[rank];
    MPI_Request request;
    TRY(comm_mpi_code(MPI_Ialltoall(sent, 1, MPI_UINT64_T, received, 1, MPI_UINT64_T, mpi->data, &request),
                      "counts of an all-to-all"));
    TRY(comm_mpi_wait_collective(mpi, &request));
    for (int rank = 0; rank < world; rank++) {
        if (received[rank] == call->recv_counts[rank])
            continue;
        char text[256];
        snprintf(text, sizeof text,
                 "the ranks disagree about collective %" PRIu64 ", all-to-all: rank %d sends %" PRIu64
                 " elements to rank %d, which expects %zu",
                 call->signature.sequence, rank, received[rank], mpi->comm.rank, call->recv_counts[rank]);
        comm_mpi_fail_everywhere(mpi, ERR_INTERNAL, text);
        return comm_mpi_check(mpi);
    }
    return ERR_NONE;
}

static int mpi_run(struct comm *comm, const struct comm_call *call)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    mpi->operation = call->operation;
    comm_mpi_used(mpi);
    comm_mpi_take_notices(mpi);
    comm_mpi_find_leavers(mpi);
    if (mpi->parent)
        comm_mpi_find_deaths(mpi);  // the ranks of a part may never wait for the dead one
    TRY(comm_mpi_check(mpi));
    TRY(compare_calls(mpi, call));
    if (call->operation == COMM_ALL_TO_ALL)
        TRY(compare_pairs(mpi, call));
    int rc = comm_mpi_move(mpi, call);
    if (rc != ERR_NONE)
        comm_mpi_fail_everywhere(mpi, ERR_PEER, err_message());
    return rc;
}

static int mpi_check(struct comm *comm)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    comm_mpi_take_notices(mpi);
    comm_mpi_find_leavers(mpi);
    comm_mpi_find_deaths(mpi);
    return comm_mpi_check(mpi);
}

static void mpi_abort(struct comm *comm, const char *message)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    char text[COMM_MPI_TEXT_BYTES], host[64] = "";
    gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "rank %d (host %s) failed: %.*s", comm->rank, host, COMM_MPI_TEXT_BYTES - 128, message);
    comm_mpi_fail_everywhere(mpi, ERR_PEER, text);
}

static void free_handle(struct comm_mpi *mpi)
{
    pthread_mutex_destroy(&mpi->lock);
    comm_mpi_close_outboxes(mpi);
    comm_mpi_circle_leave(mpi);
    free(mpi->stage);
    free(mpi->requests);
    free(mpi->pair_counts);
    free(mpi->signatures);
    free(mpi->left);
    free(mpi->gone);
    free(mpi->notices);
    free(mpi);
}

// Waits for a collective of ranks that close. False: a rank has failed. A rank that waits here for long tells the
// others that it has left, as they may wait for it in a collective; *told: it has.
static bool wait_to_close(struct comm_mpi *mpi, MPI_Request *request, bool *told)
{
    uint64_t patience_ns = close_patience_ns + (uint64_t)mpi->comm.world * close_patience_of_rank_ns;
    int done = 0;
    for (uint64_t begin_ns = clock_now_ns(); !comm_mpi_failure(mpi); comm_mpi_pause(begin_ns)) {
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done)
            return done;
        comm_mpi_take_notices(mpi);
        comm_mpi_find_deaths(mpi);
        if (!*told && clock_now_ns() - begin_ns > patience_ns) {
            comm_mpi_send_notice(mpi, NOTICE_LEFT);
            *told = true;
        }
    }
    return false;
}

// Returns how many ranks have sent, or will send, a notice that they leave: without a failure those that waited for
// long for the others, and most often none, so that a world ends with two collectives and not with a message from each
// rank to each.
static int count_notices(struct comm_mpi *mpi, bool *told)
{
    MPI_Request request;
    uint64_t *count = mpi->digests, *all = count + 2;
    if (comm_mpi_failure(mpi) || MPI_Ibarrier(mpi->control, &request) != MPI_SUCCESS ||
        !wait_to_close(mpi, &request, told))
        return mpi->comm.world;
    bool known = true;
    *count = *told;
    if (MPI_Iallreduce(count, all, 1, MPI_UINT64_T, MPI_SUM, mpi->control, &request) != MPI_SUCCESS ||
        !wait_to_close(mpi, &request, &known))
        return mpi->comm.world;
    return (int)*all;
}

static void mpi_close(struct comm *comm)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    bool told = false;
    // The ranks of a part hear why this one leaves, even before the notice of the failed rank arrives.
    if (comm_mpi_failure(mpi))
        comm_mpi_fail_everywhere(mpi, ERR_PEER, comm_mpi_failure(mpi));
    int notices = count_notices(mpi, &told);
    if (notices == comm->world && !told) {
        comm_mpi_send_notice(mpi, NOTICE_LEFT);
        told = true;
    }
    // Waits for all notices, so that none stays in flight, and so that a launcher that ends all ranks once one has
    // ended cuts off no message.
    const uint64_t patience_ns = close_limit_ns + (uint64_t)comm->world * close_limit_of_rank_ns;
    uint64_t begin_ns = clock_now_ns(), limit = begin_ns + patience_ns;
    int sent = 0;
    while (clock_now_ns() < limit) {
        MPI_Testall(mpi->notice_count, mpi->notices, &sent, MPI_STATUSES_IGNORE);
        comm_mpi_take_notices(mpi);
        comm_mpi_find_deaths(mpi);
        // After a failure elsewhere the world waits, and not each of its parts.
        bool failed = comm_mpi_failure(mpi) != NULL;
        if ((sent && mpi->gone_count >= notices - told) || (failed && mpi->parent))
            break;
        comm_mpi_pause(begin_ns);
        if (!failed)
            limit = clock_now_ns() + patience_ns;
    }
    peer_watch_close(&mpi->watch);
    // After a failure MPI may still use this memory; the process is about to end.
    if (comm_mpi_failure(mpi))
        return;
    comm_mpi_close_outboxes(mpi);
    MPI_Comm_free(&mpi->data);
    MPI_Comm_free(&mpi->control);
    free_handle(mpi);
}

static int open_communicators(MPI_Comm world, struct comm_mpi *mpi)
{
    TRY(comm_mpi_code(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    TRY(comm_mpi_code(MPI_Comm_dup(world, &mpi->data), "MPI_Comm_dup"));
    TRY(comm_mpi_code(MPI_Comm_dup(world, &mpi->control), "MPI_Comm_dup"));
    TRY(comm_mpi_code(MPI_Comm_set_errhandler(mpi->data, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    TRY(comm_mpi_code(MPI_Comm_set_errhandler(mpi->control, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    // The neighbours in the whole world notice a death in any part of it.
    return mpi->parent ? ERR_NONE : peer_watch_open(mpi->control, &mpi->watch);
}

static int mpi_split(struct comm *comm, const struct comm_part *part, struct comm **out);

static int open_world(MPI_Comm world, struct comm_mpi *parent, const struct comm_part *part, struct comm **out)
{
    static const struct comm_ops ops = {.name = "mpi",
                                        .run = mpi_run,
                                        .split = mpi_split,
                                        .send = comm_mpi_send_message,
                                        .receive = comm_mpi_receive_message,
                                        .exchange = comm_mpi_exchange,
                                        .check = mpi_check,
                                        .abort = mpi_abort,
                                        .close = mpi_close};
    int rank, size;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    struct comm_mpi *mpi = calloc(1, sizeof *mpi);
    if (!mpi)
        return err_set(ERR_MEMORY, "out of memory for the communication of ranks");
    mpi->comm = (struct comm){.ops = &ops, .rank = rank, .world = size};
    mpi->parent = parent;
    mpi->watch.next.fd = mpi->watch.before.fd = -1;
    mpi->message_bytes = MESSAGE_BYTES;
    size_t ranks = (size_t)size, least = 2 * ranks * STAGE_PIECE_BYTES;
    mpi->stage_bytes = least > STAGE_BYTES ? least : STAGE_BYTES;
    mpi->stage = malloc(mpi->stage_bytes);
    mpi->requests = calloc(4 * ranks, sizeof(MPI_Request));
    mpi->outboxes = calloc(ranks, sizeof *mpi->outboxes);
    mpi->pair_counts = calloc(2 * ranks, sizeof *mpi->pair_counts);
    mpi->signatures = calloc(ranks + 1, sizeof *mpi->signatures);
    mpi->left = calloc(ranks, sizeof *mpi->left);
    mpi->gone = calloc(ranks, sizeof *mpi->gone);
    mpi->notices = calloc(2 * ranks, sizeof(MPI_Request));
    mpi->waits_request = MPI_REQUEST_NULL;
    atomic_init(&mpi->dead, -1);
    pthread_mutex_init(&mpi->lock, NULL);
    bool enough = mpi->stage && mpi->requests && mpi->outboxes && mpi->pair_counts && mpi->signatures && mpi->left &&
                  mpi->gone && mpi->notices;
    int rc = enough ? comm_mpi_circle_join(mpi, part)
                    : err_set(ERR_MEMORY, "out of memory for the communication of %d ranks", size);
    if (rc == ERR_NONE)
        rc = open_communicators(world, mpi);
    if (rc != ERR_NONE) {
        free_handle(mpi);
        return rc;
    }
    *out = &mpi->comm;
    return ERR_NONE;
}

static int mpi_split(struct comm *comm, const struct comm_part *part, struct comm **out)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    MPI_Comm world;
    TRY(comm_mpi_code(MPI_Comm_split(mpi->data, part->first, part->rank, &world), "MPI_Comm_split"));
    int code = open_world(world, mpi, part, out);
    MPI_Comm_free(&world);
    return code;
}

int comm_mpi_open(MPI_Comm world, struct comm **out)
{
    int threading;
    MPI_Query_thread(&threading);
    if (threading < MPI_THREAD_MULTIPLE)
        return err_set(ERR_USAGE, "this MPI lacks MPI_THREAD_MULTIPLE, which collectives during computation need");
    return open_world(world, NULL, NULL, out);
}
