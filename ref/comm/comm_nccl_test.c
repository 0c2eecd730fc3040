// SPDX-License-Identifier: Apache-2.0
// The NCCL backend over a stand-in for NCCL, with simulated GPUs (shadow_test.h). The tests cover the order and
// matching of calls, the sums, and failures of ranks and of NCCL. NCCL itself needs a GPU.
#include "ref/comm/comm_nccl.h"

#include "ref/comm/comm_test.h"
#include "ref/cuda/cuda_lane.h"
#include "ref/comm/nccl_standin_test.h"
#include "ref/arithmetic/random.h"
#include "ref/arithmetic/shadow_test.h"
#include "ref/cuda/tier_cuda.h"

enum { ARENA_BYTES = 1 << 17, POISON = 0xa5 };

// A rank's memory on the host and on its accelerator, at the same offsets.
struct memory {
    char *here, *there, *expected;
};

static void memory_open(struct memory *memory, const struct accelerator *accelerator)
{
    void *there = NULL;
    memory->here = malloc(ARENA_BYTES);
    memory->expected = malloc(ARENA_BYTES);
    if (accelerator->enter(0) != ERR_NONE || accelerator->allocate(ARENA_BYTES, &there) != ERR_NONE ||
        accelerator_claim(accelerator, there, ARENA_BYTES) != ERR_NONE)
        abort();
    memory->there = there;
}

static void memory_close(struct memory *memory, const struct accelerator *accelerator)
{
    accelerator_disclaim(memory->there);
    accelerator->release(memory->there);
    free(memory->here);
    free(memory->expected);
}

// Whose memory NCCL carries.
static const struct accelerator *carried = &shadow_accelerator;

// Begins a rank's body: its handle over NCCL takes control's place.
static void rank_open(struct rank *rank, const struct comm_nccl_options *options, struct memory *memory)
{
    memory_open(memory, carried);
    struct comm *comm;
    if (comm_nccl_open(rank->comm, options, &comm) != ERR_NONE)
        rank_wrong(rank, "open: %s", err_message());
    else
        rank->comm = comm;
}

static void rank_close(struct rank *rank, struct memory *memory)
{
    comm_close(rank->comm);
    rank->closed = true;
    memory_close(memory, carried);
}

static const int worlds[] = {1, 2, 3, 4, 8};
enum { WORLDS = sizeof worlds / sizeof *worlds, PATTERNS = 4, OPERATIONS = 9 };

static size_t pattern_count(int pattern, int rank)
{
    static const size_t counts[PATTERNS][3] = {{64, 64, 64}, {0, 257, 31}, {1009, 0, 1}, {0, 0, 700}};
    return counts[pattern][rank % 3];
}

// A case: one collective with one format and one pattern of counts.
struct collective {
    int operation, pattern;
    enum dtype dtype;
};

static int call_collective(struct comm *comm, const struct collective *c, char *base)
{
    int world = comm_world(comm), rank = comm_rank(comm);
    size_t counts[world], offsets[world], back[world], positions[world], total = 0, element = dtype_bytes(c->dtype);
    for (int peer = 0; peer < world; peer++) {
        counts[peer] = pattern_count(c->pattern, peer);
        offsets[peer] = total;
        total += counts[peer];
    }
    char *send = base + 256, *recv = base + ARENA_BYTES / 2;
    switch (c->operation) {
    case 0:
        return comm_reduce_scatter(comm, send, c->dtype, recv, DTYPE_FP32, counts, false);
    case 1:
        return comm_reduce_scatter(comm, send, c->dtype, recv, c->dtype, counts, true);
    case 2:  // in place
        return comm_reduce_scatter(comm, send, c->dtype, send + offsets[rank] * element, c->dtype, counts, false);
    case 3:
        return comm_all_gather(comm, send, recv, counts, offsets, c->dtype);
    case 4:  // in place
        return comm_all_gather(comm, recv + offsets[rank] * element, recv, counts, offsets, c->dtype);
    case 5:
        return comm_all_reduce(comm, send, recv, total, c->dtype, COMM_SUM);
    case 6:  // in place
        return comm_all_reduce(comm, send, send, total, c->dtype, COMM_SUM);
    case 7:
        return comm_barrier(comm);
    default:
        break;
    }
    // The count depends on both the sending and the receiving rank.
    size_t sent = 0, received = 0;
    for (int peer = 0; peer < world; peer++) {
        counts[peer] = pattern_count(c->pattern, rank + 2 * peer);
        offsets[peer] = sent;
        sent += counts[peer] + 3;
        back[peer] = pattern_count(c->pattern, peer + 2 * rank);
        positions[peer] = received;
        received += back[peer] + 5;
    }
    int rc = comm_all_to_all(comm, send, counts, offsets, recv, back, positions, c->dtype);
    return rc != ERR_NONE ? rc : comm_broadcast(comm, send, 1001, world / 2);
}

static void fill(char *memory, enum dtype dtype, uint64_t key)
{
    memset(memory, POISON, ARENA_BYTES);
    float value;
    for (size_t i = 0; i < ARENA_BYTES / 8 / dtype_bytes(dtype); i++)
        for (int half = 0; half < 2; half++) {
            value = random_normal(random_at(key + (uint64_t)half, i));
            size_t at = (half ? ARENA_BYTES / 2 : 256) + i * dtype_bytes(dtype);
            dtype_narrow(dtype, &value, memory + at, 1);
        }
}

// Makes the same call on host memory, through control, and on the accelerator's memory, through NCCL.
static void run_all_collectives(struct rank *rank)
{
    // A stage this small holds one piece of 64 elements of each rank's: most shards are cut.
    const struct comm_nccl_options options = {rank->context, (size_t)rank->world * 64 * sizeof(float), 10000000000u};
    struct memory memory;
    rank_open(rank, &options, &memory);
    for (int i = 0; i < OPERATIONS * PATTERNS * 3 && !rank->report[0]; i++) {
        const struct collective c = {i % OPERATIONS, i / OPERATIONS % PATTERNS,
                                     (enum dtype)(i / OPERATIONS / PATTERNS)};
        fill(memory.here, c.dtype, random_key((uint64_t)i, (uint64_t)rank->index));
        // Every second call in hierarchical order, where the world has it.
        if (comm_set_group(rank->comm, i % 2 && rank->world % 2 == 0 ? 2 : 0) != ERR_NONE ||
            bytes_copy(memory.there, memory.here, ARENA_BYTES) != ERR_NONE ||
            call_collective(rank->comm, &c, memory.here) != ERR_NONE ||
            call_collective(rank->comm, &c, memory.there) != ERR_NONE ||
            bytes_copy(memory.expected, memory.there, ARENA_BYTES) != ERR_NONE)
            rank_wrong(rank, "collective %d: %s", i, err_message());
        else if (memcmp(memory.here, memory.expected, ARENA_BYTES) != 0)
            rank_wrong(rank, "operation %d of %s, pattern %d: other bytes", c.operation, dtype_name(c.dtype),
                       c.pattern);
    }
    rank_close(rank, &memory);
}

Test(comm_nccl, in_every_world_sends_match_receives_and_the_bytes_are_those_of_threads)
{
    for (int w = 0; w < WORLDS; w++) {
        standin_begin(worlds[w]);
        ranks_run_well(worlds[w], run_all_collectives, (void *)&standin_calls);
        cr_expect_eq(standin.mismatches, 0, "world %d", worlds[w]);
        for (int rank = 0; rank < worlds[w]; rank++) {
            const struct member *member = &standin.members[rank];
            cr_expect_eq(member->groups, standin.members[0].groups, "all begin and end as many groups");
            cr_expect(worlds[w] == 1 || member->groups > 100);
            cr_expect(member->destroys == 1 && member->aborts == 0);
        }
        pthread_barrier_destroy(&standin.meeting);
    }
}

static void gather_equal_shards(struct rank *rank)
{
    const struct comm_nccl_options *options = rank->context;
    struct memory memory;
    rank_open(rank, options, &memory);
    size_t counts[RANKS_MAX], offsets[RANKS_MAX];
    for (int peer = 0; peer < rank->world; peer++) {
        counts[peer] = 100;
        offsets[peer] = 100 * (size_t)peer;
    }
    double start = clock_now_s();
    rank_keep(rank, start, comm_all_gather(rank->comm, memory.there, memory.there + 4096, counts, offsets, DTYPE_FP32));
    rank_close(rank, &memory);
}

Test(comm_nccl, a_rank_names_the_next_places_in_turn_and_the_previous_ones)
{
    struct comm_nccl_options options = {&standin_calls, 1 << 16, 10000000000u};
    standin_begin(4);
    ranks_run_well(4, gather_equal_shards, &options);
    static const struct {
        enum kind kind;
        int peer;
    } expected[] = {{KIND_SEND, 2}, {KIND_RECV, 0}, {KIND_SEND, 3}, {KIND_RECV, 3}, {KIND_SEND, 0}, {KIND_RECV, 2}};
    const struct member *member = &standin.members[1];
    cr_assert_eq(member->call_count, 6);
    for (int i = 0; i < 6; i++) {
        cr_expect_eq(member->calls[i].kind, expected[i].kind, "call %d", i);
        cr_expect_eq(member->calls[i].peer, expected[i].peer, "call %d", i);
        cr_expect_eq(member->calls[i].count, 400);
    }
}

Test(comm_nccl, what_never_ends_is_an_error_after_the_limit_and_is_aborted)
{
    struct comm_nccl_options options = {&standin_calls, 1 << 16, 50000000u};
    struct rank ranks[RANKS_MAX];
    standin_begin(2);
    standin.hangs = true;
    ranks_run(ranks, 2, gather_equal_shards, &options);
    expect_all_failed(ranks, 2, -1, ERR_PEER, "collective timed out after 0.05 s");
    for (int rank = 0; rank < 2; rank++)
        cr_expect(standin.members[rank].aborts == 1 && standin.members[rank].destroys == 0);
}

Test(comm_nccl, a_rank_whose_nccl_fails_is_named_by_all_and_none_waits_for_it)
{
    struct comm_nccl_options options = {&standin_calls, 1 << 16, 60000000000u};
    struct rank ranks[RANKS_MAX];
    standin_begin(3);
    standin.hangs = true;
    standin.failing_rank = 2;
    ranks_run(ranks, 3, gather_equal_shards, &options);
    expect_all_failed(ranks, 3, -1, ERR_PEER, "remote error");
    expect_all_failed(ranks, 3, 2, ERR_PEER, "rank 2 failed");
    for (int rank = 0; rank < 3; rank++)
        cr_expect_eq(standin.members[rank].aborts, 1);
}

// Rank 1 fails for a reason of its own while the others are in NCCL.
static void gather_or_fail(struct rank *rank)
{
    const struct comm_nccl_options *options = rank->context;
    if (rank->index != 1) {
        gather_equal_shards(rank);
        return;
    }
    struct memory memory;
    rank_open(rank, options, &memory);
    comm_abort(rank->comm, "out of luck");
    rank_close(rank, &memory);
}

Test(comm_nccl, a_rank_that_fails_elsewhere_ends_the_wait_of_the_others_with_its_message)
{
    struct comm_nccl_options options = {&standin_calls, 1 << 16, 60000000000u};
    struct rank ranks[RANKS_MAX];
    standin_begin(3);
    standin.hangs = true;
    ranks_run(ranks, 3, gather_or_fail, &options);
    expect_all_failed(ranks, 3, 1, ERR_PEER, "rank 1 failed: out of luck");
}

// Rank 1 disagrees, as the context names: about a count, about a pair, about the location of its memory, or about that
// of its send buffer.
static void disagree(struct rank *rank)
{
    const struct comm_nccl_options options = {&standin_calls, 1 << 16, 10000000000u};
    const char *about = rank->context;
    struct memory memory;
    rank_open(rank, &options, &memory);
    bool odd = rank->index == 1;
    size_t counts[RANKS_MAX], offsets[RANKS_MAX], positions[RANKS_MAX];
    for (int peer = 0; peer < rank->world; peer++) {
        counts[peer] = odd && *about == 'c' ? 9 : 10;
        offsets[peer] = 16 * (size_t)peer;
        positions[peer] = 1024 + 16 * (size_t)peer;
    }
    char *base = odd && *about == 'm' ? memory.here : memory.there;
    int rc;
    if (*about == 'p') {
        size_t back[RANKS_MAX];
        memcpy(back, counts, sizeof back);
        back[0] -= odd;
        rc = comm_all_to_all(rank->comm, base, counts, offsets, base, back, positions, DTYPE_FP32);
    } else {
        const char *send = odd && *about == 's' ? memory.here : base;
        rc = comm_all_gather(rank->comm, send, base + 4096, counts, offsets, DTYPE_FP32);
    }
    rank_keep(rank, clock_now_s(), rc);
    rank_close(rank, &memory);
}

Test(comm_nccl, ranks_that_disagree_are_told_so_before_anything_moves)
{
    static const char *const about[] = {"count", "pair", "memory", "send"};
    static const char *const said[] = {"disagree", "disagree", "disagree", "one buffer lies on the accelerator"};
    for (int i = 0; i < 4; i++) {
        struct rank ranks[RANKS_MAX];
        standin_begin(3);
        ranks_run(ranks, 3, disagree, (void *)about[i]);
        for (int rank = 0; rank < 3; rank++) {
            cr_expect_neq(ranks[rank].rc, ERR_NONE, "%s, rank %d", about[i], rank);
            cr_expect(strstr(ranks[rank].message, said[i]), "%s, rank %d: %s", about[i], rank, ranks[rank].message);
            cr_expect_eq(standin.members[rank].groups, 0);
        }
    }
}

Test(comm_nccl, a_stage_too_small_for_the_world_is_refused)
{
    struct comm_nccl nccl = {.comm = {.world = 2}, .options = {.stage_bytes = 256}};
    struct comm_call call = {
        .operation = COMM_REDUCE_SCATTER, .count = 2, .counts = (size_t[]){1, 1}, .offsets = (size_t[]){0, 1}};
    cr_expect_eq(comm_nccl_move(&nccl, &call), ERR_USAGE);
    cr_expect(strstr(err_message(), "a stage of 256 bytes for 2 ranks"), "%s", err_message());
}

Test(comm_nccl, the_library_is_found_or_its_absence_has_a_reason)
{
    const struct comm_nccl_calls *calls;
    if (comm_nccl_library(&calls) != ERR_NONE) {
        cr_expect(strstr(err_message(), "NCCL"), "%s", err_message());
        printf("TEST SKIPPED: %s\n", err_message());
        return;
    }
    cr_expect(calls->send && calls->abort && calls->init);
    cr_expect_str_eq(calls->text(ncclSuccess), "no error");
}

// One rank: what a machine with one GPU can show of NCCL itself.
Test(comm_nccl, a_world_of_one_on_nccl_itself_has_the_bytes_of_threads_gpu)
{
    const char *absent = cuda_lane_absent();
    const struct comm_nccl_calls *calls;
    if (absent || comm_nccl_library(&calls) != ERR_NONE) {
        printf("TEST SKIPPED: %s\n", absent ? absent : err_message());
        return;
    }
    carried = &cuda_accelerator;
    ranks_run_well(1, run_all_collectives, NULL);
}
