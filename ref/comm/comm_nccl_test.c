// SPDX-License-Identifier: Apache-2.0
// The NCCL backend over a stand-in for NCCL, with simulated GPUs (shadow_test.h). The tests cover the order and
// matching of calls, the sums, and failures of ranks and of NCCL. NCCL itself needs a GPU.
#include "ref/comm/comm_nccl.h"

#include "ref/comm/comm_case_test.h"
#include "ref/cuda/cuda_lane.h"
#include "ref/comm/nccl_standin_test.h"
#include "ref/arithmetic/shadow_test.h"
#include "ref/cuda/tier_cuda.h"

enum { ARENA_BYTES = 1 << 17, PIECE_COUNT = 1024 };

static void begin(void)
{
    make_values();
    carried = &shadow_accelerator;
}

TestSuite(comm_nccl, .init = begin, .fini = free_values);

// Begins a rank's body: its handle over NCCL takes control's place.
static struct area rank_open(struct rank *rank, const struct comm_nccl_options *options)
{
    struct comm *comm;
    struct area area = area_open(ARENA_BYTES, 0);
    if (carried->enter(0) != ERR_NONE || comm_nccl_open(rank->comm, options, &comm) != ERR_NONE)
        rank_wrong(rank, "open: %s", err_message());
    else
        rank->comm = comm;
    area_send(&area);
    return area;
}

static void rank_close(struct rank *rank, struct area *area)
{
    comm_close(rank->comm);
    rank->closed = true;
    area_return(area);
    free(area->memory);
}

struct trial {
    struct comm_nccl_options options;
    int group;
};

static void run_trial(struct rank *rank)
{
    const struct trial *trial = rank->context;
    struct area area = rank_open(rank, &trial->options);
    if (comm_set_group(rank->comm, trial->group) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    every_collective(rank);
    if (comm_barrier(rank->comm) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    rank_close(rank, &area);
}

// The stage holds one piece of each rank's that many shards exceed.
static void run_every_collective(const struct comm_nccl_calls *calls, int world, int group)
{
    struct trial trial = {{calls, (size_t)world * PIECE_COUNT * sizeof(float), 10000000000u}, group};
    reduce_values(world, group > 0 ? group : world);
    ranks_run_well(world, run_trial, &trial);
}

Test(comm_nccl, in_every_world_sends_match_receives_and_the_bytes_are_those_of_plain_loops)
{
    static const int trials[][2] = {{1, 0}, {2, 0}, {2, 2}, {3, 0}, {4, 0}, {4, 2}, {8, 0}, {8, 2}};
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        int world = trials[i][0];
        standin_begin(world);
        run_every_collective(&standin_calls, world, trials[i][1]);
        cr_expect_eq(standin.mismatches, 0, "world %d", world);
        for (int rank = 0; rank < world; rank++) {
            const struct member *member = &standin.members[rank];
            cr_expect_eq(member->groups, standin.members[0].groups, "all begin and end as many groups");
            cr_expect(world == 1 || member->groups > 100);
            cr_expect(member->destroys == 1 && member->aborts == 0);
        }
        pthread_barrier_destroy(&standin.meeting);
    }
}

static void gather_equal_shards(struct rank *rank)
{
    const struct comm_nccl_options *options = rank->context;
    struct area area = rank_open(rank, options);
    double start = clock_now_s();
    rank_keep(rank, start, comm_all_gather_equal(rank->comm, area.data_there, area.data_there + 4096, 400));
    rank_close(rank, &area);
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
    struct area area = rank_open(rank, options);
    comm_abort(rank->comm, "out of luck");
    rank_close(rank, &area);
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
    struct area area = rank_open(rank, &options);
    bool odd = rank->index == 1;
    size_t counts[RANKS_MAX], offsets[RANKS_MAX], positions[RANKS_MAX];
    for (int peer = 0; peer < rank->world; peer++) {
        counts[peer] = odd && *about == 'c' ? 9 : 10;
        offsets[peer] = 16 * (size_t)peer;
        positions[peer] = 1024 + 16 * (size_t)peer;
    }
    char *base = odd && *about == 'm' ? area.data : area.data_there;
    int rc;
    if (*about == 'p') {
        size_t back[RANKS_MAX];
        memcpy(back, counts, sizeof back);
        back[0] -= odd;
        rc = comm_all_to_all(rank->comm, base, counts, offsets, base, back, positions, DTYPE_FP32);
    } else {
        const char *send = odd && *about == 's' ? area.data : base;
        rc = comm_all_gather(rank->comm, send, base + 4096, counts, offsets, DTYPE_FP32);
    }
    rank_keep(rank, clock_now_s(), rc);
    rank_close(rank, &area);
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
Test(comm_nccl, a_world_of_one_on_nccl_itself_has_the_bytes_of_plain_loops_gpu)
{
    const char *absent = cuda_lane_absent();
    const struct comm_nccl_calls *calls;
    if (absent || comm_nccl_library(&calls) != ERR_NONE) {
        printf("TEST SKIPPED: %s\n", absent ? absent : err_message());
        return;
    }
    carried = &cuda_accelerator;
    run_every_collective(NULL, 1, 0);
}
