// SPDX-License-Identifier: Apache-2.0
// Threads that wait for each other in different communicators. A thread that has waited for a while says so, and looks
// for a circle: it waits for ranks that have not arrived, whose threads wait for other ranks, and so on back to itself.
//
// A rank may have several threads, each with communicators of its own, so what counts is the thread that used a handle
// last. Every wait of a circle lasts until the next one ends, and so a circle that is found wait by wait is there.
#include "ref/comm/comm_local.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One rank's wait in one communicator.
struct wait {
    const struct group *group;
    int rank;
};

struct search {
    struct wait *waits;  // all that have taken long; waits[path[0]] is this thread's
    bool *seen;
    int *path;
    int count, length;
};

// True if the wait is for that rank of its group.
static bool waits_for(const struct wait *wait, int rank)
{
    const struct position *own = &wait->group->positions[wait->rank];
    const struct awaited *awaited = &own->awaited;
    if (awaited->peer != MEET_ALL && awaited->peer != rank)
        return false;
    if (awaited->channel)
        return atomic_load(&awaited->channel->full) != awaited->full;
    return !meet_has_come(&wait->group->meet, rank, awaited->number);
}

// Extends the path from its last wait until it leads back to the first.
static bool find_circle(struct search *s)
{
    const struct wait *last = &s->waits[s->path[s->length - 1]];
    for (int rank = 0; rank < last->group->world; rank++) {
        uint64_t thread = atomic_load(&last->group->positions[rank].thread);
        if (rank == last->rank || !waits_for(last, rank))
            continue;
        for (int i = 0; i < s->count; i++) {
            if (atomic_load(&s->waits[i].group->positions[s->waits[i].rank].thread) != thread)
                continue;
            if (i == s->path[0])
                return true;
            if (s->seen[i])
                continue;
            s->seen[i] = true;
            s->path[s->length++] = i;
            if (find_circle(s))
                return true;
            s->length--;
        }
    }
    return false;
}

static int collect(struct group *root, struct wait waits[])
{
    int count = 0;
    for (const struct group *group = root; group; group = group->next)
        for (int rank = 0; rank < group->world; rank++)
            if (atomic_load(&group->positions[rank].overdue))
                waits[count++] = (struct wait){group, rank};
    return count;
}

static void append(char text[MEET_MESSAGE_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char text[MEET_MESSAGE_BYTES], const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, MEET_MESSAGE_BYTES - used, format, arguments);
    va_end(arguments);
}

// "is in all-gather among ranks 2 3 (shard)"
static void append_wait(char text[MEET_MESSAGE_BYTES], const struct wait *wait)
{
    enum { NAMED = 8 };
    const struct group *group = wait->group;
    const struct position *own = &group->positions[wait->rank];
    enum ledger_group kind = group->handles[wait->rank].comm.counted_group;
    append(text, "is in %s among ranks",
           own->awaited.channel ? own->awaited.full ? "receive" : "send"
                                : comm_operation_name(atomic_load(&own->operation)));
    for (int i = 0; i < group->world && i < NAMED; i++)
        append(text, " %d", group->ranks[i]);
    append(text, "%s", group->world > NAMED ? " ..." : "");
    if (kind != GROUP_WORLD)
        append(text, " (%s)", ledger_group_name(kind));
}

static void describe(const struct search *s, char text[MEET_MESSAGE_BYTES])
{
    int first = s->waits[s->path[0]].group->ranks[s->waits[s->path[0]].rank];
    snprintf(text, MEET_MESSAGE_BYTES, "the ranks wait for each other: rank %d ", first);
    for (int i = 0; i < s->length; i++) {
        const struct wait *next = &s->waits[s->path[(i + 1) % s->length]];
        append_wait(text, &s->waits[s->path[i]]);
        append(text, " and waits for rank %d%s", next->group->ranks[next->rank], i + 1 < s->length ? ", which " : "");
    }
}

// Returns whether this handle's thread is in a circle, and its description.
static bool is_in_circle(struct comm_local *local, char text[MEET_MESSAGE_BYTES])
{
    struct group *root = local->group->root;
    size_t most = 0;
    for (const struct group *group = root; group; group = group->next)
        most += (size_t)group->world;
    struct search s = {.waits = malloc(most * sizeof *s.waits),
                       .seen = calloc(most, sizeof *s.seen),
                       .path = malloc(most * sizeof *s.path),
                       .length = 1};
    bool found = false;
    if (s.waits && s.seen && s.path) {
        s.count = collect(root, s.waits);
        for (int i = 0; i < s.count; i++)
            if (s.waits[i].group == local->group && s.waits[i].rank == local->comm.rank)
                s.path[0] = i;
        found = find_circle(&s);
        if (found)
            describe(&s, text);
    }
    free(s.waits);
    free(s.seen);
    free(s.path);
    return found;
}

void comm_local_used(struct comm_local *local)
{
    static _Atomic uint64_t threads;
    static _Thread_local uint64_t self;
    if (self == 0)
        self = atomic_fetch_add(&threads, 1) + 1;
    atomic_store_explicit(&local->group->positions[local->comm.rank].thread, self, memory_order_relaxed);
}

void comm_local_overdue(struct comm_local *local, const struct awaited *awaited)
{
    struct position *own = &local->group->positions[local->comm.rank];
    struct group *root = local->group->root;
    char text[MEET_MESSAGE_BYTES];
    if (!atomic_load(&own->overdue)) {
        own->awaited = *awaited;
        atomic_store(&own->overdue, true);
    }
    pthread_mutex_lock(&root->tree_lock);
    bool found = is_in_circle(local, text);
    pthread_mutex_unlock(&root->tree_lock);
    if (found)
        meet_fail(&root->meet, ERR_INTERNAL, "%s", text);
}

void comm_local_came(struct comm_local *local)
{
    struct position *own = &local->group->positions[local->comm.rank];
    if (!atomic_load_explicit(&own->overdue, memory_order_relaxed))
        return;
    // Others read the wait under the lock.
    pthread_mutex_lock(&local->group->root->tree_lock);
    atomic_store(&own->overdue, false);
    pthread_mutex_unlock(&local->group->root->tree_lock);
}

void comm_local_join_tree(struct group *group, struct group *parent, const int members[])
{
    group->parent = parent;
    group->root = parent->root;
    for (int rank = 0; rank < group->world; rank++)
        group->ranks[rank] = parent->ranks[members[rank]];
    pthread_mutex_lock(&group->root->tree_lock);
    group->next = group->root->next;
    group->root->next = group;
    pthread_mutex_unlock(&group->root->tree_lock);
}

void comm_local_leave_tree(struct group *group)
{
    pthread_mutex_lock(&group->root->tree_lock);
    struct group **link = &group->root->next;
    while (*link != group)
        link = &(*link)->next;
    *link = group->next;
    pthread_mutex_unlock(&group->root->tree_lock);
}
