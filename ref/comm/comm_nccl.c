// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/comm_nccl.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const struct comm_nccl_options comm_nccl_defaults = {NULL, 64 << 20, 120000000000u};

// The memory of a call's buffers; a call without elements has none.
enum location { LOCATION_NOWHERE, LOCATION_HOST, LOCATION_ACCELERATOR };

static int allocate(const struct comm_nccl *nccl, size_t bytes, void **out)
{
    *out = NULL;
    TRY(nccl->accelerator->allocate(bytes, out));
    int rc = accelerator_claim(nccl->accelerator, *out, bytes);
    if (rc != ERR_NONE) {
        nccl->accelerator->release(*out);
        *out = NULL;
    }
    return rc;
}

static void release(const struct comm_nccl *nccl, void *memory)
{
    if (!memory)
        return;
    accelerator_disclaim(memory);
    nccl->accelerator->release(memory);
}

static enum location location_of_address(const void *address)
{
    return accelerator_of(address) ? LOCATION_ACCELERATOR : LOCATION_HOST;
}

static enum location location_of(const struct comm_call *call)
{
    if (call->count > 0)
        return location_of_address(call->operation == COMM_ALL_GATHER ? call->recv : call->send);
    return LOCATION_NOWHERE;
}

// A rank may send or receive no elements, so the ranks find the location of the buffers together.
static int location_of_all_to_all(struct comm_nccl *nccl, const struct comm_call *call, enum location *out)
{
    size_t received = 0;
    for (int rank = 0; rank < nccl->comm.world; rank++)
        received += call->recv_counts[rank];
    uint8_t own = (uint8_t)location_of(call), most = 0;
    if (own == LOCATION_NOWHERE && received > 0)
        own = (uint8_t)location_of_address(call->recv);
    TRY(comm_all_reduce(nccl->control, &own, &most, 1, DTYPE_BYTE, COMM_MAX));
    *out = (enum location)most;
    if (own == most || own == LOCATION_NOWHERE)
        return ERR_NONE;
    comm_abort(nccl->control, "an all-to-all between host and accelerator memory");
    return comm_nccl_check(nccl);
}

static int run_on_control(struct comm_nccl *nccl, const struct comm_call *call, enum comm_operation operation)
{
    struct comm_call same = *call;
    same.operation = operation;
    same.signature.sequence = ++nccl->control->sequence;
    return nccl->control->ops->run(nccl->control, &same);
}

// Runs a barrier with the call's signature on control, which compares it. The signature includes the location of the
// buffers.
static int agree(struct comm_nccl *nccl, const struct comm_call *call)
{
    struct comm_call same = *call;
    same.signature.shards_digest ^= LOCATION_ACCELERATOR;
    same.count = 0;
    same.send = NULL;
    same.recv = NULL;
    return run_on_control(nccl, &same, COMM_BARRIER);
}

static int compare_pairs(struct comm_nccl *nccl, const struct comm_call *call)
{
    int world = nccl->comm.world, rc = ERR_NONE;
    uint64_t sent[world], received[world];
    size_t counts[world], offsets[world];
    for (int rank = 0; rank < world; rank++) {
        sent[rank] = call->counts[rank];
        counts[rank] = sizeof *sent;
        offsets[rank] = (size_t)rank * sizeof *sent;
    }
    TRY(comm_all_to_all(nccl->control, sent, counts, offsets, received, counts, offsets, DTYPE_BYTE));
    for (int rank = 0; rank < world && rc == ERR_NONE; rank++)
        if (received[rank] != call->recv_counts[rank])
            rc = err_set(ERR_INTERNAL,
                         "the ranks disagree about an all-to-all: rank %d sends %" PRIu64
                         " elements to rank %d, which expects %zu",
                         rank, received[rank], nccl->comm.rank, call->recv_counts[rank]);
    if (rc != ERR_NONE)
        comm_abort(nccl->control, err_message());
    // Waits until all ranks have compared.
    int met = comm_barrier(nccl->control);
    return rc != ERR_NONE ? rc : met;
}

// Takes the accelerator from the first call that has elements on this rank.
static int meet_accelerator(struct comm_nccl *nccl, const struct comm_call *call)
{
    const struct accelerator *found = accelerator_of(call->recv);
    if (nccl->stage || (!found && !(found = accelerator_of(call->send))))
        return ERR_NONE;
    nccl->accelerator = found;
    return allocate(nccl, nccl->options.stage_bytes, &nccl->stage);
}

// Checks that both buffers of this rank lie on its accelerator.
static int check_sides(struct comm_nccl *nccl, const struct comm_call *call)
{
    size_t sent = call->count, received = call->count;
    if (call->operation == COMM_ALL_GATHER)
        sent = call->counts[nccl->comm.rank];
    if (call->operation == COMM_REDUCE_SCATTER)
        received = call->counts[nccl->comm.rank];
    if (call->operation == COMM_ALL_TO_ALL)
        received = 0;  // location_of_all_to_all has compared it
    if ((sent == 0 || accelerator_of(call->send)) && (received == 0 || accelerator_of(call->recv)))
        return ERR_NONE;
    int rc = err_set(ERR_INTERNAL, "%s: one buffer lies on the accelerator and one does not",
                     comm_operation_name(call->operation));
    comm_abort(nccl->control, err_message());
    return rc;
}

static int run_on_accelerator(struct comm_nccl *nccl, const struct comm_call *call)
{
    TRY(check_sides(nccl, call));
    TRY(agree(nccl, call));
    if (call->operation == COMM_ALL_TO_ALL)
        TRY(compare_pairs(nccl, call));
    int rc = nccl->nccl ? meet_accelerator(nccl, call) : err_set(ERR_PEER, "NCCL failed in an earlier call");
    if (rc == ERR_NONE)
        rc = comm_nccl_move(nccl, call);
    return comm_nccl_finish(nccl, rc);
}

static int nccl_run(struct comm *comm, const struct comm_call *call)
{
    struct comm_nccl *nccl = (struct comm_nccl *)comm;
    enum location location = location_of(call);
    TRY(comm_nccl_check(nccl));
    if (call->operation == COMM_ALL_TO_ALL)
        TRY(location_of_all_to_all(nccl, call, &location));
    if (location != LOCATION_ACCELERATOR)
        return run_on_control(nccl, call, call->operation);
    return run_on_accelerator(nccl, call);
}

static int nccl_check(struct comm *comm)
{
    return comm_nccl_check((struct comm_nccl *)comm);
}

static void nccl_abort(struct comm *comm, const char *message)
{
    struct comm_nccl *nccl = (struct comm_nccl *)comm;
    nccl->control->ops->abort(nccl->control, message);
}

static void nccl_close(struct comm *comm)
{
    struct comm_nccl *nccl = (struct comm_nccl *)comm;
    const struct comm_nccl_calls *calls = nccl->options.calls;
    // ncclCommFinalize is a collective: with a failed rank it would wait forever.
    bool whole = nccl->nccl && comm_nccl_check(nccl) == ERR_NONE &&
                 comm_nccl_code(nccl, calls->finalize(nccl->nccl), "ncclCommFinalize") == ERR_NONE &&
                 comm_nccl_wait_until(nccl, false) == ERR_NONE;
    if (nccl->nccl)
        (whole ? calls->destroy : calls->abort)(nccl->nccl);
    release(nccl, nccl->stage);
    comm_close(nccl->control);
    free(nccl);
}

static int connect_ranks(struct comm_nccl *nccl)
{
    const struct comm_nccl_calls *calls = nccl->options.calls;
    // Broadcasts rank 0's result with the identifier, so that all ranks learn of an error.
    struct {
        ncclUniqueId id;
        int32_t result;
    } root = {.result = ncclSuccess};
    if (nccl->comm.rank == 0)
        root.result = (int32_t)calls->unique_id(&root.id);
    TRY(comm_broadcast(nccl->control, &root, sizeof root, 0));
    TRY(comm_nccl_code(nccl, (ncclResult_t)root.result, "rank 0: ncclGetUniqueId"));
    int rc = comm_nccl_code(nccl, calls->init(&nccl->nccl, nccl->comm.world, root.id, nccl->comm.rank),
                            "ncclCommInitRankConfig");
    if (rc == ERR_NONE)
        rc = comm_nccl_wait_until(nccl, false);
    if (rc == ERR_NONE)
        rc = comm_barrier(nccl->control);
    return rc == ERR_NONE ? ERR_NONE : comm_nccl_give_up(nccl, rc);
}

static int name_library(struct comm_nccl *nccl)
{
    int version = 0;
    TRY(comm_nccl_code(nccl, nccl->options.calls->version(&version), "ncclGetVersion"));
    snprintf(nccl->library, sizeof nccl->library, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return ERR_NONE;
}

static int nccl_split(struct comm *comm, const struct comm_part *part, struct comm **out)
{
    const struct comm_nccl *nccl = (const struct comm_nccl *)comm;
    struct comm *control;
    TRY(nccl->control->ops->split(nccl->control, part, &control));
    int code = comm_nccl_open(control, &nccl->options, out);
    if (code != ERR_NONE)
        comm_close(control);
    return code;
}

int comm_nccl_open(struct comm *control, const struct comm_nccl_options *options, struct comm **out)
{
    static const struct comm_ops ops = {.name = "nccl",
                                        .run = nccl_run,
                                        .split = nccl_split,
                                        .check = nccl_check,
                                        .abort = nccl_abort,
                                        .close = nccl_close};
    struct comm_nccl *nccl = calloc(1, sizeof *nccl);
    int rc = nccl ? ERR_NONE : err_set(ERR_MEMORY, "out of memory for the communication of ranks");
    if (rc == ERR_NONE) {
        nccl->comm = (struct comm){.ops = &ops, .rank = control->rank, .world = control->world};
        nccl->control = control;
        nccl->options = *options;
        if (!options->calls)
            rc = comm_nccl_library(&nccl->options.calls);
    }
    if (rc == ERR_NONE)
        rc = name_library(nccl);
    if (rc != ERR_NONE)
        comm_abort(control, err_message());
    else
        rc = connect_ranks(nccl);
    if (rc != ERR_NONE) {
        free(nccl);
        return rc;
    }
    *out = &nccl->comm;
    return ERR_NONE;
}
