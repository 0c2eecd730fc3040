// SPDX-License-Identifier: Apache-2.0
// What the stand-in for CUDA promises: work runs when somebody waits, and what is undefined ends the process.
#include "ci/standin/standin.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1000, BYTES = COUNT * sizeof(float) };

static cudaStream_t stream, other;
static float *device;      // [COUNT] on the device, fresh
static float *pinned;      // [COUNT] page-locked
static float host[COUNT];  // pageable

static void open_all(void)
{
    void *memory;
    cr_assert_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    cr_assert_eq(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    cr_assert_eq(cudaMalloc(&memory, BYTES), cudaSuccess);
    device = memory;
    cr_assert_eq(cudaHostAlloc(&memory, BYTES, cudaHostAllocPortable), cudaSuccess);
    pinned = memory;
    for (int i = 0; i < COUNT; i++)
        pinned[i] = host[i] = (float)i;
}

TestSuite(standin, .init = open_all);

static void copy(void *to, const void *from, cudaStream_t on)
{
    cr_assert_eq(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDefault, on), cudaSuccess);
}

static void wait_for(cudaStream_t awaited)
{
    cr_assert_eq(cudaStreamSynchronize(awaited), cudaSuccess);
}

static void expect_first(const float *memory, float value)
{
    cr_expect_eq(memory[7], value, "%g", (double)memory[7]);
}

Test(standin, fresh_memory_is_not_a_number)
{
    copy(host, device, stream);
    wait_for(stream);
    for (int i = 0; i < COUNT; i++)
        cr_assert(isnan(host[i]));
}

Test(standin, nothing_happens_before_a_wait)
{
    copy(device, pinned, stream);
    copy(host, device, stream);
    pinned[7] = -1;
    expect_first(host, 7);
    host[7] = -2;
    wait_for(stream);
    expect_first(host, -1);
}

Test(standin, a_copy_from_pageable_memory_has_read_it_on_return)
{
    copy(device, host, stream);
    host[7] = -1;
    copy(pinned, device, stream);
    wait_for(stream);
    expect_first(pinned, 7);
}

Test(standin, a_wait_for_a_stream_leaves_the_others)
{
    copy(device, pinned, stream);
    copy(host, device, other);
    wait_for(other);
    cr_expect(isnan(host[7]));
    wait_for(stream);
    copy(host, device, other);
    wait_for(other);
    expect_first(host, 7);
}

Test(standin, an_event_is_a_place_in_its_stream)
{
    cudaEvent_t event;
    cr_assert_eq(cudaEventCreate(&event), cudaSuccess);
    copy(device, pinned, stream);
    cr_assert_eq(cudaEventRecord(event, stream), cudaSuccess);
    cr_assert_eq(cudaMemsetAsync(device, 0, BYTES, stream), cudaSuccess);
    // The other stream waits for the copy, and not for the fill behind it.
    cr_assert_eq(cudaStreamWaitEvent(other, event, 0), cudaSuccess);
    copy(host, device, other);
    wait_for(other);
    expect_first(host, 7);
    wait_for(stream);
    copy(host, device, other);
    wait_for(other);
    expect_first(host, 0);
}

Test(standin, a_wait_for_the_device_is_one_for_all_streams)
{
    copy(device, pinned, stream);
    pinned[7] = -1;
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    pinned[7] = -2;
    copy(host, device, other);
    wait_for(other);
    expect_first(host, -1);
}

Test(standin, who_asks_again_sees_the_end)
{
    cr_assert_eq(cudaMemsetAsync(device, 0, BYTES, stream), cudaSuccess);
    cr_expect_eq(cudaStreamQuery(stream), cudaErrorNotReady);
    cr_expect_eq(cudaStreamQuery(stream), cudaSuccess);
}

Test(standin, the_time_between_events_needs_a_wait)
{
    cudaEvent_t begin, end;
    float ms;
    cr_assert_eq(cudaEventCreate(&begin), cudaSuccess);
    cr_assert_eq(cudaEventCreate(&end), cudaSuccess);
    cr_assert_eq(cudaEventRecord(begin, stream), cudaSuccess);
    cr_assert_eq(cudaEventRecord(end, stream), cudaSuccess);
    cr_expect_eq(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady);
    cr_assert_eq(cudaEventSynchronize(end), cudaSuccess);
    cr_expect_eq(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
    cr_expect_geq(ms, 0);
}

Test(standin, a_copy_of_the_wrong_kind_is_refused)
{
    cr_expect_eq(cudaMemcpyAsync(device, host, BYTES, cudaMemcpyDeviceToHost, stream), cudaErrorInvalidValue);
    cr_expect_eq(cudaMemcpyAsync(device, host, BYTES + 1, cudaMemcpyDefault, stream), cudaErrorInvalidValue);
    cr_expect_eq(cudaGetLastError(), cudaErrorInvalidValue);
    cr_expect_eq(cudaGetLastError(), cudaSuccess);
}

Test(standin, memory_is_pinned_once)
{
    cr_expect_eq(cudaHostRegister(host, BYTES, 0), cudaSuccess);
    cr_expect_eq(cudaHostRegister(host + 1, 8, 0), cudaErrorHostMemoryAlreadyRegistered);
    cr_expect_eq(cudaHostUnregister(host), cudaSuccess);
    cr_expect_eq(cudaHostUnregister(host), cudaErrorHostMemoryNotRegistered);
}

// Runs `wrong` in a process of its own, which must die of the signal.
static void expect_death(void (*wrong)(void), int signal)
{
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        wrong();
        exit(0);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == signal, "status %x", status);
}

static void touch(void)
{
    ((volatile float *)device)[7] = 0;
}

static void touch_after_work(void)
{
    copy(device, pinned, stream);
    wait_for(stream);
    touch();
}

static void use_freed_memory(void)
{
    copy(device, pinned, stream);
    cudaFree(device);
    wait_for(stream);
}

static void free_twice(void)
{
    cudaFree(device);
    cudaFree(device);
}

static void use_destroyed_stream(void)
{
    cudaStreamDestroy(stream);
    copy(device, pinned, stream);
}

static void leave_work_on_a_stream(void)
{
    copy(device, pinned, stream);
    cudaStreamDestroy(stream);
}

static void leave_work_at_the_end(void)
{
    copy(device, pinned, stream);
    exit(0);
}

Test(standin, what_is_undefined_ends_the_process)
{
    expect_death(touch, SIGSEGV);
    expect_death(touch_after_work, SIGSEGV);
    expect_death(use_freed_memory, SIGSEGV);
    expect_death(free_twice, SIGABRT);
    expect_death(use_destroyed_stream, SIGABRT);
    expect_death(leave_work_on_a_stream, SIGABRT);
    expect_death(leave_work_at_the_end, SIGABRT);
}

static cudaGraphExec_t graph_of(cudaStream_t captured)
{
    cudaGraph_t graph;
    cudaGraphExec_t made;
    cr_assert_eq(cudaStreamEndCapture(captured, &graph), cudaSuccess);
    cr_assert_eq(cudaGraphInstantiate(&made, graph, 0), cudaSuccess);
    cr_assert_eq(cudaGraphDestroy(graph), cudaSuccess);
    return made;
}

Test(standin, what_is_captured_runs_at_each_launch_of_its_graph_and_not_before)
{
    cr_assert_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    copy(device, host, stream);
    copy(pinned, device, stream);
    cudaGraphExec_t graph = graph_of(stream);
    pinned[7] = -1;
    wait_for(stream);
    expect_first(pinned, -1);
    for (int launch = 0; launch < 3; launch++) {
        cudaStream_t on = launch == 2 ? other : stream;
        host[7] = (float)(100 + launch);
        cr_expect_eq(cudaGraphLaunch(graph, on), cudaSuccess);
        pinned[7] = -1;
        wait_for(on);
        expect_first(pinned, (float)(100 + launch));
    }
    cr_expect_eq(cudaGraphExecDestroy(graph), cudaSuccess);
    cr_expect_eq(standin_graph_count(), 0);
}

static cudaError_t wait_for_captured(void)
{
    return cudaStreamSynchronize(stream);
}

static cudaError_t ask_captured(void)
{
    return cudaStreamQuery(stream);
}

static cudaError_t allocate(void)
{
    void *memory;
    return cudaMalloc(&memory, 8);
}

static cudaError_t allocate_on_host(void)
{
    void *memory;
    return cudaHostAlloc(&memory, 8, 0);
}

static cudaError_t give_back(void)
{
    return cudaFree(device);
}

static cudaError_t fill_on_default_stream(void)
{
    return cudaMemsetAsync(device, 0, 8, NULL);
}

Test(standin, what_a_capture_forbids_fails_and_spoils_it)
{
    static const struct {
        cudaError_t (*wrong)(void);
        cudaError_t status;
    } cases[] = {
        {wait_for_captured, cudaErrorStreamCaptureUnsupported},     {ask_captured, cudaErrorStreamCaptureUnsupported},
        {cudaDeviceSynchronize, cudaErrorStreamCaptureUnsupported}, {allocate, cudaErrorStreamCaptureUnsupported},
        {allocate_on_host, cudaErrorStreamCaptureUnsupported},      {give_back, cudaErrorStreamCaptureUnsupported},
        {fill_on_default_stream, cudaErrorStreamCaptureImplicit}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cudaGraph_t graph;
        cr_assert_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
        copy(device, pinned, stream);
        cr_expect_eq(cases[i].wrong(), cases[i].status, "%zu", i);
        cr_expect_eq(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated, "%zu", i);
        cr_expect_null(graph);
        copy(device, pinned, stream);
        wait_for(stream);
    }
    cudaGraph_t graph;
    cr_expect_eq(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
    cr_expect_eq(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeThreadLocal), cudaErrorStreamCaptureUnsupported);
}

static void launch_what_was_destroyed(void)
{
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    cudaGraphExec_t graph = graph_of(stream);
    cudaGraphExecDestroy(graph);
    cudaGraphLaunch(graph, stream);
}

static void leave_a_launch(void)
{
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    copy(device, pinned, stream);
    cudaGraphLaunch(graph_of(stream), stream);
    cudaStreamDestroy(stream);
}

static void destroy_what_is_captured(void)
{
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    cudaStreamDestroy(stream);
}

Test(standin, wrong_uses_of_graphs_end_the_process)
{
    expect_death(launch_what_was_destroyed, SIGABRT);
    expect_death(leave_a_launch, SIGABRT);
    expect_death(destroy_what_is_captured, SIGABRT);
}

// The neighbour of a block that was freed is still the device's alone.
Test(standin, blocks_between_freed_ones_stay_closed)
{
    void *blocks[5];
    for (int i = 0; i < 5; i++)
        cr_assert_eq(cudaMalloc(&blocks[i], i == 2 ? 5 << 20 : 5000), cudaSuccess);
    cr_assert_eq(cudaFree(blocks[1]), cudaSuccess);
    cr_assert_eq(cudaFree(blocks[3]), cudaSuccess);
    for (int i = 0; i < 5; i += 2) {
        device = blocks[i];
        copy(device, pinned, stream);
        wait_for(stream);
        expect_death(touch, SIGSEGV);
    }
}

// Sums over a block: through memory that its threads share, and by shuffles within a warp.
static unsigned shared[64], sums[64], failures;

static void thread_of_kernel(void *what)
{
    const struct standin_thread *thread = standin_thread();
    unsigned own = thread->index, sum = 0;
    shared[own] = own + thread->block;
    standin_meet_block();
    for (unsigned i = 0; i < 64; i++)
        sums[own] += shared[i];
    standin_meet_block();
    // Half a warp, whose other half does not arrive.
    uint32_t mask = own % 32 < 16 ? 0xffffu : 0xffff0000u;
    if (own % 32 >= 16 && own < 32)
        return;
    const uint64_t *values = standin_meet_warp(mask, own * own);
    for (unsigned lane = 0; lane < 32; lane++)
        sum += mask >> lane & 1 ? (unsigned)values[lane] : 0;
    unsigned first = own / 16 * 16, expected = 0;
    for (unsigned i = first; i < first + 16; i++)
        expected += i * i;
    failures += sum != expected;
    *(unsigned *)what += 1;
}

Test(standin, threads_of_a_block_meet)
{
    unsigned ended = 0;
    standin_run_kernel(3, 64, thread_of_kernel, &ended);
    cr_expect_eq(ended, 3 * 48);
    cr_expect_eq(failures, 0);
    for (unsigned i = 0; i < 64; i++)
        cr_expect_eq(sums[i], 3 * (63 * 64 / 2) + 64 * (0 + 1 + 2));
}

// Two orders of a block's threads: as they begin, and behind a barrier.
static unsigned met[128], met_count;

static void note_order(void *what)
{
    (void)what;
    met[met_count++] = standin_thread()->index;
    standin_meet_block();
    met[met_count++] = standin_thread()->index;
}

static void *run_noting(void *orders)
{
    met_count = 0;
    standin_run_kernel(1, 64, note_order, NULL);
    return memcpy(orders, met, sizeof met);
}

Test(standin, a_seed_orders_the_threads_of_a_block)
{
    unsigned orders[3][128];
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        cr_assert_eq(setenv("ZG_STANDIN_SEED", i < 2 ? "5" : "6", 1), 0);
        cr_assert_eq(pthread_create(&thread, NULL, run_noting, orders[i]), 0);
        cr_assert_eq(pthread_join(thread, NULL), 0);
    }
    cr_expect_arr_eq(orders[0], orders[1], sizeof met);
    cr_expect_arr_neq(orders[1], orders[2], sizeof met / 2);
    cr_expect_arr_neq(orders[0], orders[0] + 64, sizeof met / 2);
}

static void miss_a_lane(void *what)
{
    (void)what;
    if (standin_thread()->index > 0)
        (void)standin_meet_warp(3, 0);
}

static void run_without_a_lane(void)
{
    standin_run_kernel(1, 2, miss_a_lane, NULL);
}

Test(standin, a_lane_that_does_not_come_ends_the_process)
{
    expect_death(run_without_a_lane, SIGABRT);
}

// A file of counts has this line for a launch: how many there were, the bytes they read, the bytes they wrote.
static void expect_counted(const char *file, const char *name, unsigned launches, unsigned read, unsigned written)
{
    char expected[100], line[300], found[300] = "none";
    snprintf(expected, sizeof expected, "%u\t%u\t%u\t%s\n", launches, read, written, name);
    FILE *counts = fopen(file, "r");
    cr_assert(counts);
    while (fgets(line, sizeof line, counts))
        if (strstr(line, name))
            memcpy(found, line, sizeof found);
    fclose(counts);
    cr_expect_str_eq(found, expected);
}

static void begin_counts(void)
{
    cr_assert_eq(setenv("ZG_STANDIN_COUNTS", "/dev/null", 1), 0);
    cr_assert_eq(setenv("ZG_STANDIN_CACHE_BYTES", "256", 1), 0);
    open_all();
}

// A fill of 1,024 bytes and a copy of their last 256, which the cache has; then the first 40, which have left it.
Test(standin_count, bytes_that_a_cache_does_not_have_are_counted, .init = begin_counts)
{
    char file[] = "/tmp/standin-count-XXXXXX";
    int made = mkstemp(file);
    cr_assert(made >= 0 && close(made) == 0);
    cr_assert_eq(setenv("ZG_STANDIN_COUNTS", file, 1), 0);
    cr_assert_eq(cudaMemsetAsync(device, 0, 1024, stream), cudaSuccess);
    cr_assert_eq(cudaMemcpyAsync(host, device + 192, 256, cudaMemcpyDefault, stream), cudaSuccess);
    wait_for(stream);
    standin_count_write();
    expect_counted(file, "fill", 1, 0, 1024);
    expect_counted(file, "copy", 1, 0, 0);
    cr_assert_eq(cudaMemcpyAsync(host, device, 40, cudaMemcpyDefault, stream), cudaSuccess);
    // Its first two sectors are in the cache again, and what is written there goes to memory once.
    cr_assert_eq(cudaMemsetAsync(device, 0, 64, stream), cudaSuccess);
    cr_assert_eq(cudaMemsetAsync(device, 1, 64, stream), cudaSuccess);
    wait_for(stream);
    standin_count_write();
    expect_counted(file, "copy", 2, 64, 0);
    expect_counted(file, "fill", 3, 0, 1024 + 64);
    cr_assert_eq(unlink(file), 0);
}
