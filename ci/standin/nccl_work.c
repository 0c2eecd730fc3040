// SPDX-License-Identifier: Apache-2.0
// What groups do on their streams: they compare their operations with the other ranks', give the bytes that others
// need, and take theirs.
#include "ci/standin/nccl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The bytes of a rank's operations begin at multiples of this in the file, behind the board.
static const off_t RANK_BYTES = (off_t)1 << 40, PAGE_BYTES = 4096;

static bool is_pair(enum kind kind)
{
    return kind == SEND || kind == RECEIVE;
}

// Another rank's post of the same operation; null: the rank has no part in it.
static struct post *post_of(const struct ncclComm *comm, const struct operation *operation, int rank)
{
    struct seat *seat = &comm->board->seats[rank];
    size_t place = operation->index % POSTS;
    if (!is_pair(operation->call.kind))
        return &seat->collectives[place];
    if (rank != operation->call.peer)
        return NULL;
    return operation->call.kind == SEND ? &seat->receives[comm->rank][place] : &seat->sends[comm->rank][place];
}

static struct post *own_post(const struct ncclComm *comm, const struct operation *operation)
{
    struct seat *seat = &comm->board->seats[comm->rank];
    size_t place = operation->index % POSTS;
    if (!is_pair(operation->call.kind))
        return &seat->collectives[place];
    return operation->call.kind == SEND ? &seat->sends[operation->call.peer][place]
                                        : &seat->receives[operation->call.peer][place];
}

static void describe(const struct call *call, char *out, size_t out_bytes)
{
    int length = snprintf(out, out_bytes, "%s of %zu elements of %zu bytes", nccl_kind_name(call->kind), call->count,
                          nccl_type_bytes(call->type));
    if (call->peer >= 0)
        length += snprintf(out + length, out_bytes - (size_t)length, "%s rank %d", call->kind == SEND ? " to" : " with",
                           call->peer);
    if (call->kind >= REDUCE)
        snprintf(out + length, out_bytes - (size_t)length, ", type %d by %d", (int)call->type, (int)call->by);
}

static void compare(const struct operation *operation, const struct call *other, int rank, int other_rank)
{
    const struct call *own = &operation->call;
    char texts[2][128];
    if (own->count == other->count && own->type == other->type &&
        (is_pair(own->kind) || (own->kind == other->kind && own->peer == other->peer && own->by == other->by)))
        return;
    describe(own, texts[0], sizeof texts[0]);
    describe(other, texts[1], sizeof texts[1]);
    standin_die("NCCL: operation %llu %sis on rank %d %s, and on rank %d %s", operation->index,
                is_pair(own->kind) ? "of a pair " : "", rank, texts[0], other_rank, texts[1]);
}

// Returns whether all ranks have enqueued the operation. All that differ from rank 0 are named by every rank.
static bool is_enqueued(const struct ncclComm *comm, const struct operation *operation)
{
    const struct post *own = own_post(comm, operation), *first = NULL;
    for (int rank = 0; rank < comm->world; rank++) {
        const struct post *post = post_of(comm, operation, rank);
        if (post && atomic_load(&post->number) != operation->index + 1)
            return false;
    }
    for (int rank = 0; rank < comm->world; rank++) {
        const struct post *post = post_of(comm, operation, rank);
        first = first ? first : post;
        if (post && is_pair(operation->call.kind))
            compare(operation, &post->call, comm->rank, rank);
        else if (post)
            compare(&(struct operation){.call = first->call, .index = operation->index}, &post->call, 0, rank);
    }
    return own != NULL;
}

static bool gives(const struct call *call, int rank)
{
    return call->kind != RECEIVE && (call->kind != BROADCAST || rank == call->peer);
}

// Returns whether what this rank takes is there.
static bool has_arrived(const struct ncclComm *comm, const struct operation *operation)
{
    for (int rank = 0; rank < comm->world && operation->to_bytes > 0; rank++) {
        const struct post *post = post_of(comm, operation, rank);
        if (post && (is_pair(operation->call.kind) || gives(&operation->call, rank)) && !atomic_load(&post->is_given))
            return false;
    }
    return true;
}

static void give(struct group *group)
{
    struct ncclComm *comm = group->comm;
    standin_memory_open();
    for (int i = 0; i < group->count; i++) {
        const struct operation *operation = &group->operations[i];
        struct post *post = own_post(comm, operation);
        if (!gives(&operation->call, comm->rank))
            continue;
        post->offset = RANK_BYTES * (1 + comm->rank) + comm->given_bytes;
        post->bytes = operation->from_bytes;
        for (size_t done = 0; done < post->bytes;) {
            ssize_t more = pwrite(comm->file, operation->from + done, post->bytes - done, post->offset + (off_t)done);
            if (more <= 0)
                standin_die("NCCL: %s cannot read its memory: was it freed?", nccl_kind_name(operation->call.kind));
            done += (size_t)more;
        }
        comm->given_bytes += ((off_t)post->bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        atomic_store(&post->is_given, true);
    }
    standin_memory_close();
    group->is_given = true;
    nccl_board_change(comm->board);
}

// Goes on as far as the other ranks allow. Returns whether all that the group takes has arrived.
static bool advance(struct group *group)
{
    const struct ncclComm *comm = group->comm;
    if (atomic_load(&comm->is_aborted))
        return true;
    if (comm->stalls)
        return false;
    for (int i = 0; i < group->count && !group->is_given; i++)
        if (!is_enqueued(comm, &group->operations[i]))
            return false;
    if (!group->is_given)
        give(group);
    for (int i = 0; i < group->count; i++)
        if (!has_arrived(comm, &group->operations[i]))
            return false;
    return true;
}

static bool is_ready(void *what, bool waits)
{
    struct group *group = what;
    for (;;) {
        unsigned seen = atomic_load(&group->comm->board->changes);
        if (advance(group))
            return true;
        if (!waits)
            return false;
        nccl_board_wait(group->comm->board, seen);
        int gone = nccl_board_gone(group->comm);
        if (gone >= 0)
            standin_die("NCCL: rank %d waits for a stream with rank %d, which has ended", group->comm->rank, gone);
    }
}

static void take(const struct ncclComm *comm, const struct post *post, size_t skipped, char *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t more = pread(comm->file, to + done, bytes - done, post->offset + (off_t)(skipped + done));
        if (more <= 0)
            standin_die("NCCL: a rank cannot write the memory of its operation: was it freed?");
        done += (size_t)more;
    }
}

static void take_reduced(const struct ncclComm *comm, const struct operation *operation)
{
    size_t bytes = operation->to_bytes;
    size_t skipped = operation->call.kind == REDUCE_SCATTER ? (size_t)comm->rank * bytes : 0;
    char *terms = malloc((size_t)comm->world * bytes);
    if (!terms)
        standin_die("NCCL: no memory for a reduction");
    for (int rank = 0; rank < comm->world; rank++)
        take(comm, post_of(comm, operation, rank), skipped, terms + (size_t)rank * bytes, bytes);
    nccl_reduce(&operation->call, comm->world, operation->index, terms, operation->to, bytes);
    free(terms);
}

static void take_all(const struct ncclComm *comm, const struct operation *operation)
{
    size_t shard_bytes = nccl_type_bytes(operation->call.type) * operation->call.count;
    switch (operation->call.kind) {
    case SEND:
        break;
    case RECEIVE:
    case BROADCAST:
        take(comm, post_of(comm, operation, operation->call.peer), 0, operation->to, operation->to_bytes);
        break;
    case ALL_GATHER:
        for (int rank = 0; rank < comm->world; rank++)
            take(comm, post_of(comm, operation, rank), 0, operation->to + (size_t)rank * shard_bytes, shard_bytes);
        break;
    case REDUCE:
    case REDUCE_SCATTER:
    case ALL_REDUCE:
        take_reduced(comm, operation);
        break;
    }
}

static void take_what_is_not_lost(const struct ncclComm *comm, const struct operation *operation)
{
    char before[sizeof(uint64_t)];
    size_t bytes = nccl_type_bytes(operation->call.type), middle = operation->to_bytes / bytes / 2 * bytes;
    memcpy(before, operation->to + middle, bytes);
    take_all(comm, operation);
    if (operation->loses)
        memcpy(operation->to + middle, before, bytes);
}

// The last rank that needs the bytes gives their memory back.
static void leave(const struct ncclComm *comm, struct post *post)
{
    off_t offset = post->offset;
    off_t bytes = atomic_load(&post->is_given) ? (off_t)post->bytes : 0;
    if (atomic_fetch_sub(&post->left, 1) == 1 && bytes > 0)
        (void)fallocate(comm->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
}

static void run(void *what)
{
    struct group *group = what;
    struct ncclComm *comm = group->comm;
    bool takes = !atomic_load(&comm->is_aborted);
    for (int i = 0; i < group->count && takes; i++)
        if (group->operations[i].to_bytes > 0)
            take_what_is_not_lost(comm, &group->operations[i]);
    for (int i = 0; i < group->count && takes; i++) {
        const struct operation *operation = &group->operations[i];
        for (int rank = 0; rank < comm->world; rank++)
            if (post_of(comm, operation, rank))
                leave(comm, post_of(comm, operation, rank));
        if (is_pair(operation->call.kind))
            leave(comm, own_post(comm, operation));
    }
    atomic_fetch_sub(&comm->group_count, 1);
    free(group);
}

// Posts the operations for the other ranks, in the order of the communicator.
static void post(struct group *group)
{
    struct ncclComm *comm = group->comm;
    for (int i = 0; i < group->count; i++) {
        struct operation *operation = &group->operations[i];
        const struct call *call = &operation->call;
        operation->index = call->kind == SEND      ? comm->sends[call->peer]++
                           : call->kind == RECEIVE ? comm->receives[call->peer]++
                                                   : comm->collectives++;
        struct post *post = own_post(comm, operation);
        if (atomic_load(&post->left) > 0)
            standin_die("NCCL: nobody waited for the last %d operations", POSTS);
        post->call = *call;
        atomic_store(&post->is_given, false);
        atomic_store(&post->left, is_pair(call->kind) ? 2 : comm->world);
        atomic_store(&post->number, operation->index + 1);
    }
    atomic_fetch_add(&comm->group_count, 1);
    nccl_board_change(comm->board);
}

// A launch of a graph makes the operations at its place in the order.
static void *again(void *what)
{
    struct group *group = malloc(sizeof *group);
    if (!group)
        return NULL;
    *group = *(const struct group *)what;
    nccl_expect_state(group->comm, "cudaGraphLaunch", 1u << READY);
    post(group);
    return group;
}

void nccl_work_enqueue(struct group *group)
{
    bool is_captured = *standin_capture_of(group->stream);
    group->comm->is_captured |= is_captured;
    if (!is_captured)
        post(group);
    if (standin_enqueue_when(group->stream, (struct standin_work){run, group, again}, is_ready) != cudaSuccess)
        standin_die("NCCL: a group cannot be enqueued");
}
