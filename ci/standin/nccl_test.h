// SPDX-License-Identifier: Apache-2.0
// For tests of the stand-in for NCCL: ranks that are threads with a device each, and what ends a process.
#pragma once

#include "ci/standin/nccl.h"

#include <criterion/criterion.h>
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

static inline ncclResult_t poll(struct rank *rank)
{
    ncclResult_t state;
    cr_assert_eq(ncclCommGetAsyncError(rank->comm, &state), ncclSuccess);
    return state;
}

static inline ncclResult_t settle(struct rank *rank)
{
    ncclResult_t state;
    while ((state = poll(rank)) == ncclInProgress)
        usleep(100);
    return state;
}

static inline void begin(struct rank *rank)
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

static inline void *run_rank(void *of)
{
    struct rank *rank = of;
    begin(rank);
    rank->body(rank);
    return NULL;
}

static inline void run_ranks(int world, void (*body)(struct rank *rank))
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

static inline void end(struct rank *rank)
{
    cr_expect_eq(ncclCommFinalize(rank->comm), ncclInProgress);
    cr_expect_eq(settle(rank), ncclSuccess);
    cr_expect_eq(ncclCommDestroy(rank->comm), ncclSuccess);
}

static inline void gather(struct rank *rank)
{
    ncclGroupStart();
    ncclAllGather(rank->send, rank->recv, BYTES, ncclInt8, rank->comm, rank->stream);
    cr_expect_eq(ncclGroupEnd(), ncclInProgress);
}

static inline float first_of(const float *memory, cudaStream_t stream)
{
    float value;
    cudaMemcpyAsync(&value, memory, sizeof value, cudaMemcpyDefault, stream);
    cudaStreamSynchronize(stream);
    return value;
}

static inline cudaGraphExec_t capture_gather(struct rank *rank)
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

// Runs `wrong` in a process of its own, which must say the words and die.
static inline void expect_words(int world, void (*wrong)(struct rank *rank), const char *words)
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
