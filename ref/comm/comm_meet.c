// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/comm_meet.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/processor.h"
#include "base/resources.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// A waiting thread watches before it sleeps, and pays from its patience: 1 for a pause of some 25 ns, YIELD_COST for
// letting other threads run. PATIENCE_MAX takes at most about 100 microseconds of its processor, what a sleep and a
// wake cost in a virtual machine. After a long wait the thread halves its patience; after a short one, whose sleep
// watching would have avoided, it takes the maximum.
enum { PATIENCE_MIN = 128, PATIENCE_MAX = 4096, YIELD_COST = 16, SHORT_WAIT_NS = 100000 };

// With a processor for each rank a thread looks this often before it spends any patience; without, it lets others run
// as often as this although the awaited ranks have run elsewhere.
enum { LOOKS = 32 };

int meet_open(struct meet *meet, int world, size_t place_bytes)
{
    assert(world > 0 && place_bytes > 0 && place_bytes % MEET_LINE_BYTES == 0);
    size_t bytes = (size_t)world * sizeof *meet->marks;
    meet->marks = aligned_alloc(MEET_LINE_BYTES, bytes);
    meet->crowded = world > 1 && world > resources_processor_count();  // which reads files of control groups
    meet->ring = !meet->crowded ? MEET_RING : world <= MEET_RANKS_OF_LONG_RINGS ? MEET_LONG_RING : MEET_SHORT_RING;
    // calloc does not touch memory that no message needs.
    meet->memory = calloc(1, (size_t)world * meet->ring * place_bytes + MEET_LINE_BYTES);
    if (!meet->marks || !meet->memory || pthread_mutex_init(&meet->lock, NULL) != 0) {
        free(meet->marks);
        free(meet->memory);
        return err_set(ERR_MEMORY, "no memory or no mutex for %d ranks", world);
    }
    meet->places = (char *)meet->memory + -(uintptr_t)meet->memory % MEET_LINE_BYTES;
    meet->place_bytes = place_bytes;
    memset(meet->marks, 0, bytes);
    for (int rank = 0; rank < world; rank++)
        atomic_store(&meet->marks[rank].processor, -1);
    meet->world = world;
    return ERR_NONE;
}

void meet_close(struct meet *meet)
{
    free(meet->marks);
    free(meet->memory);
    pthread_mutex_destroy(&meet->lock);
}

int meet_check(struct meet *meet)
{
    if (!atomic_load(&meet->failed))
        return ERR_NONE;
    return err_set(meet->failed_code, "%s", meet->failed_message);
}

static void wake_all(struct meet *meet)
{
    atomic_store_explicit(&meet->rung_ns, clock_now_ns(), memory_order_relaxed);
    atomic_fetch_add(&meet->bell, 1);
    syscall(SYS_futex, &meet->bell, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

// Returns whether the target is reached. *first: the ranks below have arrived.
static bool is_reached(const struct meet *meet, const struct meet_target *target, int *first)
{
    if (target->peer != MEET_ALL)
        return meet_has_come(meet, target->peer, target->number);
    while (*first < meet->world && meet_has_come(meet, *first, target->number))
        ++*first;
    return *first == meet->world;
}

static bool is_over(const struct meet *meet, const struct meet_target *target, int *first)
{
    return atomic_load(&meet->failed) || is_reached(meet, target, first);
}

// A rank that arrives sees that others sleep, or they see its arrival: both write first and then read. Woken ranks
// say again that they sleep before they look again; a bell that was rung in between ends their sleep.
static void sleep_until(struct meet *meet, const struct meet_target *target, int first, meet_overdue *overdue,
                        void *context)
{
    static const struct timespec patience = {.tv_sec = 1};
    for (;;) {
        uint32_t bell = atomic_load(&meet->bell);
        if (is_over(meet, target, &first))
            break;
        atomic_store(&meet->sleepers, true);
        if (is_over(meet, target, &first))
            break;
        if (syscall(SYS_futex, &meet->bell, FUTEX_WAIT_PRIVATE, bell, &patience, NULL, 0) != 0 && errno == ETIMEDOUT)
            overdue(context, target);
    }
}

// Returns whether an awaited rank has last run on this thread's processor, where a pause keeps it from running.
static bool is_in_the_way(const struct meet *meet, const struct meet_target *target, int first)
{
    int processor = sched_getcpu();
    for (int rank = first; rank < meet->world; rank++)
        if ((target->peer == MEET_ALL || target->peer == rank) &&
            atomic_load_explicit(&meet->marks[rank].processor, memory_order_relaxed) == processor &&
            !meet_has_come(meet, rank, target->number))
            return true;
    return false;
}

// Returns whether the target was reached before the patience was spent.
static bool watch(struct meet *meet, const struct meet_target *target, int *first, int patience)
{
    for (int looks = meet->crowded ? LOOKS : 0; looks < LOOKS; looks++) {
        if (is_reached(meet, target, first))
            return true;
        processor_pause();
    }
    for (int spent = 0, looks = 1; !is_reached(meet, target, first); looks++) {
        if (spent >= patience || atomic_load(&meet->failed))
            return false;
        if (is_in_the_way(meet, target, *first) || (meet->crowded && looks % LOOKS == 0)) {
            sched_yield();
            spent += YIELD_COST;
        } else {
            processor_pause();
            spent++;
        }
    }
    return true;
}

// The arrival of the last rank counts: waking up may take longer than that.
static int next_patience(const struct meet *meet, int patience, uint64_t start_ns)
{
    uint64_t rung_ns = atomic_load_explicit(&meet->rung_ns, memory_order_relaxed);
    if (rung_ns < start_ns + SHORT_WAIT_NS)
        return PATIENCE_MAX;
    return patience / 2 > PATIENCE_MIN ? patience / 2 : PATIENCE_MIN;
}

int meet_await(struct meet *meet, int rank, struct meet_target target, meet_overdue *overdue, void *context)
{
    struct meet_mark *own = &meet->marks[rank];
    int first = 0;
    if (!watch(meet, &target, &first, own->patience)) {
        uint64_t start_ns = clock_now_ns();
        sleep_until(meet, &target, first, overdue, context);
        own->patience = next_patience(meet, own->patience, start_ns);
    }
    if (target.peer == MEET_ALL)
        own->all = target.number;
    return meet_check(meet);
}

// Where a processor has several ranks, they run in turn: a rank that is ahead waits until the others have read all, so
// that its next turn is long.
int meet_room(struct meet *meet, int rank, meet_overdue *overdue, void *context)
{
    struct meet_mark *own = &meet->marks[rank];
    uint64_t number = own->number + 1;
    int first = 0;
    if (number < own->all + meet->ring)
        return ERR_NONE;
    struct meet_target target = {MEET_ALL, number - meet->ring / 2};
    if (meet->crowded && !is_reached(meet, &target, &first))
        target.number = number - 1;
    return meet_await(meet, rank, target, overdue, context);
}

// With a processor for each rank they rarely move.
static void note_processor(struct meet_mark *own)
{
    int processor = sched_getcpu();
    if (processor != atomic_load_explicit(&own->processor, memory_order_relaxed))
        atomic_store_explicit(&own->processor, processor, memory_order_relaxed);
}

void meet_come(struct meet *meet, int rank, bool leads)
{
    struct meet_mark *own = &meet->marks[rank];
    struct meet_target all = {MEET_ALL, ++own->number};
    int first = 0;
    if (meet->crowded || all.number % MEET_RING == 1)
        note_processor(own);
    atomic_store((_Atomic uint64_t *)meet_place(meet, rank, all.number), all.number);
    if (atomic_load(&meet->sleepers) && (leads || is_reached(meet, &all, &first)) &&
        atomic_exchange(&meet->sleepers, false))
        wake_all(meet);
}

void meet_fail(struct meet *meet, int code, const char *format, ...)
{
    assert(code != ERR_NONE);
    pthread_mutex_lock(&meet->lock);
    if (!atomic_load(&meet->failed)) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(meet->failed_message, sizeof meet->failed_message, format, arguments);
        va_end(arguments);
        meet->failed_code = code;
        atomic_store(&meet->failed, true);
        wake_all(meet);
        for (struct meet *child = meet->children; child; child = child->next)
            meet_fail(child, meet->failed_code, "%s", meet->failed_message);
    }
    pthread_mutex_unlock(&meet->lock);
}

void meet_adopt(struct meet *parent, struct meet *child)
{
    pthread_mutex_lock(&parent->lock);
    child->next = parent->children;
    parent->children = child;
    if (atomic_load(&parent->failed))
        meet_fail(child, parent->failed_code, "%s", parent->failed_message);
    pthread_mutex_unlock(&parent->lock);
}

void meet_disown(struct meet *parent, struct meet *child)
{
    pthread_mutex_lock(&parent->lock);
    struct meet **link = &parent->children;
    while (*link != child)
        link = &(*link)->next;
    *link = child->next;
    pthread_mutex_unlock(&parent->lock);
}

// Sequentially consistent, like meet_fail and meet_drain: a thread that begins after a drain has ended sees the
// failure.
int meet_reach_begin(struct meet *meet, int rank)
{
    atomic_store(&meet->marks[rank].reaching, true);
    int rc = meet_check(meet);
    if (rc != ERR_NONE)
        meet_reach_end(meet, rank);
    return rc;
}

void meet_reach_end(struct meet *meet, int rank)
{
    atomic_store_explicit(&meet->marks[rank].reaching, false, memory_order_release);
}

void meet_drain(struct meet *meet)
{
    for (int rank = 0; rank < meet->world; rank++)
        while (atomic_load(&meet->marks[rank].reaching))
            sched_yield();
}
