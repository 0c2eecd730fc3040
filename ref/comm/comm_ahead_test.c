// SPDX-License-Identifier: Apache-2.0
// Small messages among threads: many calls one after the other, with sizes around those at which a message leaves its
// cache line or its slot, and roots of broadcasts that return before the others have called.
#include "ref/comm/comm_meet.h"
#include "ref/comm/comm_test.h"

#include "ref/arithmetic/random.h"

#include <stdlib.h>

enum { CALLS = 400, FLOATS_MAX = 2100 };

// Floats in a rank's shard: zero, one, primes, the rest of a cache line, and the limits of a slot.
static const size_t shard_counts[] = {0, 1, 2, 3, 5, 7, 8, 9, 12, 13, 127, 128, 129, 251, 256, 257, 2047, 2048, 2049};
enum { SHARD_COUNTS = sizeof shard_counts / sizeof shard_counts[0] };

// The float that a rank sends to another at a position in a call: a small integer, so that sums are exact.
static float number(int call, int from, int to, size_t position)
{
    return (float)random_below(random_at(random_key((uint64_t)call, (uint64_t)from), (uint64_t)to << 32 | position),
                               999);
}

struct call {
    int index, root;
    size_t counts[RANKS_MAX], offsets[RANKS_MAX], total;  // of the shards
};

// All ranks draw the same call. Shards are equal, or end with a smaller one.
static struct call draw(int index, int world)
{
    uint64_t key = random_key(2024, (uint64_t)index);
    size_t shard = shard_counts[random_below(random_at(key, 0), SHARD_COUNTS)];
    struct call call = {.index = index, .root = (int)random_below(random_at(key, 1), (uint64_t)world)};
    if (random_below(random_at(key, 2), 2))
        shard /= (size_t)world;  // the whole has the size
    for (int rank = 0; rank < world; rank++) {
        call.counts[rank] = rank + 1 == world && world > 1 && random_below(random_at(key, 3), 2) ? shard / 2 : shard;
        call.offsets[rank] = call.total;
        call.total += call.counts[rank];
    }
    return call;
}

static void expect(struct rank *rank, const struct call *call, const char *what, size_t at, float got, float expected)
{
    if (got != expected)
        rank_wrong(rank, "%s, call %d of %zu floats, root %d: element %zu is %g, not %g", what, call->index,
                   call->total, call->root, at, (double)got, (double)expected);
}

static float sum(const struct call *call, int world, size_t position)
{
    float total = 0;
    for (int from = 0; from < world; from++)
        total += number(call->index, from, 0, position);
    return total;
}

static int run_sum(struct rank *rank, const struct call *call, bool scatters, float *send, float *recv)
{
    size_t first = scatters ? call->offsets[rank->index] : 0;
    size_t count = scatters ? call->counts[rank->index] : call->total;
    for (size_t i = 0; i < call->total; i++)
        send[i] = number(call->index, rank->index, 0, i);
    TRY(scatters ? comm_reduce_scatter(rank->comm, send, DTYPE_FP32, recv, DTYPE_FP32, call->counts, false)
                 : comm_all_reduce(rank->comm, send, recv, count, DTYPE_FP32, COMM_SUM));
    for (size_t i = 0; i < count; i++)
        expect(rank, call, scatters ? "reduce-scatter" : "all-reduce", i, recv[i], sum(call, rank->world, first + i));
    return ERR_NONE;
}

static int run_all_gather(struct rank *rank, const struct call *call, float *send, float *recv)
{
    for (size_t i = 0; i < call->counts[rank->index]; i++)
        send[i] = number(call->index, rank->index, 0, i);
    TRY(comm_all_gather(rank->comm, send, recv, call->counts, call->offsets, DTYPE_FP32));
    for (int from = 0; from < rank->world; from++)
        for (size_t i = 0; i < call->counts[from]; i++)
            expect(rank, call, "all-gather", call->offsets[from] + i, recv[call->offsets[from] + i],
                   number(call->index, from, 0, i));
    return ERR_NONE;
}

// A rank sends to others as much as the shards say: each receives equal parts.
static int run_all_to_all(struct rank *rank, const struct call *call, float *send, float *recv)
{
    size_t counts[RANKS_MAX], offsets[RANKS_MAX];
    for (int peer = 0; peer < rank->world; peer++) {
        counts[peer] = call->counts[rank->index];
        offsets[peer] = (size_t)peer * counts[peer];
        for (size_t i = 0; i < call->counts[peer]; i++)
            send[call->offsets[peer] + i] = number(call->index, rank->index, peer, i);
    }
    TRY(comm_all_to_all(rank->comm, send, call->counts, call->offsets, recv, counts, offsets, DTYPE_FP32));
    for (int from = 0; from < rank->world; from++)
        for (size_t i = 0; i < counts[from]; i++)
            expect(rank, call, "all-to-all", offsets[from] + i, recv[offsets[from] + i],
                   number(call->index, from, rank->index, i));
    return ERR_NONE;
}

static int run_broadcast(struct rank *rank, const struct call *call, float *buffer)
{
    for (size_t i = 0; i < call->total; i++)
        buffer[i] = number(call->index, rank->index, 0, i);
    TRY(comm_broadcast(rank->comm, buffer, call->total * sizeof *buffer, call->root));
    for (size_t i = 0; i < call->total; i++)
        expect(rank, call, "broadcast", i, buffer[i], number(call->index, call->root, 0, i));
    return ERR_NONE;
}

// Half of the calls are broadcasts. The next call writes the buffers again immediately. A rank is late at times.
static void many_calls(struct rank *rank)
{
    float *send = calloc(2 * FLOATS_MAX * RANKS_MAX, sizeof *send), *recv = send + FLOATS_MAX * RANKS_MAX;
    for (int index = 0; index < CALLS && rank->report[0] == '\0'; index++) {
        struct call call = draw(index, rank->world);
        uint64_t operation = random_below(random_at(99, (uint64_t)index), 8);
        if (random_below(random_at((uint64_t)rank->index, (uint64_t)index), 64) == 0)
            sleep_seconds(100e-6);
        int rc = operation < 2    ? run_sum(rank, &call, operation, send, recv)
                 : operation == 2 ? run_all_gather(rank, &call, send, recv)
                 : operation == 3 ? run_all_to_all(rank, &call, send, recv)
                                  : run_broadcast(rank, &call, recv);
        if (rc != ERR_NONE)
            rank_wrong(rank, "call %d: %s", index, err_message());
    }
    free(send);
}

Test(comm_ahead, concurrent_calls_of_all_sizes_and_roots_follow_each_other)
{
    for (EACH_WORLD(i))
        ranks_run_well(many_worlds[i], many_calls, NULL);
}

static void wait_until(_Atomic int *value, int wanted)
{
    for (int ms = 0; ms < HANG_S * 1000 && *value < wanted; ms++)
        sleep_seconds(1e-3);
}

// The root makes almost as many broadcasts as there are places before another rank makes one, then more of them.
static void root_ahead(struct rank *rank)
{
    enum { ALONE = MEET_RING - 1, MORE = 200 };
    _Atomic int *made = rank->context, *received = made + 1;
    int root = rank->world - 1;
    if (rank->index != root)
        wait_until(made, ALONE);
    if (*made < ALONE && rank->index != root)
        rank_wrong(rank, "the root made %d broadcasts alone", *made);
    for (int i = 0; i < ALONE + MORE; i++) {
        int message[2] = {rank->index == root ? i : -1, 3 * i};
        if (comm_broadcast(rank->comm, message, sizeof message, root) != ERR_NONE)
            rank_wrong(rank, "%s", err_message());
        if (message[0] != i)
            rank_wrong(rank, "broadcast %d brought %d", i, message[0]);
        *made += rank->index == root;
    }
    if (rank->index == root) {
        comm_close(rank->comm);
        rank->closed = true;
        return;
    }
    ++*received;
    wait_until(received, root);
    rank_keep(rank, clock_now_s(), comm_barrier(rank->comm));
}

Test(comm_ahead, concurrent_a_root_goes_on_and_may_leave_before_the_others_come)
{
    for (EACH_WORLD(i)) {
        if (many_worlds[i] == 1)
            continue;
        struct rank ranks[RANKS_MAX];
        _Atomic int counts[2] = {0};
        ranks_run(ranks, many_worlds[i], root_ahead, counts);
        for (int index = 0; index < many_worlds[i]; index++)
            cr_expect_str_empty(ranks[index].report, "world %d, rank %d: %s", many_worlds[i], index,
                                ranks[index].report);
        expect_all_failed(ranks, many_worlds[i] - 1, -1, ERR_PEER, " left while rank ");
    }
}

// Rank 0 broadcasts in the call that the context names to ranks that expect it of rank 2, as does rank 2. Nobody waits
// for rank 0.
struct other_root {
    int call, calls;
};

static void other_root(struct rank *rank)
{
    const struct other_root *other = rank->context;
    char message[8] = "";
    double start = clock_now_s();
    int rc = ERR_NONE;
    for (int i = 0; i < other->calls && rc == ERR_NONE; i++)
        rc = comm_broadcast(rank->comm, message, sizeof message, rank->index == 0 && i == other->call ? 0 : 2);
    rank_keep(rank, start, rc == ERR_NONE ? comm_barrier(rank->comm) : rc);
}

Test(comm_ahead, concurrent_a_later_call_finds_ranks_that_took_another_for_the_root)
{
    static const struct other_root trials[] = {{0, 1}, {1, 4}};
    static const char *const said[] = {
        "the ranks disagree about collective 1: rank 0 calls broadcast of 8 bytes from rank 0, rank 1 broadcast of 8 "
        "bytes from rank 2",
        "the ranks disagree about "};
    for (int i = 0; i < 2; i++) {
        struct rank ranks[3];
        ranks_run(ranks, 3, other_root, (void *)&trials[i]);
        expect_all_failed(ranks, 3, -1, ERR_INTERNAL, said[i]);
    }
}

// Another rank fails while the root is ahead: its next call, and every later one, says so.
static void fails_behind(struct rank *rank)
{
    _Atomic int *made = rank->context;
    char message[8] = "";
    int rc = ERR_NONE;
    if (rank->index == 1) {
        wait_until(made, 3);
        comm_abort(rank->comm, "no room");
    }
    double start = clock_now_s();
    for (int i = 0; i < 1000000 && rc == ERR_NONE; i++) {
        rc = comm_broadcast(rank->comm, message, sizeof message, 0);
        *made += rank->index == 0;
    }
    rank_keep(rank, start, rc);
}

Test(comm_ahead, concurrent_a_root_that_is_ahead_learns_of_a_failure)
{
    struct rank ranks[3];
    _Atomic int made = 0;
    ranks_run(ranks, 3, fails_behind, &made);
    expect_all_failed(ranks, 3, -1, ERR_PEER, "rank 1 failed: no room");
}
