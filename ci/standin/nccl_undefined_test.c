// SPDX-License-Identifier: Apache-2.0
// What NCCL leaves undefined ends the process with a message that names it.
#include "ci/standin/nccl_test.h"

static void send_self(struct rank *rank, const void *from, size_t bytes, cudaStream_t stream)
{
    ncclGroupStart();
    ncclSend(from, bytes, ncclInt8, rank->index, rank->comm, stream);
}

static void gather_enqueued(struct rank *rank)
{
    settle(rank);
    gather(rank);
    settle(rank);
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
    gather_enqueued(rank);
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
    gather_enqueued(rank);
    cudaFree(rank->send);
    cudaStreamSynchronize(rank->stream);
}

static void leave_work(struct rank *rank)
{
    gather_enqueued(rank);
    cudaStreamDestroy(rank->stream);
}

static void keep_a_graph(struct rank *rank)
{
    capture_gather(rank);
    ncclCommFinalize(rank->comm);
}

Test(nccl_undefined, what_is_undefined_ends_the_process_and_is_named)
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
    gather_enqueued(rank);
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

static void disagree_about_reductions(struct rank *rank)
{
    settle(rank);
    ncclGroupStart();
    ncclAllReduce(rank->send, rank->recv, 16, ncclInt32, rank->index == 0 ? ncclMin : ncclMax, rank->comm,
                  rank->stream);
    ncclGroupEnd();
    settle(rank);
    cudaStreamSynchronize(rank->stream);
}

Test(nccl_undefined, operations_that_differ_are_named_with_their_ranks_and_place)
{
    expect_words(WORLD, disagree_about_operations,
                 "operation 1 is on rank 0 ncclAllGather of 16 elements of 1 bytes, and on rank 2 ncclBroadcast of 16 "
                 "elements of 1 bytes with rank 0");
    expect_words(2, disagree_about_bytes, "elements of 1 bytes to rank 1");
    expect_words(2, disagree_about_reductions,
                 "4 bytes, type 2 by 3, and on rank 1 ncclAllReduce of 16 elements of 4 ");
}
