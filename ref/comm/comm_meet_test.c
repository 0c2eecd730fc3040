// SPDX-License-Identifier: Apache-2.0
// The barrier of threads: nobody leaves before all have arrived, the last one wakes those who sleep, and a failure
// ends every wait.
#include "ref/comm/comm_meet.h"

#include "base/clock.h"
#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>

#include <string.h>
#include <time.h>

enum { WORLD_MOST = 11, ROUNDS = 60, QUICK_ROUNDS = 2000, HASTY_ROUNDS = 20000, LATEST_NS = 1500 };

static struct meeting {
    struct meet meet;
    int world, rounds;
    bool late;                             // one rank of each round arrives so late that the others sleep
    bool hasty;                            // ranks sleep as soon as they may, often while others arrive
    _Atomic int rounds_begun[WORLD_MOST];  // by rank
    _Atomic int early;                     // barriers left before another rank arrived
    _Atomic int unwoken;                   // sleeps that lasted although all had arrived
    _Atomic int failed;                    // waits that returned the failure
} meeting;

struct member {
    int rank, round;
    uint64_t begin_ns;  // of its round
    pthread_t thread;
};

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static bool all_began(int round)
{
    for (int rank = 0; rank < meeting.world; rank++)
        if (atomic_load(&meeting.rounds_begun[rank]) < round)
            return false;
    return true;
}

// After a second of sleep, for which the bell was silent, or was not heard when it rang. The last rank may be on its
// way to it, and gets there sooner or later.
static void overdue(void *context, const struct meet_target *target)
{
    enum { HANG_MS = 100000, UNHEARD_NS = 900000000 };
    (void)target;
    const struct member *member = context;
    uint64_t rung_ns = atomic_load(&meeting.meet.rung_ns);
    if (rung_ns >= member->begin_ns && clock_now_ns() > rung_ns + UNHEARD_NS)
        meeting.unwoken++;
    for (int ms = 0; all_began(member->round) && atomic_load(&meeting.meet.rung_ns) < member->begin_ns; ms++) {
        if (ms == HANG_MS) {
            meeting.unwoken++;
            return;
        }
        sleep_ms(1);
    }
}

static void delay_ns(uint64_t ns)
{
    uint64_t end_ns = clock_now_ns() + ns;
    while (clock_now_ns() < end_ns)
        ;
}

static int wait_for_all(struct member *self)
{
    struct meet *meet = &meeting.meet;
    meet_come(meet, self->rank, false);
    return meet_await(meet, self->rank, (struct meet_target){MEET_ALL, meet->marks[self->rank].number}, overdue, self);
}

static void *attend(void *context)
{
    struct member *self = context;
    for (self->round = 1; self->round <= meeting.rounds; self->round++) {
        if (meeting.late && self->round % meeting.world == self->rank)
            sleep_ms(2);
        if (meeting.hasty) {
            meeting.meet.marks[self->rank].patience = 0;
            delay_ns(random_at((uint64_t)self->rank, (uint64_t)self->round) % LATEST_NS);
        }
        self->begin_ns = clock_now_ns();
        atomic_store(&meeting.rounds_begun[self->rank], self->round);
        if (wait_for_all(self) != ERR_NONE) {
            meeting.failed += strcmp(err_message(), "rank 0 is gone") == 0;
            return NULL;
        }
        meeting.early += !all_began(self->round);
    }
    return NULL;
}

enum manner { QUICK, LATE, HASTY };

// Lets ranks [first, world) attend and returns when they have left.
static void hold(int world, int first, int rounds, enum manner manner)
{
    struct member members[WORLD_MOST];
    memset(&meeting, 0, sizeof meeting);
    meeting.world = world;
    meeting.rounds = rounds;
    meeting.late = manner == LATE;
    meeting.hasty = manner == HASTY;
    cr_assert_eq(meet_open(&meeting.meet, world, MEET_LINE_BYTES), ERR_NONE);
    for (int rank = first; rank < world; rank++) {
        members[rank] = (struct member){.rank = rank};
        cr_assert_eq(pthread_create(&members[rank].thread, NULL, attend, &members[rank]), 0);
    }
    if (first > 0) {
        sleep_ms(20);
        meet_fail(&meeting.meet, ERR_PEER, "rank %d is gone", 0);
    }
    for (int rank = first; rank < world; rank++)
        pthread_join(members[rank].thread, NULL);
}

static const int worlds[] = {1, 2, 3, 8, WORLD_MOST};
enum { WORLDS = sizeof worlds / sizeof *worlds };

// Nobody leaves early, and nobody sleeps on when all have arrived.
static void hold_well(int world, int rounds, enum manner manner)
{
    hold(world, 0, rounds, manner);
    cr_expect_eq(meeting.early, 0, "world %d", world);
    cr_expect_eq(meeting.unwoken, 0, "world %d", world);
    meet_close(&meeting.meet);
}

static void hold_in_all_worlds(int rounds, enum manner manner)
{
    for (int i = 0; i < WORLDS; i++)
        hold_well(worlds[i], rounds, manner);
}

Test(comm_meet, concurrent_nobody_leaves_before_all_have_come)
{
    hold_in_all_worlds(QUICK_ROUNDS, QUICK);
}

Test(comm_meet, concurrent_the_last_rank_wakes_those_who_sleep)
{
    hold_in_all_worlds(ROUNDS, LATE);
}

Test(comm_meet, concurrent_who_falls_asleep_while_others_come_is_woken)
{
    hold_well(2, HASTY_ROUNDS, HASTY);
    hold_well(3, HASTY_ROUNDS, HASTY);
}

Test(comm_meet, concurrent_a_failure_ends_every_wait)
{
    for (int i = 1; i < WORLDS; i++) {
        hold(worlds[i], 1, ROUNDS, QUICK);
        cr_expect_eq(meeting.failed, worlds[i] - 1, "world %d", worlds[i]);
        cr_expect_eq(wait_for_all(&(struct member){0}), ERR_PEER);
        cr_expect_eq(meet_reach_begin(&meeting.meet, 0), ERR_PEER);
        meet_drain(&meeting.meet);
        meet_close(&meeting.meet);
    }
}

static void *reach(void *context)
{
    _Atomic bool *ended = context;
    sleep_ms(50);
    *ended = true;
    meet_reach_end(&meeting.meet, 1);
    return NULL;
}

Test(comm_meet, concurrent_a_drain_lasts_while_a_rank_accesses_buffers_of_others)
{
    static _Atomic bool ended;
    pthread_t thread;
    cr_assert_eq(meet_open(&meeting.meet, 3, MEET_LINE_BYTES), ERR_NONE);
    cr_assert_eq(meet_reach_begin(&meeting.meet, 1), ERR_NONE);
    cr_assert_eq(pthread_create(&thread, NULL, reach, &ended), 0);
    meet_fail(&meeting.meet, ERR_PEER, "rank 0 is gone");
    meet_drain(&meeting.meet);
    cr_expect(ended);
    pthread_join(thread, NULL);
    meet_close(&meeting.meet);
}
