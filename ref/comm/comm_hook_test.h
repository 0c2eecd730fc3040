// SPDX-License-Identifier: Apache-2.0
// For tests of failures: ranks that are threads, of which one fails in its k-th collective, in the world or in a part
// of it, while the others hear of it in the same call or in their next one, and all close their handles in a given
// order. All waiting is for events.
#pragma once

#include "ref/comm/comm_local.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <pthread.h>

enum { HOOK_RANKS = 8, HOOK_NEVER = -1 };

// When the rank fails: in place of the call; when it returns from it; or when all late ranks have returned from it,
// too, while the others stay in it until then. The last needs ranks whose calls have equal numbers.
enum hook_moment { HOOK_BEFORE, HOOK_AFTER, HOOK_BETWEEN };

struct hook_rank {
    struct hook *hook;
    struct comm *world;
    int index, calls;
    const struct group *in_call;  // the group of its k-th call
    bool passed, done;            // it has returned from that call; it closes no more parts
};

struct hook {
    int world, failing, call;
    enum hook_moment moment;
    unsigned late;          // a bit for each rank that hears of the failure in its next call
    int order[HOOK_RANKS];  // in which ranks close their parts
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool failed;
    struct hook_rank ranks[HOOK_RANKS];
};

// Of the world that runs. A rank's threads find their rank by the handle.
static struct hook *hook_now;

static inline struct hook_rank *hook_rank_of(const struct comm *comm)
{
    const struct group *group = ((const struct comm_local *)comm)->group;
    return &hook_now->ranks[group->ranks[comm->rank]];
}

static const struct comm_ops *hook_inner;

static inline bool hook_is_late(const struct hook *h, int rank)
{
    return h->late >> rank & 1;
}

static inline void hook_change(struct hook *h, bool *what)
{
    pthread_mutex_lock(&h->lock);
    *what = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

// True if all late ranks of that group have returned from the call.
static inline bool hook_all_passed(const struct hook *h, const struct group *group)
{
    for (int i = 0; i < h->world; i++)
        if (h->ranks[i].in_call == group && i != h->failing && hook_is_late(h, i) && !h->ranks[i].passed)
            return false;
    return true;
}

static inline int hook_fail(struct hook_rank *self, const struct group *group)
{
    struct hook *h = self->hook;
    pthread_mutex_lock(&h->lock);
    while (h->moment == HOOK_BETWEEN && !hook_all_passed(h, group))
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
    comm_abort(self->world, "injected");
    hook_change(h, &h->failed);
    return err_set(ERR_IO, "injected");
}

static inline int hook_run(struct comm *comm, const struct comm_call *call)
{
    struct hook_rank *self = hook_rank_of(comm);
    struct hook *h = self->hook;
    const struct group *group = ((struct comm_local *)comm)->group;
    pthread_mutex_lock(&h->lock);
    bool is_call = self->calls++ == h->call;
    if (is_call)
        self->in_call = group;
    pthread_mutex_unlock(&h->lock);
    if (is_call && self->index == h->failing && h->moment == HOOK_BEFORE)
        return hook_fail(self, group);
    int code = hook_inner->run(comm, call);
    if (!is_call || code != ERR_NONE)
        return code;
    if (self->index == h->failing)
        return hook_fail(self, group);
    pthread_mutex_lock(&h->lock);
    bool is_the_call = h->moment == HOOK_BETWEEN && h->ranks[h->failing].in_call == group;
    pthread_mutex_unlock(&h->lock);
    if (!is_the_call)
        return code;
    if (hook_is_late(h, self->index)) {
        hook_change(h, &self->passed);
        return code;
    }
    pthread_mutex_lock(&h->lock);
    while (!h->failed)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
    return comm->ops->check(comm);
}

// Parts are closed by one rank after the other.
static inline void hook_close(struct comm *comm)
{
    struct hook_rank *self = hook_rank_of(comm);
    struct hook *h = self->hook;
    int place = 0;
    while (h->order[place] != self->index)
        place++;
    pthread_mutex_lock(&h->lock);
    while (place > 0 && !h->ranks[h->order[place - 1]].done)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
    hook_inner->close(comm);
}

static inline int hook_split(struct comm *comm, const struct comm_part *part, struct comm **out);

static inline void hook_handle(struct comm *comm)
{
    static struct comm_ops ops;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!hook_inner) {
        hook_inner = comm->ops;
        ops = *comm->ops;
        ops.run = hook_run;
        ops.split = hook_split;
        ops.close = hook_close;
    }
    pthread_mutex_unlock(&lock);
    comm->ops = &ops;
}

static inline int hook_split(struct comm *comm, const struct comm_part *part, struct comm **out)
{
    TRY(hook_inner->split(comm, part, out));
    hook_handle(*out);
    return ERR_NONE;
}

// Called by a rank when it has closed all its parts.
static inline void hook_done(struct hook_rank *self)
{
    hook_change(self->hook, &self->done);
}

struct hook_thread {
    struct hook_rank *rank;
    void (*body)(struct hook_rank *rank, void *context);
    void *context;
};

static inline void *hook_thread_run(void *argument)
{
    struct hook_thread *thread = argument;
    thread->body(thread->rank, thread->context);
    hook_done(thread->rank);
    comm_close(thread->rank->world);
    return NULL;
}

// Runs body on each rank of a world.
static inline void hook_run_world(struct hook *h, void (*body)(struct hook_rank *rank, void *context), void *context)
{
    struct comm *comms[HOOK_RANKS];
    pthread_t threads[HOOK_RANKS];
    struct hook_thread arguments[HOOK_RANKS];
    hook_now = h;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    cr_assert_eq(comm_local_open(h->world, comms), ERR_NONE);
    for (int i = 0; i < h->world; i++) {
        h->ranks[i] = (struct hook_rank){.hook = h, .world = comms[i], .index = i};
        hook_handle(comms[i]);
        arguments[i] = (struct hook_thread){&h->ranks[i], body, context};
    }
    for (int i = 0; i < h->world; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, hook_thread_run, &arguments[i]), 0);
    for (int i = 0; i < h->world; i++)
        pthread_join(threads[i], NULL);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
}
