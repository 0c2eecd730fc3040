// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/comm_local.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"

#include <assert.h>
#include <inttypes.h>
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

static void overdue(void *context)
{
    comm_local_overdue(context, NULL, 0, 0);
}

static int wait_for_all(struct comm_local *local)
{
    int rc = meet_wait(&local->group->meet, local->comm.rank, overdue, local);
    comm_local_came(local);
    return rc;
}

// This rank sees the leaver here, or the leaver sees that this rank has entered: both write first and then read.
static int enter(struct comm_local *local, const struct comm_call *call)
{
    struct group *group = local->group;
    comm_local_used(local);
    atomic_store(&group->positions[local->comm.rank].entered, call->signature.sequence);
    int leaver = atomic_load(&group->leaver);
    if (leaver != 0)
        fail_for_leaver(group, leaver - 1, local->comm.rank, call->operation);
    return wait_for_all(local);
}

static int disagree(struct group *group, const struct comm_signature *a, int a_rank, const struct comm_signature *b,
                    int b_rank)
{
    char a_text[128], b_text[128];
    comm_signature_text(a, a_text, sizeof a_text);
    comm_signature_text(b, b_text, sizeof b_text);
    meet_fail(&group->meet, ERR_INTERNAL,
              "the ranks disagree about collective %" PRIu64 ": rank %d calls %s, rank %d %s", a->sequence, a_rank,
              a_text, b_rank, b_text);
    return meet_check(&group->meet);
}

// Every rank compares the same slots and so comes to the same conclusion.
static int compare_calls(struct group *group, const struct comm_call *call)
{
    uint64_t sequence = call->signature.sequence;
    const struct slot *first = slot_of(group, 0, sequence);
    for (int rank = 1; rank < group->world; rank++) {
        const struct slot *slot = slot_of(group, rank, sequence);
        if (memcmp(&slot->signature, &first->signature, sizeof slot->signature) != 0)
            return disagree(group, &first->signature, 0, &slot->signature, rank);
    }
    if (call->operation != COMM_ALL_TO_ALL)
        return ERR_NONE;
    for (int from = 0; from < group->world; from++) {
        for (int to = 0; to < group->world; to++) {
            size_t sent = slot_of(group, from, sequence)->counts[to];
            size_t expected = slot_of(group, to, sequence)->recv_counts[from];
            if (sent == expected)
                continue;
            meet_fail(&group->meet, ERR_INTERNAL,
                      "the ranks disagree about collective %" PRIu64 ", all-to-all: rank %d sends %zu elements to rank "
                      "%d, which expects %zu",
                      sequence, from, sent, to, expected);
            return meet_check(&group->meet);
        }
    }
    return ERR_NONE;
}

static bool any_direct(const struct group *group, uint64_t sequence)
{
    bool direct = false;
    for (int rank = 0; rank < group->world; rank++)
        direct |= slot_of(group, rank, sequence)->direct;
    return direct;
}

static int meet_and_move(struct comm_local *local, const struct comm_call *call)
{
    struct group *group = local->group;
    TRY(enter(local, call));
    TRY(compare_calls(group, call));
    if (!any_direct(group, call->signature.sequence)) {
        comm_local_move(local, call);
        return ERR_NONE;
    }
    TRY(meet_reach_begin(&group->meet, local->comm.rank));
    comm_local_move(local, call);
    int code = accelerator_wait();
    meet_reach_end(&group->meet, local->comm.rank);
    if (code != ERR_NONE)
        return code;
    return wait_for_all(local);
}

static int local_run(struct comm *comm, const struct comm_call *call)
{
    struct comm_local *local = (struct comm_local *)comm;
    struct group *group = local->group;
    assert(call->signature.sequence > atomic_load(&group->positions[comm->rank].entered));
    TRY(meet_check(&group->meet));
    // The other ranks may read the buffers only after this thread's work on an accelerator is complete.
    TRY(accelerator_wait());
    struct slot *slot = slot_of(group, comm->rank, call->signature.sequence);
    meet_fetch_line(&group->meet.marks[comm->rank].came);
    meet_fetch_line(slot);
    meet_fetch_line(slot->small);
    comm_local_publish((struct comm_local *)comm, call);
    int rc = meet_and_move(local, call);
    if (rc != ERR_NONE)
        meet_drain(&group->meet);
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

static void group_free(struct group *group)
{
    if (!group)
        return;
    if (group->parent) {
        comm_local_leave_tree(group);
        meet_disown(&group->parent->meet, &group->meet);
    }
    meet_close(&group->meet);
    pthread_mutex_destroy(&group->tree_lock);
    free(group->ranks);
    free(group->slots);
    free(group->numbers);
    free(group->positions);
    comm_local_free_channels(group);
    free(group->handles);
    free(group);
}

static void local_close(struct comm *comm)
{
    struct group *group = ((struct comm_local *)comm)->group;
    int nobody = 0;
    atomic_store(&group->positions[comm->rank].left, true);
    atomic_compare_exchange_strong(&group->leaver, &nobody, comm->rank + 1);
    for (int rank = 0; rank < comm->world; rank++) {
        uint64_t entered = atomic_load(&group->positions[rank].entered);
        if (entered > atomic_load(&group->positions[comm->rank].entered))
            fail_for_leaver(group, comm->rank, rank, slot_of(group, rank, entered)->signature.operation);
    }
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
    size_t ranks = (size_t)world, slots = 2 * ranks;
    size_t numbers = rounded_to_lines(3 * ranks * sizeof(size_t)) / sizeof(size_t);  // of a slot
    struct group *group = zeroed_lines(sizeof *group);
    if (!group || meet_open(&group->meet, world) != ERR_NONE) {
        free(group);
        return NULL;
    }
    group->world = world;
    group->root = group;
    pthread_mutex_init(&group->tree_lock, NULL);
    atomic_store(&group->open_count, world);
    group->slots = zeroed_lines(slots * sizeof *group->slots);
    group->numbers = zeroed_lines(slots * numbers * sizeof *group->numbers);
    group->ranks = calloc(ranks, sizeof *group->ranks);
    group->positions = zeroed_lines(ranks * sizeof *group->positions);
    group->handles = zeroed_lines(ranks * sizeof *group->handles);
    group->channels = calloc(ranks * ranks, sizeof *group->channels);
    if (!group->slots || !group->numbers || !group->ranks || !group->positions || !group->handles || !group->channels) {
        group_free(group);
        return NULL;
    }
    for (size_t i = 0; i < slots; i++) {
        group->slots[i].counts = group->numbers + i * numbers;
        group->slots[i].offsets = group->slots[i].counts + ranks;
        group->slots[i].recv_counts = group->slots[i].offsets + ranks;
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
// others where it is.
static int local_split(struct comm *comm, const struct comm_part *part, struct comm **out)
{
    struct group *whole = ((struct comm_local *)comm)->group, *own = NULL, *all[comm->world];
    if (part->rank == 0 && (own = group_open(part->world))) {
        comm_local_join_tree(own, whole, part->members);
        meet_adopt(&whole->meet, &own->meet);
    }
    int code = comm_all_gather_equal(comm, &own, all, sizeof own);
    if (code != ERR_NONE) {
        group_free(own);
        return code;
    }
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
