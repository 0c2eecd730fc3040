// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for each other in collectives of different communicators. A thread that has waited for a while tells
// all ranks of the world, once, where it waits, and how far it is in the communicators that it used last. Each rank
// looks for a circle in what it has heard: a rank waits for one that has not arrived, whose thread waits for another,
// and so on back to itself.
//
// What was heard may be old. A circle is true all the same: each wait in it ends only after the next one has ended.
#include "ref/comm/comm_mpi.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// Notices have tag 0.
enum { WAITS_TAG = 1 };
enum { PLACE_MAX = 16, THREAD_MAX = 4, TEXT_BYTES = 256 };

// How far a thread is in a communicator: the number of its last collective there.
struct place {
    uint64_t id, sequence;
};

struct waits {
    uint64_t thread;     // 0: nothing was heard
    struct place place;  // where it waits
    struct place others[PLACE_MAX];
    uint64_t other_count;
    char text[TEXT_BYTES];
};

// Of a whole world: what was heard of the threads of each rank, and what this rank says.
struct comm_mpi_circle {
    pthread_mutex_t lock;
    struct comm_mpi *handles;  // of this rank, in all communicators of the world
    struct waits sent;
    bool told[THREAD_MAX];  // by thread: all ranks have been sent where it waits
    MPI_Request *requests;
    struct waits (*heard)[THREAD_MAX];
};

struct search {
    const struct comm_mpi_circle *circle;
    int world, path[64], length;  // path: rank x THREAD_MAX + slot
    bool *seen;
};

static const struct comm_mpi *root_of(const struct comm_mpi *mpi)
{
    while (mpi->parent)
        mpi = mpi->parent;
    return mpi;
}

static const struct waits *waits_at(const struct search *s, int at)
{
    return &s->circle->heard[at / THREAD_MAX][at % THREAD_MAX];
}

// True if the thread keeps the other one waiting: it has not reached its collective, and is the one that would.
static bool is_awaited_by(const struct waits *thread, const struct waits *waiting)
{
    for (uint64_t i = 0; thread->thread != 0 && i < thread->other_count && i < PLACE_MAX; i++)
        if (thread->others[i].id == waiting->place.id)
            return thread->others[i].sequence < waiting->place.sequence;
    return false;
}

// Extends the path from its last wait until it leads back to the first.
static bool find_circle(struct search *s)
{
    int last = s->path[s->length - 1];
    for (int next = 0; next < s->world * THREAD_MAX; next++) {
        if (next / THREAD_MAX == last / THREAD_MAX || !is_awaited_by(waits_at(s, next), waits_at(s, last)))
            continue;
        if (next == s->path[0])
            return true;
        if (s->seen[next] || s->length == (int)(sizeof s->path / sizeof *s->path))
            continue;
        s->seen[next] = true;
        s->path[s->length++] = next;
        if (find_circle(s))
            return true;
        s->length--;
    }
    return false;
}

static void describe(const struct search *s, char text[COMM_MPI_TEXT_BYTES])
{
    int used = snprintf(text, COMM_MPI_TEXT_BYTES, "the ranks wait for each other: rank %d ", s->path[0] / THREAD_MAX);
    for (int i = 0; i < s->length && used < COMM_MPI_TEXT_BYTES; i++)
        used += snprintf(text + used, COMM_MPI_TEXT_BYTES - (size_t)used, "%.*s and waits for rank %d%s", TEXT_BYTES,
                         waits_at(s, s->path[i])->text, s->path[(i + 1) % s->length] / THREAD_MAX,
                         i + 1 < s->length ? ", which " : "");
}

// Describes the wait of this handle's thread.
static void say(const struct comm_mpi *mpi, const struct comm_mpi_circle *circle, struct waits *out)
{
    enum { NAMED = 8 };
    uint64_t thread = atomic_load(&mpi->thread);
    *out = (struct waits){.thread = thread, .place = {mpi->id, atomic_load(&mpi->entered)}};
    for (const struct comm_mpi *other = circle->handles; other && out->other_count < PLACE_MAX; other = other->next)
        if (atomic_load(&other->thread) == thread)
            out->others[out->other_count++] = (struct place){other->id, atomic_load(&other->entered)};
    int used = snprintf(out->text, TEXT_BYTES, "is in %s among ranks", comm_operation_name(mpi->operation));
    for (int i = 0; i < mpi->comm.world && i < NAMED; i++)
        used += snprintf(out->text + used, TEXT_BYTES - (size_t)used, " %d", mpi->ranks[i]);
    used += snprintf(out->text + used, TEXT_BYTES - (size_t)used, "%s", mpi->comm.world > NAMED ? " ..." : "");
    if (mpi->comm.counted_group != GROUP_WORLD)
        snprintf(out->text + used, TEXT_BYTES - (size_t)used, " (%s)", ledger_group_name(mpi->comm.counted_group));
}

// Sends what this rank says to all others, unless it is still sending what it said before: false then.
static bool tell(const struct comm_mpi *root, struct comm_mpi_circle *circle, const struct waits *own)
{
    int world = root->comm.world, done = 0, count = 0;
    if (MPI_Testall(world, circle->requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS || !done)
        return false;
    circle->sent = *own;
    for (int rank = 0; rank < world; rank++)
        if (rank != root->comm.rank)
            MPI_Isend(&circle->sent, sizeof circle->sent, MPI_BYTE, rank, WAITS_TAG, root->control,
                      &circle->requests[count++]);
    return true;
}

void comm_mpi_hear(struct comm_mpi *root)
{
    struct comm_mpi_circle *circle = root->circle;
    struct waits waits;
    for (;;) {
        MPI_Message message;
        MPI_Status status;
        int found = 0;
        if (MPI_Improbe(MPI_ANY_SOURCE, WAITS_TAG, root->control, &found, &message, &status) != MPI_SUCCESS || !found)
            return;
        if (MPI_Mrecv(&waits, sizeof waits, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        pthread_mutex_lock(&circle->lock);
        circle->heard[status.MPI_SOURCE][waits.thread % THREAD_MAX] = waits;
        pthread_mutex_unlock(&circle->lock);
    }
}

void comm_mpi_overdue(struct comm_mpi *mpi)
{
    struct comm_mpi *root = mpi;
    char text[COMM_MPI_TEXT_BYTES];
    while (root->parent)
        root = root->parent;
    struct comm_mpi_circle *circle = root->circle;
    comm_mpi_hear(root);
    pthread_mutex_lock(&circle->lock);
    // No circle goes through a single communicator: whoever is waited for there is in an earlier collective.
    if (!circle->handles->next) {
        pthread_mutex_unlock(&circle->lock);
        return;
    }
    int slot = (int)(atomic_load(&mpi->thread) % THREAD_MAX);
    struct waits *own = &circle->heard[root->comm.rank][slot], said;
    say(mpi, circle, &said);
    if (memcmp(own, &said, sizeof said) != 0) {
        *own = said;
        circle->told[slot] = false;
    }
    if (!circle->told[slot])
        circle->told[slot] = tell(root, circle, own);
    struct search s = {.circle = circle,
                       .world = root->comm.world,
                       .path = {root->comm.rank * THREAD_MAX + slot},
                       .length = 1,
                       .seen = calloc((size_t)root->comm.world * THREAD_MAX, sizeof(bool))};
    bool found = s.seen && find_circle(&s);
    if (found)
        describe(&s, text);
    pthread_mutex_unlock(&circle->lock);
    free(s.seen);
    if (found)
        comm_mpi_fail_everywhere(root, ERR_INTERNAL, text);
}

void comm_mpi_used(struct comm_mpi *mpi)
{
    static _Atomic uint64_t threads;
    static _Thread_local uint64_t self;
    if (self == 0)
        self = atomic_fetch_add(&threads, 1) + 1;
    atomic_store_explicit(&mpi->thread, self, memory_order_relaxed);
    atomic_store_explicit(&mpi->entered, mpi->comm.sequence, memory_order_relaxed);
}

static int open_circle(struct comm_mpi *root)
{
    size_t world = (size_t)root->comm.world;
    struct comm_mpi_circle *circle = root->circle = calloc(1, sizeof *circle);
    if (!circle)
        return err_set(ERR_MEMORY, "no memory for what %zu ranks wait for", world);
    pthread_mutex_init(&circle->lock, NULL);
    circle->requests = malloc(world * sizeof *circle->requests);
    circle->heard = calloc(world, sizeof *circle->heard);
    if (!circle->requests || !circle->heard)
        return err_set(ERR_MEMORY, "no memory for what %zu ranks wait for", world);
    for (size_t i = 0; i < world; i++)
        circle->requests[i] = MPI_REQUEST_NULL;
    return ERR_NONE;
}

int comm_mpi_circle_join(struct comm_mpi *mpi, const struct comm_part *part)
{
    const struct comm_mpi *parent = mpi->parent;
    const uint64_t facts[] = {parent ? parent->id : 0, parent ? parent->comm.sequence : 0,
                              part ? (uint64_t)part->first : 0};
    mpi->id = XXH3_64bits(facts, sizeof facts);
    mpi->ranks = malloc((size_t)mpi->comm.world * sizeof *mpi->ranks);
    if (!mpi->ranks)
        return err_set(ERR_MEMORY, "no memory for %d ranks", mpi->comm.world);
    for (int i = 0; i < mpi->comm.world; i++)
        mpi->ranks[i] = part ? parent->ranks[part->members[i]] : i;
    if (!parent)
        TRY(open_circle(mpi));
    comm_mpi_used(mpi);
    struct comm_mpi_circle *circle = root_of(mpi)->circle;
    pthread_mutex_lock(&circle->lock);
    mpi->next = circle->handles;
    circle->handles = mpi;
    pthread_mutex_unlock(&circle->lock);
    return ERR_NONE;
}

// True: the memory may go, as MPI sends nothing from it any more.
static bool has_sent_all(const struct comm_mpi *mpi, const struct comm_mpi_circle *circle)
{
    int done = 1;
    if (circle->requests)
        MPI_Testall(mpi->comm.world, circle->requests, &done, MPI_STATUSES_IGNORE);
    return done;
}

void comm_mpi_circle_leave(struct comm_mpi *mpi)
{
    struct comm_mpi_circle *circle = root_of(mpi)->circle;
    if (circle) {
        pthread_mutex_lock(&circle->lock);
        for (struct comm_mpi **link = &circle->handles; *link; link = &(*link)->next)
            if (*link == mpi) {
                *link = mpi->next;
                break;
            }
        pthread_mutex_unlock(&circle->lock);
    }
    free(mpi->ranks);
    if (mpi->parent || !circle || !has_sent_all(mpi, circle))
        return;
    pthread_mutex_destroy(&circle->lock);
    free(circle->requests);
    free(circle->heard);
    free(circle);
}
