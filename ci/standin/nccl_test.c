// SPDX-License-Identifier: Apache-2.0
// What the stand-in for NCCL promises: work runs when all ranks have enqueued it and somebody waits, and what NCCL
// leaves undefined ends the process with a message that names it.
#include "ci/standin/nccl.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 500, BYTES = COUNT * sizeof(float), WORLD = 3 };

// One rank, a thread with a device of its own.
struct rank {
    int index, world;
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    float *send, *recv;  // [WORLD * COUNT] on the device
    void (*body)(struct rank *rank);
};

static ncclResult_t poll(struct rank *rank)
{
    ncclResult_t state;
    cr_assert_eq(ncclCommGetAsyncError(rank->comm, &state), ncclSuccess);
    return state;
}

static ncclResult_t settle(struct rank *rank)
{
    ncclResult_t state;
    while ((state = poll(rank)) == ncclInProgress)
        usleep(100);
    return state;
}

static void begin(struct rank *rank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    float values[WORLD * COUNT];
    for (int i = 0; i < WORLD * COUNT; i++)
        values[i] = (float)(1000 * rank->index + i) / 7;
    cr_assert_eq(cudaSetDevice(rank->index), cudaSuccess);
    cr_assert_eq(cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking), cudaSuccess);
    cr_assert_eq(cudaMalloc((void **)&rank->send, WORLD * BYTES), cudaSuccess);
    cr_assert_eq(cudaMalloc((void **)&rank->recv, WORLD * BYTES), cudaSuccess);
    cr_assert_eq(cudaMemcpyAsync(rank->send, values, sizeof values, cudaMemcpyDefault, rank->stream), cudaSuccess);
    cr_assert_eq(cudaStreamSynchronize(rank->stream), cudaSuccess);
    cr_assert_eq(ncclCommInitRankConfig(&rank->comm, rank->world, rank->id, rank->index, &config), ncclInProgress);
}

static void *run_rank(void *of)
{
    struct rank *rank = of;
    begin(rank);
    rank->body(rank);
    return NULL;
}

static void run_ranks(int world, void (*body)(struct rank *rank))
{
    struct rank ranks[WORLD] = {{0}};
    pthread_t threads[WORLD];
    ncclUniqueId id;
    setenv("ZG_STANDIN_DEVICES", "3", 1);
    cr_assert_eq(ncclGetUniqueId(&id), ncclSuccess);
    for (int i = 0; i < world; i++) {
        ranks[i] = (struct rank){.index = i, .world = world, .id = id, .body = body};
        cr_assert_eq(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < world; i++)
        pthread_join(threads[i], NULL);
}

static void end(struct rank *rank)
{
    cr_expect_eq(ncclCommFinalize(rank->comm), ncclInProgress);
    cr_expect_eq(settle(rank), ncclSuccess);
    cr_expect_eq(ncclCommDestroy(rank->comm), ncclSuccess);
}

static void gather(struct rank *rank)
{
    ncclGroupStart();
    ncclAllGather(rank->send, rank->recv, BYTES, ncclInt8, rank->comm, rank->stream);
    cr_expect_eq(ncclGroupEnd(), ncclInProgress);
}

static float first_of(const float *memory, cudaStream_t stream)
{
    float value;
    cudaMemcpyAsync(&value, memory, sizeof value, cudaMemcpyDefault, stream);
    cudaStreamSynchronize(stream);
    return value;
}

// The number of ranks that have reached a place; each test is a process of its own.
static atomic_int arrived;

static void wait_for_arrivals(int count)
{
    while (atomic_load(&arrived) < count)
        usleep(100);
}

static cudaGraphExec_t capture_gather(struct rank *rank)
{
    cudaGraph_t graph;
    cudaGraphExec_t made;
    settle(rank);
    cudaStreamBeginCapture(rank->stream, cudaStreamCaptureModeThreadLocal);
    gather(rank);
    settle(rank);
    cudaStreamEndCapture(rank->stream, &graph);
    return cudaGraphInstantiate(&made, graph, 0) + cudaGraphDestroy(graph) == cudaSuccess ? made : NULL;
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

// Runs `wrong` in a process of its own, which must say the words and die.
static void expect_words(int world, void (*wrong)(struct rank *rank), const char *words)
{
    int pipes[2], status = 0;
    char said[4096] = "";
    cr_assert_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        run_ranks(world, wrong);
        exit(0);
    }
    close(pipes[1]);
    for (size_t length = 0; length < sizeof said - 1;) {
        ssize_t more = read(pipes[0], said + length, sizeof said - 1 - length);
        if (more <= 0)
            break;
        length += (size_t)more;
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s: status %x", words, status);
    cr_expect(strstr(said, words), "expected %s: %s", words, said);
}

static void send_self(struct rank *rank, const void *from, size_t bytes, cudaStream_t stream)
{
    ncclGroupStart();
    ncclSend(from, bytes, ncclInt8, rank->index, rank->comm, stream);
}

static void call_before_it_is_ready(struct rank *rank)
{
    send_self(rank, rank->send, 1, rank->stream);
}

static void call_before_it_is_enqueued(struct rank *rank)
{
    settle(rank);
    gather(rank);
    send_self(rank, rank->send, 1, rank->stream);
}

static void call_after_finalizing(struct rank *rank)
{
    settle(rank);
    ncclCommFinalize(rank->comm);
    send_self(rank, rank->send, 1, rank->stream);
}

static void finalize_unfinished(struct rank *rank)
{
    settle(rank);
    gather(rank);
    settle(rank);
    ncclCommFinalize(rank->comm);
}

static void destroy_unfinalized(struct rank *rank)
{
    settle(rank);
    ncclCommDestroy(rank->comm);
}

static void destroy_too_early(struct rank *rank)
{
    settle(rank);
    ncclCommFinalize(rank->comm);
    ncclCommDestroy(rank->comm);
}

static void use_destroyed(struct rank *rank)
{
    settle(rank);
    end(rank);
    poll(rank);
}

static void abort_twice(struct rank *rank)
{
    ncclCommAbort(rank->comm);
    ncclCommAbort(rank->comm);
}

static void call_outside_a_group(struct rank *rank)
{
    settle(rank);
    ncclSend(rank->send, 1, ncclInt8, rank->index, rank->comm, rank->stream);
}

static void send_host_memory(struct rank *rank)
{
    char byte = 0;
    settle(rank);
    send_self(rank, &byte, 1, rank->stream);
}

static void send_too_much(struct rank *rank)
{
    settle(rank);
    send_self(rank, rank->send + 1, WORLD * BYTES, rank->stream);
}

static void use_destroyed_stream(struct rank *rank)
{
    settle(rank);
    cudaStreamDestroy(rank->stream);
    send_self(rank, rank->send, 1, rank->stream);
}

static void use_stream_of_another_device(struct rank *rank)
{
    settle(rank);
    cudaStream_t other;
    cudaSetDevice(1);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaSetDevice(0);
    send_self(rank, rank->send, 1, other);
}

static void write_what_is_sent(struct rank *rank)
{
    settle(rank);
    send_self(rank, rank->send, 8, rank->stream);
    ncclRecv(rank->send + 1, 8, ncclInt8, 0, rank->comm, rank->stream);
    ncclGroupEnd();
}

static void free_what_is_sent(struct rank *rank)
{
    settle(rank);
    gather(rank);
    settle(rank);
    cudaFree(rank->send);
    cudaStreamSynchronize(rank->stream);
}

static void leave_work(struct rank *rank)
{
    settle(rank);
    gather(rank);
    settle(rank);
    cudaStreamDestroy(rank->stream);
}

static void keep_a_graph(struct rank *rank)
{
    capture_gather(rank);
    ncclCommFinalize(rank->comm);
}

Test(nccl, what_is_undefined_ends_the_process_and_is_named)
{
    static const struct {
        void (*wrong)(struct rank *rank);
        const char *words;
    } cases[] = {
        {keep_a_graph, "is finalized before the graphs of its operations are destroyed"},
        {call_before_it_is_ready, "ncclSend of a communicator that is being initialized"},
        {call_before_it_is_enqueued, "ncclSend of a communicator that is enqueuing a group"},
        {call_after_finalizing, "ncclSend of a communicator that is being finalized"},
        {finalize_unfinished, "nobody waited for the last operations"},
        {destroy_unfinalized, "ncclCommDestroy of a communicator that is ready"},
        {destroy_too_early, "ncclCommDestroy of a communicator that is being finalized"},
        {use_destroyed, "ncclCommGetAsyncError of a communicator that is destroyed or aborted"},
        {abort_twice, "ncclCommAbort of a communicator that is destroyed or aborted"},
        {call_outside_a_group, "ncclSend outside a group"},
        {send_host_memory, "ncclSend of 1 bytes of memory that are not all the device's"},
        {send_too_much, "ncclSend of 6000 bytes of memory that are not all the device's"},
        {use_destroyed_stream, "ncclSend on a stream that was destroyed"},
        {use_stream_of_another_device, "ncclSend on another device than its communicator's"},
        {write_what_is_sent, "ncclRecv writes memory of ncclSend in its group"},
        {free_what_is_sent, "ncclAllGather cannot read its memory: was it freed?"},
        {leave_work, "nobody waited for the last 1 operations of a stream"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_words(1, cases[i].wrong, cases[i].words);
}

static void disagree_about_operations(struct rank *rank)
{
    settle(rank);
    gather(rank);
    settle(rank);
    cudaStreamSynchronize(rank->stream);
    ncclGroupStart();
    if (rank->index == 2)
        ncclBroadcast(rank->send, rank->recv, 16, ncclInt8, 0, rank->comm, rank->stream);
    else
        ncclAllGather(rank->send, rank->recv, 16, ncclInt8, rank->comm, rank->stream);
    ncclGroupEnd();
    settle(rank);
    cudaStreamSynchronize(rank->stream);
}

static void disagree_about_bytes(struct rank *rank)
{
    settle(rank);
    ncclGroupStart();
    if (rank->index == 0)
        ncclSend(rank->send, 16, ncclInt8, 1, rank->comm, rank->stream);
    else
        ncclRecv(rank->recv, 12, ncclInt8, 0, rank->comm, rank->stream);
    ncclGroupEnd();
    settle(rank);
    cudaStreamSynchronize(rank->stream);
}

Test(nccl, operations_that_differ_are_named_with_their_ranks_and_place)
{
    expect_words(WORLD, disagree_about_operations,
                 "operation 1 is on rank 0 ncclAllGather of 16 elements of 1 bytes, and on rank 2 ncclBroadcast of 16 "
                 "elements of 1 bytes with rank 0");
    expect_words(2, disagree_about_bytes, "elements of 1 bytes to rank 1");
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
