// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/comm_local.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// A rank that leaves because the world has failed may be the first to tell this part of it.
static void fail_for_leaver(struct group *group, int leaver, int rank, enum comm_operation operation)
{
    int code = meet_check(&group->root->meet);
    if (code != ERR_NONE)
        meet_fail(&group->meet, code, "%s", err_message());
    else
        meet_fail(&group->meet, ERR_PEER, "rank %d left while rank %d was in %s", leaver, rank,
                  comm_operation_name(operation));
}

static void overdue(void *context, const struct meet_target *target)
{
    comm_local_overdue(context, &(struct awaited){.peer = target->peer, .number = target->number});
}

static int await(struct comm_local *local, const struct comm_call *call)
{
    struct meet *meet = &local->group->meet;
    int rank = local->comm.rank;
    const struct meet_target target = {peer_awaited(local, call), meet->marks[rank].number};
    int rc = meet_await(meet, rank, target, overdue, local);
    comm_local_came(local);
    return rc;
}

// Waits until this rank's next slot is free, which it is unless this rank is far ahead.
static int await_slot(struct comm_local *local, const struct comm_call *call)
{
    struct meet *meet = &local->group->meet;
    struct position *own = &local->group->positions[local->comm.rank];
    comm_local_used(local);
    atomic_store_explicit(&own->operation, call->operation, memory_order_relaxed);
    atomic_store_explicit(&own->entered, call->signature.sequence, memory_order_release);
    int rc = meet_room(meet, local->comm.rank, overdue, local);
    comm_local_came(local);
    local->arrival = meet->marks[local->comm.rank].number + 1;
    return rc;
}

// This rank sees the leaver here, or the leaver sees that this rank has arrived: both write first and then read. A rank
// that left later than this call is no loss to it.
static void come(struct comm_local *local, const struct comm_call *call)
{
    struct group *group = local->group;
    bool leads = call->operation == COMM_BROADCAST && call->root == local->comm.rank;
    meet_come(&group->meet, local->comm.rank, leads);
    int leaver = atomic_load(&group->leaver);
    if (leaver != 0 && group->positions[leaver - 1].left_at < local->arrival)
        fail_for_leaver(group, leaver - 1, local->comm.rank, call->operation);
}

// The second barrier of a call with direct messages.
static int move_and_meet(struct comm_local *local, const struct comm_call *call)
{
    struct meet *meet = &local->group->meet;
    TRY(meet_reach_begin(meet, local->comm.rank));
    comm_local_move(local, call);
    int code = accelerator_wait();
    meet_reach_end(meet, local->comm.rank);
    if (code != ERR_NONE)
        return code;
    come(local, call);
    return await(local, call);
}

// A root that is ahead has written its next place, too.
static void fetch_next_of(const struct comm_local *local, const struct comm_call *call)
{
    const struct meet *meet = &local->group->meet;
    int peer = peer_awaited(local, call);
    if (peer != MEET_ALL && meet_has_come(meet, peer, local->arrival))
        __builtin_prefetch(meet_place(meet, peer, local->arrival + 1));
}

static int meet_and_move(struct comm_local *local, const struct comm_call *call)
{
    struct meet *meet = &local->group->meet;
    bool direct;
    TRY(await_slot(local, call));
    comm_local_publish(local, call);
    come(local, call);
    // Nobody watches the place after the next yet, so that the line stays until it is written.
    meet_fetch_line(meet_place(meet, local->comm.rank, local->arrival + 2));
    if (call->operation == COMM_BROADCAST && call->root == local->comm.rank && !slot_of(local, call->root)->direct)
        return meet_check(meet);
    fetch_next_of(local, call);
    TRY(await(local, call));
    TRY(comm_local_compare(local, call, &direct));
    if (direct)
        return move_and_meet(local, call);
    comm_local_move(local, call);
    return ERR_NONE;
}

static int local_run(struct comm *comm, const struct comm_call *call)
{
    struct comm_local *local = (struct comm_local *)comm;
    struct meet *meet = &local->group->meet;
    assert(call->signature.sequence > atomic_load(&local->group->positions[comm->rank].entered));
    TRY(meet_check(meet));
    // The other ranks may read the buffers only after this thread's work on an accelerator is complete.
    TRY(accelerator_wait());
    int rc = meet_and_move(local, call);
    if (rc != ERR_NONE)
        meet_drain(meet);
    return rc;
}

static int local_check(struct comm *comm)
{
    return meet_check(&((struct comm_local *)comm)->group->meet);
}

static void local_abort(struct comm *comm, const char *message)
{
    meet_fail(&((struct comm_local *)comm)->group->meet, ERR_PEER, "rank %d failed: %s", comm->rank, message);
}

static void group_free(struct group *group);

// The parts that are left of a group whose last rank leaves: those of which a rank got no handle, because the world
// failed meanwhile. Every rank of a part has left it before.
static void free_parts(struct group *group)
{
    for (;;) {
        pthread_mutex_lock(&group->root->tree_lock);
        struct group *part = group->root->next;
        while (part && part->parent != group)
            part = part->next;
        pthread_mutex_unlock(&group->root->tree_lock);
        if (!part)
            return;
        group_free(part);
    }
}

static void group_free(struct group *group)
{
    free_parts(group);
    if (group->parent) {
        comm_local_leave_tree(group);
        meet_disown(&group->parent->meet, &group->meet);
    }
    meet_close(&group->meet);
    pthread_mutex_destroy(&group->tree_lock);
    free(group->ranks);
    free(group->positions);
    comm_local_free_channels(group);
    free(group->handles);
    free(group);
}

static void local_close(struct comm *comm)
{
    struct group *group = ((struct comm_local *)comm)->group;
    struct position *own = &group->positions[comm->rank];
    int nobody = 0;
    own->left_at = group->meet.marks[comm->rank].number;
    atomic_store(&own->left, true);
    atomic_compare_exchange_strong(&group->leaver, &nobody, comm->rank + 1);
    for (int rank = 0; rank < comm->world; rank++)
        if (meet_has_come(&group->meet, rank, own->left_at + 1))
            fail_for_leaver(group, comm->rank, rank, atomic_load(&group->positions[rank].operation));
    if (atomic_fetch_sub(&group->open_count, 1) == 1)
        group_free(group);
}

static size_t rounded_to_lines(size_t bytes)
{
    return (bytes + MEET_LINE_BYTES - 1) / MEET_LINE_BYTES * MEET_LINE_BYTES;
}

static void *zeroed_lines(size_t bytes)
{
    void *memory = aligned_alloc(MEET_LINE_BYTES, rounded_to_lines(bytes));
    return memory ? memset(memory, 0, rounded_to_lines(bytes)) : NULL;
}

static struct group *group_open(int world)
{
    size_t ranks = (size_t)world;
    size_t slot_bytes = rounded_to_lines(offsetof(struct slot, numbers) + 3 * ranks * sizeof(size_t));
    struct group *group = zeroed_lines(sizeof *group);
    if (!group || meet_open(&group->meet, world, slot_bytes) != ERR_NONE) {
        free(group);
        return NULL;
    }
    group->world = world;
    group->root = group;
    pthread_mutex_init(&group->tree_lock, NULL);
    atomic_store(&group->open_count, world);
    group->ranks = calloc(ranks, sizeof *group->ranks);
    group->positions = zeroed_lines(ranks * sizeof *group->positions);
    group->handles = zeroed_lines(ranks * sizeof *group->handles);
    group->channels = calloc(ranks * ranks, sizeof *group->channels);
    if (!group->ranks || !group->positions || !group->handles || !group->channels) {
        group_free(group);
        return NULL;
    }
    return group;
}

static int local_split(struct comm *comm, const struct comm_part *part, struct comm **out);

static struct comm *handle_of(struct group *group, int rank)
{
    static const struct comm_ops ops = {.name = "local",
                                        .run = local_run,
                                        .send = comm_local_send,
                                        .receive = comm_local_receive,
                                        .split = local_split,
                                        .check = local_check,
                                        .abort = local_abort,
                                        .close = local_close};
    struct comm_local *local = &group->handles[rank];
    local->comm = (struct comm){.ops = &ops, .rank = rank, .world = group->world};
    local->group = group;
    return &local->comm;
}

// The first rank of each part makes its group. All ranks are threads of one process, so that its address tells the
// others where it is. Of a failure during the exchange some ranks learn in it, and others later, who have a handle
// then: so no rank frees the group, which ends with the last handle of the part, or with the group that was split.
static int local_split(struct comm *comm, const struct comm_part *part, struct comm **out)
{
    struct group *whole = ((struct comm_local *)comm)->group, *own = NULL, *all[comm->world];
    if (part->rank == 0 && (own = group_open(part->world))) {
        comm_local_join_tree(own, whole, part->members);
        meet_adopt(&whole->meet, &own->meet);
    }
    TRY(comm_all_gather_equal(comm, &own, all, sizeof own));
    if (!all[part->first])
        return err_set(ERR_MEMORY, "out of memory for a part of %d ranks", part->world);
    *out = handle_of(all[part->first], part->rank);
    comm_local_used((struct comm_local *)*out);
    return ERR_NONE;
}

int comm_local_open(int world, struct comm *comms[])
{
    if (world < 1)
        return err_set(ERR_USAGE, "world of %d ranks: expected at least 1", world);
    struct group *group = group_open(world);
    if (!group)
        return err_set(ERR_MEMORY, "out of memory for %d ranks", world);
    for (int rank = 0; rank < world; rank++) {
        group->ranks[rank] = rank;
        comms[rank] = handle_of(group, rank);
    }
    return ERR_NONE;
}
