// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/comm_meet.h"

#include "base/clock.h"
#include "base/err.h"
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

static void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int meet_open(struct meet *meet, int world)
{
    assert(world > 0);
    size_t bytes = (size_t)world * sizeof *meet->marks;
    meet->marks = aligned_alloc(MEET_LINE_BYTES, bytes);
    if (!meet->marks || pthread_mutex_init(&meet->lock, NULL) != 0) {
        free(meet->marks);
        return err_set(ERR_MEMORY, "no memory or no mutex for %d ranks", world);
    }
    memset(meet->marks, 0, bytes);
    for (int rank = 0; rank < world; rank++)
        atomic_store(&meet->marks[rank].processor, -1);
    meet->world = world;
    meet->crowded = world > resources_processor_count();
    return ERR_NONE;
}

void meet_close(struct meet *meet)
{
    free(meet->marks);
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

// Returns whether all ranks have come. *first: those below have come.
static bool all_came(const struct meet *meet, uint64_t barrier, int *first)
{
    while (*first < meet->world && atomic_load(&meet->marks[*first].came) >= barrier)
        ++*first;
    return *first == meet->world;
}

// The thread that comes last sees that others sleep, or they see that it has come: both write first and then read.
static void sleep_until(struct meet *meet, uint64_t barrier, int first, void (*overdue)(void *context), void *context)
{
    static const struct timespec patience = {.tv_sec = 1};
    atomic_fetch_add(&meet->sleepers, 1);
    for (;;) {
        uint32_t bell = atomic_load(&meet->bell);
        if (atomic_load(&meet->failed) || all_came(meet, barrier, &first))
            break;
        if (syscall(SYS_futex, &meet->bell, FUTEX_WAIT_PRIVATE, bell, &patience, NULL, 0) != 0 && errno == ETIMEDOUT)
            overdue(context);
    }
    atomic_fetch_sub(&meet->sleepers, 1);
}

// Returns whether an awaited rank has last run on this thread's processor, where a pause keeps it from running.
static bool is_in_the_way(const struct meet *meet, uint64_t barrier, int first)
{
    int processor = sched_getcpu();
    for (int rank = first; rank < meet->world; rank++)
        if (atomic_load_explicit(&meet->marks[rank].processor, memory_order_relaxed) == processor &&
            atomic_load(&meet->marks[rank].came) < barrier)
            return true;
    return false;
}

// Returns whether all came before the patience was spent.
static bool watch(struct meet *meet, uint64_t barrier, int *first, int patience)
{
    for (int looks = meet->crowded ? LOOKS : 0; looks < LOOKS; looks++)
        if (all_came(meet, barrier, first))
            return true;
    for (int spent = 0, looks = 1; !all_came(meet, barrier, first); looks++) {
        if (spent >= patience || atomic_load(&meet->failed))
            return false;
        if (is_in_the_way(meet, barrier, *first) || (meet->crowded && looks % LOOKS == 0)) {
            sched_yield();
            spent += YIELD_COST;
        } else {
            spin_pause();
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

int meet_wait(struct meet *meet, int rank, void (*overdue)(void *context), void *context)
{
    struct meet_mark *own = &meet->marks[rank];
    uint64_t barrier = atomic_load_explicit(&own->came, memory_order_relaxed) + 1;
    int first = 0;
    atomic_store_explicit(&own->processor, sched_getcpu(), memory_order_relaxed);
    atomic_store(&own->came, barrier);
    if (atomic_load(&meet->sleepers) > 0 && all_came(meet, barrier, &first))
        wake_all(meet);
    else if (!watch(meet, barrier, &first, own->patience)) {
        uint64_t start_ns = clock_now_ns();
        sleep_until(meet, barrier, first, overdue, context);
        own->patience = next_patience(meet, own->patience, start_ns);
    }
    return meet_check(meet);
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
