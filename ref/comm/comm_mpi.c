// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/comm_mpi.h"

#include "base/err.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

enum { NOTICE_FAILED, NOTICE_LEFT };

// Of what others send until it is folded, for a reduction's two pieces in flight together.
enum { STAGE_BYTES = 8 << 20, STAGE_PIECE_BYTES = 4096 };

enum { MESSAGE_BYTES = 256 << 20 };

// How long a rank that ends waits for others to end as well.
static const uint64_t close_limit_ns = 5000000000u;

// How long after a failed transfer a rank's death may become known.
static const uint64_t explain_limit_ns = 500000000u;

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int comm_mpi_code(int mpi_result, const char *call)
{
    if (mpi_result == MPI_SUCCESS)
        return ERR_NONE;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(mpi_result, text, &length);
    return err_set(ERR_IO, "MPI: %s: %s", call, text);
}

// The first failure is the one that is kept. ERR_NONE if there was none before.
static int keep_failure(struct comm_mpi *mpi, int code, const char *message)
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

static int check(struct comm_mpi *mpi)
{
    int code = atomic_load(&mpi->failed);
    return code == ERR_NONE ? ERR_NONE : err_set(code, "%s", mpi->message);
}

// Tells every other rank, without waiting for them.
static void send_notice(struct comm_mpi *mpi, uint32_t kind)
{
    struct comm_mpi_notice *notice = &mpi->sent[kind];
    pthread_mutex_lock(&mpi->lock);
    *notice = (struct comm_mpi_notice){mpi->comm.sequence, kind, atomic_load(&mpi->dead), ""};
    snprintf(notice->text, sizeof notice->text, "%s", mpi->message);
    for (int rank = 0; rank < mpi->comm.world; rank++)
        if (rank != mpi->comm.rank && rank != notice->dead)
            MPI_Isend(notice, sizeof *notice, MPI_BYTE, rank, 0, mpi->control, &mpi->notices[mpi->notice_count++]);
    pthread_mutex_unlock(&mpi->lock);
}

static void fail_everywhere(struct comm_mpi *mpi, int code, const char *message)
{
    if (keep_failure(mpi, code, message) == ERR_NONE)
        send_notice(mpi, NOTICE_FAILED);
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

// Reads what other ranks have told.
static void take_notices(struct comm_mpi *mpi)
{
    for (;;) {
        MPI_Message message;
        MPI_Status status;
        struct comm_mpi_notice notice;
        int found = 0;
        if (MPI_Improbe(MPI_ANY_SOURCE, 0, mpi->control, &found, &message, &status) != MPI_SUCCESS || !found)
            return;
        if (MPI_Mrecv(&notice, sizeof notice, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        (notice.kind == NOTICE_LEFT ? note_leaving : note_failing)(mpi, status.MPI_SOURCE, notice.sequence);
        if (notice.dead >= 0 && notice.dead < mpi->comm.world && notice.dead != mpi->comm.rank)
            note_death(mpi, notice.dead);
        if (notice.kind == NOTICE_FAILED)
            keep_failure(mpi, ERR_PEER, notice.text);
    }
}

// A neighbour that died after it had left owes nothing.
static void look_for_deaths(struct comm_mpi *mpi)
{
    char text[256];
    int rank = peer_watch_poll(&mpi->watch, text, sizeof text);
    if (rank < 0 || mpi->gone[rank])
        return;
    note_death(mpi, rank);
    fail_everywhere(mpi, ERR_PEER, text);
}

// Nobody who has left takes part in a later collective.
static void look_for_leavers(struct comm_mpi *mpi)
{
    char text[128];
    for (int rank = 0; mpi->left_count > 0 && rank < mpi->comm.world; rank++)
        if (mpi->left[rank] != 0 && mpi->left[rank] - 1 < mpi->comm.sequence) {
            snprintf(text, sizeof text, "rank %d left while rank %d was in %s", rank, mpi->comm.rank,
                     comm_operation_name(mpi->operation));
            fail_everywhere(mpi, ERR_PEER, text);
        }
}

// Soon where an answer is near, and without taking the processor from the ranks that are to answer; who has waited for
// a second, of a rank that measures something alone, hardly takes any of it.
static void pause_between_tests(unsigned tests)
{
    if (tests < 1000)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = tests < 20000 ? 50000 : 1000000}, NULL);
}

static void cancel(MPI_Request requests[], int count)
{
    for (int i = 0; i < count; i++)
        if (requests[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&requests[i]);
            MPI_Request_free(&requests[i]);
        }
}

// A transfer that MPI could not make fails for a reason: most often a rank has died, which MPI may see before this rank
// is told.
static int explain_transfer(struct comm_mpi *mpi)
{
    char message[512];
    snprintf(message, sizeof message, "%s", err_message());
    uint64_t limit = now_ns() + explain_limit_ns;
    while (atomic_load(&mpi->failed) == ERR_NONE && now_ns() < limit) {
        take_notices(mpi);
        look_for_deaths(mpi);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    fail_everywhere(mpi, ERR_PEER, message);
    return check(mpi);
}

// Returns when the requests are complete, or with a failure, when they may be under way still.
static int wait_for(struct comm_mpi *mpi, MPI_Request requests[], int count)
{
    for (unsigned tests = 0;; tests++) {
        int done = 0;
        int rc = comm_mpi_code(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "a transfer");
        if (rc != ERR_NONE)
            return explain_transfer(mpi);
        if (done)
            return ERR_NONE;
        if (tests % 16 == 15) {
            take_notices(mpi);
            look_for_leavers(mpi);
        }
        if (tests % 256 == 255)
            look_for_deaths(mpi);
        TRY(check(mpi));
        pause_between_tests(tests);
    }
}

int comm_mpi_wait(struct comm_mpi *mpi, MPI_Request requests[], int count)
{
    int rc = wait_for(mpi, requests, count);
    if (rc != ERR_NONE)
        cancel(requests, count);
    return rc;
}

int comm_mpi_wait_collective(struct comm_mpi *mpi, MPI_Request *request)
{
    return wait_for(mpi, request, 1);
}

// Every rank sees the same signatures, and so comes to the same conclusion.
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
    keep_failure(mpi, ERR_INTERNAL, text);
    return check(mpi);
}

// A digest d is everybody's if the least d is the complement of the least ~d: no rank holds more than two numbers.
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
        fail_everywhere(mpi, ERR_INTERNAL, text);
        return check(mpi);
    }
    return ERR_NONE;
}

static int mpi_run(struct comm *comm, const struct comm_call *call)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    mpi->operation = call->operation;
    take_notices(mpi);
    look_for_leavers(mpi);
    TRY(check(mpi));
    TRY(compare_calls(mpi, call));
    if (call->operation == COMM_ALL_TO_ALL)
        TRY(compare_pairs(mpi, call));
    bool sums =
        call->operation == COMM_REDUCE_SCATTER || (call->operation == COMM_ALL_REDUCE && call->reduction == COMM_SUM);
    int rc = comm->uses_native && sums ? comm_mpi_native(mpi, call) : comm_mpi_move(mpi, call);
    if (rc != ERR_NONE)
        fail_everywhere(mpi, ERR_PEER, err_message());
    return rc;
}

static int mpi_check(struct comm *comm)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    take_notices(mpi);
    look_for_leavers(mpi);
    look_for_deaths(mpi);
    return check(mpi);
}

static void mpi_abort(struct comm *comm, const char *message)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    char text[COMM_MPI_TEXT_BYTES];
    snprintf(text, sizeof text, "rank %d failed: %.*s", comm->rank, COMM_MPI_TEXT_BYTES - 64, message);
    fail_everywhere(mpi, ERR_PEER, text);
}

static void free_handle(struct comm_mpi *mpi)
{
    pthread_mutex_destroy(&mpi->lock);
    comm_mpi_native_close(mpi);
    free(mpi->stage);
    free(mpi->requests);
    free(mpi->pair_counts);
    free(mpi->signatures);
    free(mpi->left);
    free(mpi->gone);
    free(mpi->notices);
    free(mpi);
}

static void mpi_close(struct comm *comm)
{
    struct comm_mpi *mpi = (struct comm_mpi *)comm;
    send_notice(mpi, NOTICE_LEFT);
    // Everybody tells everybody that it leaves, so nothing stays under way; and a launcher that ends all ranks as soon
    // as one has ended finds none that still has something to say.
    uint64_t limit = now_ns() + close_limit_ns;
    int sent = 0;
    for (unsigned tests = 0; now_ns() < limit; tests++) {
        MPI_Testall(mpi->notice_count, mpi->notices, &sent, MPI_STATUSES_IGNORE);
        take_notices(mpi);
        look_for_deaths(mpi);
        if (sent && mpi->gone_count == comm->world - 1)
            break;
        pause_between_tests(tests);
        if (atomic_load(&mpi->failed) == ERR_NONE)
            limit = now_ns() + close_limit_ns;
    }
    peer_watch_close(&mpi->watch);
    // After a failure MPI may hold this memory still, and the process ends.
    if (atomic_load(&mpi->failed) != ERR_NONE)
        return;
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
    return peer_watch_open(mpi->control, &mpi->watch);
}

int comm_mpi_open(MPI_Comm world, struct comm **out)
{
    static const struct comm_ops ops = {.name = "mpi",
                                        .has_native = true,
                                        .run = mpi_run,
                                        .exchange = comm_mpi_exchange,
                                        .check = mpi_check,
                                        .abort = mpi_abort,
                                        .close = mpi_close};
    int threading, rank, size;
    MPI_Query_thread(&threading);
    if (threading < MPI_THREAD_MULTIPLE)
        return err_set(ERR_USAGE, "this MPI has no MPI_THREAD_MULTIPLE, which collectives beside computation need");
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    struct comm_mpi *mpi = calloc(1, sizeof *mpi);
    if (!mpi)
        return err_set(ERR_MEMORY, "no memory for the ranks' communication");
    mpi->comm = (struct comm){.ops = &ops, .rank = rank, .world = size};
    mpi->message_bytes = MESSAGE_BYTES;
    size_t ranks = (size_t)size, least = 2 * ranks * STAGE_PIECE_BYTES;
    mpi->stage_bytes = least > STAGE_BYTES ? least : STAGE_BYTES;
    mpi->stage = malloc(mpi->stage_bytes);
    mpi->requests = calloc(4 * ranks, sizeof(MPI_Request));
    mpi->pair_counts = calloc(2 * ranks, sizeof *mpi->pair_counts);
    mpi->signatures = calloc(ranks + 1, sizeof *mpi->signatures);
    mpi->left = calloc(ranks, sizeof *mpi->left);
    mpi->gone = calloc(ranks, sizeof *mpi->gone);
    mpi->notices = calloc(2 * ranks, sizeof(MPI_Request));
    mpi->native_operations[0] = mpi->native_operations[1] = MPI_OP_NULL;
    atomic_init(&mpi->dead, -1);
    pthread_mutex_init(&mpi->lock, NULL);
    bool enough =
        mpi->stage && mpi->requests && mpi->pair_counts && mpi->signatures && mpi->left && mpi->gone && mpi->notices;
    int rc = enough ? open_communicators(world, mpi)
                    : err_set(ERR_MEMORY, "no memory for the communication of %d ranks", size);
    if (rc != ERR_NONE) {
        free_handle(mpi);
        return rc;
    }
    *out = &mpi->comm;
    return ERR_NONE;
}
