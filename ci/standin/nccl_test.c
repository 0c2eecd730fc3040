// SPDX-License-Identifier: Apache-2.0
// What the stand-in for NCCL promises: work runs when all ranks have enqueued it and somebody waits, and ranks that
// end, hang or fail end the waits of the others.
#include "ci/standin/nccl_test.h"

#include <math.h>

// The number of ranks that have reached a place; each test is a process of its own.
static atomic_int arrived;

static void wait_for_arrivals(int count)
{
    while (atomic_load(&arrived) < count)
        usleep(100);
}

static void launch_or_call(struct rank *rank)
{
    cudaGraphExec_t graph = capture_gather(rank);
    for (int round = 0; round < 3; round++) {
        float value = (float)(100 * round + rank->index), *last = rank->recv + (rank->world - 1) * COUNT;
        cudaMemcpyAsync(rank->send, &value, sizeof value, cudaMemcpyDefault, rank->stream);
        if (rank->index == 0 || round == 1)
            cudaGraphLaunch(graph, rank->stream);
        else
            gather(rank);
        settle(rank);
        cr_expect_eq(first_of(rank->recv, rank->stream), (float)(100 * round));
        cr_expect_eq(first_of(last, rank->stream), (float)(100 * round + rank->world - 1));
    }
    cudaGraphExecDestroy(graph);
    atomic_fetch_add(&arrived, 1);
    wait_for_arrivals(rank->world);
    end(rank);
}

Test(nccl, each_launch_of_a_graph_is_an_operation_in_its_place)
{
    run_ranks(WORLD, launch_or_call);
}

// The second question enqueues a group. Another stream shows whether it has run.
static void see_order(struct rank *rank)
{
    cudaStream_t other;
    cr_expect_eq(settle(rank), ncclSuccess);
    cr_assert_eq(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    wait_for_arrivals(rank->index);
    gather(rank);
    cr_expect_eq(poll(rank), ncclInProgress);
    cr_expect_eq(cudaStreamQuery(rank->stream), cudaSuccess, "nothing is enqueued");
    cr_expect_eq(poll(rank), ncclSuccess);
    if (rank->index < WORLD - 1)
        for (int i = 0; i < 3; i++)
            cr_expect_eq(cudaStreamQuery(rank->stream), cudaErrorNotReady, "the next rank has enqueued nothing");
    atomic_fetch_add(&arrived, 1);
    wait_for_arrivals(WORLD);
    cr_expect(isnan(first_of(rank->recv, other)), "nobody has waited");
    cudaStreamSynchronize(rank->stream);
    cr_expect_eq(first_of(rank->recv + 2 * COUNT, rank->stream), 2000.0f / 7);
    end(rank);
}

Test(nccl, work_runs_when_all_have_enqueued_it_and_somebody_waits)
{
    run_ranks(WORLD, see_order);
}

static float sums[2][WORLD][COUNT];

static void add_up(struct rank *rank)
{
    cr_expect_eq(settle(rank), ncclSuccess);
    for (int i = 0; i < 2; i++) {
        ncclGroupStart();
        ncclAllReduce(rank->send, rank->recv, COUNT, ncclFloat32, ncclSum, rank->comm, rank->stream);
        ncclGroupEnd();
        cr_expect_eq(settle(rank), ncclSuccess);
        cudaMemcpyAsync(sums[i][rank->index], rank->recv, BYTES, cudaMemcpyDefault, rank->stream);
        cudaStreamSynchronize(rank->stream);
    }
    end(rank);
}

Test(nccl, sums_have_no_order_to_rely_on)
{
    run_ranks(WORLD, add_up);
    int other_bits = 0;
    for (int i = 0; i < COUNT; i++) {
        double expected = (3000.0 + 3 * i) / 7;
        cr_expect_float_eq(sums[0][0][i], expected, 1e-6 * expected + 1e-6);
        other_bits += memcmp(&sums[0][0][i], &sums[1][0][i], sizeof sums[0][0][i]) != 0;
    }
    cr_expect_gt(other_bits, 0);
}

// Rank 1 ends while the others wait: those that ask get an error, those on a stream die.
static void leave_others(struct rank *rank)
{
    settle(rank);
    if (rank->index == 1) {
        wait_for_arrivals(WORLD - 1);
        ncclCommAbort(rank->comm);
        return;
    }
    gather(rank);
    atomic_fetch_add(&arrived, 1);
    ncclResult_t state;
    while ((state = poll(rank)) == ncclInProgress || state == ncclSuccess)
        usleep(100);
    cr_expect_eq(state, ncclRemoteError);
    ncclCommAbort(rank->comm);
    cr_expect_eq(cudaStreamSynchronize(rank->stream), cudaSuccess, "aborted work ends");
}

static void wait_for_one_that_left(struct rank *rank)
{
    settle(rank);
    if (rank->index == 1) {
        wait_for_arrivals(1);
        ncclCommAbort(rank->comm);
        return;
    }
    gather(rank);
    cr_expect_eq(settle(rank), ncclSuccess);
    atomic_fetch_add(&arrived, 1);
    cudaStreamSynchronize(rank->stream);
}

Test(nccl, a_rank_that_ends_ends_the_wait_of_the_others)
{
    expect_words(2, wait_for_one_that_left, "rank 0 waits for a stream with rank 1, which has ended");
    run_ranks(WORLD, leave_others);
}

// Rank 1 hangs in its call number 2, the operation, or 3, the group's end; rank 0 sees neither end before it aborts.
static void hang(struct rank *rank)
{
    bool enqueues = rank->index == 0 || !strcmp(getenv("ZG_STANDIN_NCCL"), "hang:2:1");
    cr_expect_eq(settle(rank), ncclSuccess);
    gather(rank);
    for (int i = 0; i < 200; i++) {
        ncclResult_t state = poll(rank);
        cr_expect_eq(state, enqueues && i > 0 ? ncclSuccess : ncclInProgress);
    }
    cr_expect_eq(cudaStreamQuery(rank->stream), enqueues ? cudaErrorNotReady : cudaSuccess);
    atomic_fetch_add(&arrived, 1);
    wait_for_arrivals(2);
    ncclCommAbort(rank->comm);
    cr_expect_eq(cudaStreamSynchronize(rank->stream), cudaSuccess);
}

static void fail(struct rank *rank)
{
    cr_expect_eq(settle(rank), ncclSuccess);
    if (rank->index == 0) {
        gather(rank);
        atomic_fetch_add(&arrived, 1);
    } else {
        wait_for_arrivals(1);
        ncclGroupStart();
        ncclAllGather(rank->send, rank->recv, BYTES, ncclInt8, rank->comm, rank->stream);
        cr_expect_eq(ncclGroupEnd(), ncclInternalError);
        cr_expect_eq(settle(rank), ncclInternalError);
    }
    ncclCommAbort(rank->comm);
    cr_expect_eq(cudaStreamSynchronize(rank->stream), cudaSuccess);
}

Test(nccl, a_rank_hangs_or_fails_in_the_call_that_the_environment_names)
{
    static const char *const injected[] = {"hang:2:1", "hang:3:1", "fail:3:1"};
    for (int i = 0; i < 3; i++) {
        setenv("ZG_STANDIN_NCCL", injected[i], 1);
        atomic_store(&arrived, 0);
        run_ranks(2, i < 2 ? hang : fail);
    }
}
