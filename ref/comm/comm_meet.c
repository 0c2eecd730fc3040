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
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Limits of the spins before a thread sleeps. SPINS_MAX takes at most about 25 microseconds, the cost of a sleep and a
// wake. After a long sleep the thread halves its limit; after a short one, which more spins would have avoided, it
// takes SPINS_MAX; and where other ranks need the processor on which it spins, SPINS_MIN.
enum { SPINS_MIN = 64, SPINS_MAX = 1024, SHORT_SLEEP_NS = 50000 };

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
    if (pthread_mutex_init(&meet->lock, NULL) != 0)
        return err_set(ERR_MEMORY, "cannot create a mutex for %d ranks", world);
    meet->world = (uint32_t)world;
    // With fewer processors than ranks, a spinning thread keeps the awaited one from running.
    meet->spins_max = world <= resources_processor_count() ? SPINS_MAX : 0;
    return ERR_NONE;
}

void meet_close(struct meet *meet)
{
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
    syscall(SYS_futex, &meet->phase, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

// A failure also changes the phase, so that a thread about to sleep does not.
static void sleep_in_phase(struct meet *meet, uint32_t phase, void (*overdue)(void *context), void *context)
{
    static const struct timespec patience = {.tv_sec = 1};
    atomic_fetch_add(&meet->sleepers, 1);
    while (atomic_load(&meet->phase) == phase && !atomic_load(&meet->failed))
        if (syscall(SYS_futex, &meet->phase, FUTEX_WAIT_PRIVATE, phase, &patience, NULL, 0) != 0 && errno == ETIMEDOUT)
            overdue(context);
    atomic_fetch_sub(&meet->sleepers, 1);
}

// Returns whether the phase changed while the thread was spinning.
static bool spin_in_phase(struct meet *meet, uint32_t phase, int spins)
{
    for (int i = 0; i < spins && i < meet->spins_max; i++) {
        if (atomic_load_explicit(&meet->phase, memory_order_acquire) != phase)
            return true;
        spin_pause();
    }
    return false;
}

// Returns the next spin limit, after a sleep of this length that began on this processor.
static int next_spins(struct meet *meet, int spins, int processor, uint64_t slept_ns)
{
    if (atomic_load_explicit(&meet->last_processor, memory_order_relaxed) == processor)
        return SPINS_MIN;
    if (slept_ns < SHORT_SLEEP_NS)
        return SPINS_MAX;
    return spins / 2 > SPINS_MIN ? spins / 2 : SPINS_MIN;
}

int meet_wait(struct meet *meet, int *spins, void (*overdue)(void *context), void *context)
{
    uint32_t phase = atomic_load(&meet->phase);
    if (atomic_fetch_add(&meet->arrived, 1) + 1 == meet->world) {
        atomic_store_explicit(&meet->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&meet->last_processor, sched_getcpu(), memory_order_relaxed);
        atomic_fetch_add(&meet->phase, 1);
        if (atomic_load(&meet->sleepers) > 0)
            wake_all(meet);
    } else if (!spin_in_phase(meet, phase, *spins)) {
        int processor = sched_getcpu();
        uint64_t start_ns = clock_now_ns();
        sleep_in_phase(meet, phase, overdue, context);
        *spins = next_spins(meet, *spins, processor, clock_now_ns() - start_ns);
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
        atomic_fetch_add(&meet->phase, 1);
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
int meet_reach_begin(struct meet *meet)
{
    atomic_fetch_add(&meet->reaching, 1);
    int rc = meet_check(meet);
    if (rc != ERR_NONE)
        meet_reach_end(meet);
    return rc;
}

void meet_reach_end(struct meet *meet)
{
    uint32_t before = atomic_fetch_sub(&meet->reaching, 1);
    assert(before > 0);
    (void)before;
}

void meet_drain(struct meet *meet)
{
    while (atomic_load(&meet->reaching) > 0)
        sched_yield();
}
