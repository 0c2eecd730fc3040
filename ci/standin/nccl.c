// SPDX-License-Identifier: Apache-2.0
// Communicators and their states. Built under the name of NCCL, so that it is loaded where NCCL would be.
#include "ci/standin/nccl.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const state_names[STATE_COUNT] = {"being initialized", "ready",     "enqueuing a group",
                                                     "being finalized",   "finalized", "destroyed or aborted"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *comms;

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[ncclNumResults] = {"no error",
                                                      "unhandled cuda error",
                                                      "unhandled system error",
                                                      "internal error",
                                                      "invalid argument",
                                                      "invalid usage",
                                                      "remote process exited or there was a network error",
                                                      "NCCL operation in progress"};
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}

ncclResult_t ncclGetVersion(int *out)
{
    *out = NCCL_VERSION_CODE;
    return ncclSuccess;
}

void nccl_expect_state(const struct ncclComm *comm, const char *call, unsigned states)
{
    pthread_mutex_lock(&lock);
    const struct ncclComm *found = comms;
    while (found && found != comm)
        found = found->older;
    pthread_mutex_unlock(&lock);
    if (!found)
        standin_die("NCCL: %s of what is no communicator", call);
    if (!(states >> comm->state & 1))
        standin_die("NCCL: %s of a communicator that is %s", call, state_names[comm->state]);
}

ncclResult_t nccl_count_call(struct ncclComm *comm, bool *hangs)
{
    char kind[8] = "";
    unsigned call = 0;
    int rank = 0;
    const char *text = getenv("ZG_STANDIN_NCCL");
    comm->call_count++;
    comm->loses = false;
    if (!text)
        return comm->error;
    if (sscanf(text, "%7[a-z]:%u:%d", kind, &call, &rank) != 3 || !strstr("fail hang kill lose", kind))
        standin_die("NCCL: ZG_STANDIN_NCCL=%s", text);
    if (call != comm->call_count || rank != comm->rank)
        return comm->error;
    if (*kind == 'k')
        raise(SIGKILL);
    if (*kind == 'h')
        *hangs = true;
    else if (*kind == 'l')
        comm->loses = true;
    else
        comm->error = ncclInternalError;
    return comm->error;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int world, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    const ncclConfig_t expected = NCCL_CONFIG_INITIALIZER;
    if (config->size != expected.size || config->magic != expected.magic || config->blocking != 0)
        standin_die("NCCL: ncclCommInitRankConfig expects a configuration that does not block");
    struct ncclComm *comm = calloc(1, sizeof *comm);
    if (!comm || world < 1 || world > RANKS_MAX || rank < 0 || rank >= world)
        return ncclInvalidArgument;
    comm->rank = rank;
    comm->world = world;
    comm->device = standin_device();
    if (!nccl_board_join(comm, id))
        return ncclSystemError;
    pthread_mutex_lock(&lock);
    comm->older = comms;
    comms = comm;
    pthread_mutex_unlock(&lock);
    *out = comm;
    (void)nccl_count_call(comm, &comm->hangs);
    return ncclInProgress;
}

static bool has_joined(const struct seat *seat)
{
    return atomic_load(&seat->has_joined);
}

static bool has_finalized(const struct seat *seat)
{
    return atomic_load(&seat->has_finalized);
}

static void close_id(struct ncclComm *comm)
{
    if (comm->id_file >= 0)
        close(comm->id_file);
    comm->id_file = -1;
}

static void finish_connecting(struct ncclComm *comm)
{
    comm->state = READY;
    close_id(comm);
    for (int rank = 0; rank < comm->world; rank++)
        if (rank != comm->rank && comm->board->seats[rank].device == comm->device)
            comm->error = ncclInvalidUsage;  // "duplicate GPU detected"
}

static void advance(struct ncclComm *comm)
{
    if (comm->state == CONNECTING && nccl_board_all(comm, has_joined))
        finish_connecting(comm);
    else if (comm->state == FINALIZING && nccl_board_all(comm, has_finalized))
        comm->state = FINALIZED;
    else if (comm->state == ENQUEUING && comm->poll_count > 1) {
        comm->state = READY;
        nccl_work_enqueue(comm->ended);
        comm->ended = NULL;
    }
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out)
{
    enum { POLLS_PER_LOOK = 64 };
    nccl_expect_state(comm, "ncclCommGetAsyncError", ~(1u << DEAD));
    comm->poll_count++;
    if (!comm->hangs && comm->error == ncclSuccess)
        advance(comm);
    bool is_settled = comm->state == READY || comm->state == FINALIZED;
    if (comm->error == ncclSuccess && comm->poll_count % POLLS_PER_LOOK == 0 && nccl_board_gone(comm) >= 0)
        comm->error = ncclRemoteError;
    *out = comm->error != ncclSuccess ? comm->error : is_settled ? ncclSuccess : ncclInProgress;
    return ncclSuccess;
}

static void end(struct ncclComm *comm)
{
    comm->state = DEAD;
    close_id(comm);
    nccl_board_leave(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    nccl_expect_state(comm, "ncclCommAbort", ~(1u << DEAD));
    atomic_store(&comm->is_aborted, true);
    free(comm->ended);
    end(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    nccl_expect_state(comm, "ncclCommFinalize", 1u << READY);
    if (atomic_load(&comm->group_count) > 0)
        standin_die("NCCL: nobody waited for the last operations of a communicator when it was finalized");
    if (comm->is_captured && standin_graph_count() > 0)
        standin_die("NCCL: a communicator is finalized before the graphs of its operations are destroyed");
    comm->state = FINALIZING;
    if (nccl_count_call(comm, &comm->hangs) == ncclSuccess && !comm->hangs)
        atomic_store(&comm->board->seats[comm->rank].has_finalized, true);
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    nccl_expect_state(comm, "ncclCommDestroy", 1u << FINALIZED);
    end(comm);
    return ncclSuccess;
}
