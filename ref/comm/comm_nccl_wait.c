// SPDX-License-Identifier: Apache-2.0
// Waits for NCCL while polling it and the other ranks for failures, and aborts it after one.
#include "ref/comm/comm_nccl.h"

#include "base/clock.h"
#include "base/err.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

// When NCCL fails, most often a rank has died; control learns within this time which one.
static const uint64_t explain_limit_ns = 1000000000u;

// Aborted kernels end within this time.
static const uint64_t drain_limit_ns = 5000000000u;

static void pause_between_polls(unsigned polls)
{
    if (polls < 1000)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

int comm_nccl_code(const struct comm_nccl *nccl, ncclResult_t result, const char *call)
{
    if (result == ncclSuccess || result == ncclInProgress)
        return ERR_NONE;
    return err_set(ERR_PEER, "NCCL: %s: %s", call, nccl->options.calls->text(result));
}

int comm_nccl_check(struct comm_nccl *nccl)
{
    return nccl->control->ops->check(nccl->control);
}

// Polls NCCL and the other ranks once. *settled: NCCL has enqueued all calls.
static int poll_once(struct comm_nccl *nccl, unsigned polls, uint64_t limit, bool *settled)
{
    ncclResult_t state = ncclInProgress;
    TRY(comm_nccl_code(nccl, nccl->options.calls->async_error(nccl->nccl, &state), "ncclCommGetAsyncError"));
    TRY(comm_nccl_code(nccl, state, "a rank or its connection failed"));
    *settled = state == ncclSuccess;
    if (polls % 16 == 15)
        TRY(comm_nccl_check(nccl));
    if (clock_now_ns() > limit)
        return err_set(ERR_PEER, "NCCL: collective timed out after %.3g s: a rank did not join",
                       (double)nccl->options.limit_ns * 1e-9);
    return ERR_NONE;
}

int comm_nccl_wait_until(struct comm_nccl *nccl, bool finished)
{
    uint64_t limit = clock_now_ns() + nccl->options.limit_ns;
    for (unsigned polls = 0;; polls++) {
        bool done = !finished, settled = false;
        TRY(poll_once(nccl, polls, limit, &settled));
        if (settled && finished)
            TRY(nccl->options.calls->is_done(nccl->options.calls->stream(), &done));
        if (settled && done)
            return ERR_NONE;
        pause_between_polls(polls);
    }
}

int comm_nccl_begin(struct comm_nccl *nccl)
{
    return comm_nccl_code(nccl, nccl->options.calls->group_start(), "ncclGroupStart");
}

int comm_nccl_end(struct comm_nccl *nccl)
{
    TRY(comm_nccl_code(nccl, nccl->options.calls->group_end(), "ncclGroupEnd"));
    return comm_nccl_wait_until(nccl, false);
}

// Waits until the aborted kernels have ended.
static void comm_nccl_drain(struct comm_nccl *nccl)
{
    bool done = false;
    for (uint64_t limit = clock_now_ns() + drain_limit_ns; !done && clock_now_ns() < limit; pause_between_polls(1000))
        if (nccl->options.calls->is_done(nccl->options.calls->stream(), &done) != ERR_NONE)
            break;
}

int comm_nccl_give_up(struct comm_nccl *nccl, int code)
{
    char message[1024];
    snprintf(message, sizeof message, "%s", err_message());
    int known = comm_nccl_check(nccl);
    for (uint64_t limit = clock_now_ns() + explain_limit_ns; known == ERR_NONE && clock_now_ns() < limit;
         pause_between_polls(1000))
        known = comm_nccl_check(nccl);
    if (nccl->nccl)
        nccl->options.calls->abort(nccl->nccl);
    nccl->nccl = NULL;
    comm_nccl_drain(nccl);
    if (known != ERR_NONE)
        return comm_nccl_check(nccl);
    comm_abort(nccl->control, message);
    return err_set(code, "%s", message);
}

int comm_nccl_finish(struct comm_nccl *nccl, int code)
{
    if (code == ERR_NONE)
        code = comm_nccl_wait_until(nccl, true);
    return code == ERR_NONE ? ERR_NONE : comm_nccl_give_up(nccl, code);
}
