// SPDX-License-Identifier: Apache-2.0
// The ends of worlds and of their parts: whichever rank fails in whichever call, whoever hears of it when, and in
// whatever order the ranks leave, a communicator's memory lives until the last rank has left it.
#include "ref/comm/comm_hook_test.h"

#include <malloc.h>

enum { WORLD = 4, CALLS = 11 };

struct ended {
    int codes[WORLD];
    char messages[WORLD][256];
};

static int split(struct comm *comm, int step, struct comm **out)
{
    int members[WORLD], count = 0;
    for (int i = comm_rank(comm) % step; i < comm_world(comm); i += step)
        members[count++] = i;
    return comm_split(comm, members, count, out);
}

static int use(struct comm *comm)
{
    int own = comm_rank(comm), all[WORLD];
    TRY(comm_barrier(comm));
    return comm_all_gather_equal(comm, &own, all, sizeof own);
}

// CALLS collectives of a rank: in the world, in two parts of it, and in parts of a part.
static int use_all(struct comm *world, struct comm *parts[3])
{
    TRY(split(world, 2, &parts[0]));
    TRY(use(parts[0]));
    TRY(split(world, 1, &parts[1]));
    TRY(split(parts[0], 1, &parts[2]));
    TRY(use(parts[2]));
    return comm_barrier(world);
}

static void body(struct hook_rank *rank, void *context)
{
    struct ended *ended = context;
    struct comm *parts[3] = {0};
    int code = use_all(rank->world, parts);
    ended->codes[rank->index] = code;
    snprintf(ended->messages[rank->index], sizeof ended->messages[0], "%s", code == ERR_NONE ? "" : err_message());
    comm_close(parts[2]);
    comm_close(parts[1]);
    comm_close(parts[0]);
}

static void expect_ends(const struct hook *h, const struct ended *ended)
{
    for (int i = 0; i < WORLD; i++) {
        const char *expected = i == h->failing ? "injected" : "failed: injected";
        // The last call is over for those that returned from it before the failure.
        bool may_succeed = h->call == CALLS - 1 && h->moment == HOOK_BETWEEN && i != h->failing;
        cr_expect((may_succeed && ended->codes[i] == ERR_NONE) || strstr(ended->messages[i], expected),
                  "rank %d fails in call %d, late %x; rank %d: %d, \"%s\"", h->failing, h->call, h->late, i,
                  ended->codes[i], ended->messages[i]);
    }
}

static void fail_once(int failing, int call, enum hook_moment moment, unsigned late, int order)
{
    struct hook h = {.world = WORLD, .failing = failing, .call = call, .moment = moment, .late = late};
    struct ended ended = {0};
    for (int i = 0; i < WORLD; i++)
        h.order[i] = order == 0 ? i : order == 1 ? WORLD - 1 - i : (failing + order - 2 + i) % WORLD;
    hook_run_world(&h, body, &ended);
    cr_assert_eq(h.ranks[failing].calls > call, 1);
    expect_ends(&h, &ended);
}

Test(comm_ends, a_world_without_a_failure_makes_every_call_concurrent)
{
    struct hook h = {.world = WORLD, .call = HOOK_NEVER, .order = {2, 0, 3, 1}};
    struct ended ended;
    hook_run_world(&h, body, &ended);
    for (int i = 0; i < WORLD; i++) {
        cr_expect_eq(ended.codes[i], ERR_NONE, "%s", ended.messages[i]);
        cr_expect_eq(h.ranks[i].calls, CALLS);
    }
}

Test(comm_ends, a_failure_in_any_call_ends_every_rank_in_any_order_concurrent, .timeout = 300)
{
    // Freed memory is overwritten, so that its use ends the test.
    mallopt(M_PERTURB, 0x5a);
    for (int call = 0; call < CALLS; call++)
        for (int failing = 0; failing < WORLD; failing++)
            for (int order = 0; order < 4; order++) {
                fail_once(failing, call, HOOK_BEFORE, 0, order);
                for (unsigned late = 0; late < 1u << WORLD; late++)
                    fail_once(failing, call, HOOK_BETWEEN, late, order);
            }
}
