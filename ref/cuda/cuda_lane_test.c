// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/cuda_lane.h"

#include "ref/cuda/cuda_matmul.h"
#include "base/err.h"
#include "ref/arithmetic/matmul.h"
#include "ref/cuda/isa_cuda.h"

#include <cuda_runtime_api.h>

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static bool skipped(void)
{
    const char *absent = cuda_lane_absent();
    if (absent)
        printf("TEST SKIPPED: %s\n", absent);
    return absent != NULL;
}

Test(cuda_lane, an_error_says_what_failed_and_where)
{
    cr_expect_eq(cuda_lane_error(cudaSuccess, "nothing"), ERR_NONE);
    cr_expect_eq(cuda_lane_error(cudaErrorInvalidValue, "a copy of 7 bytes"), ERR_IO);
    cr_expect(strstr(err_message(), "CUDA: a copy of 7 bytes on device 0: cudaErrorInvalidValue: "), "%s",
              err_message());
    cr_expect_eq(cuda_lane_error(cudaErrorMemoryAllocation, "\"gradients\""), ERR_MEMORY);
}

Test(cuda_lane, the_wait_returns_the_first_error_noted_and_forgets_it)
{
    cr_expect_eq(cuda_lane_note(cudaErrorMemoryAllocation, "the first"), ERR_MEMORY);
    cr_expect_eq(cuda_lane_note(cudaErrorInvalidValue, "the second"), ERR_IO);
    err_set(ERR_CHECK, "something else");
    cr_expect_eq(cuda_lane_wait(), ERR_MEMORY);
    cr_expect(strstr(err_message(), "the first"), "%s", err_message());
    cr_expect_eq(cuda_lane_wait(), ERR_NONE);
}

static void *wait_elsewhere(void *code)
{
    *(int *)code = cuda_lane_wait();
    return NULL;
}

Test(cuda_lane, an_error_is_the_threads_that_noted_it)
{
    pthread_t thread;
    int code = -1;
    cuda_lane_note(cudaErrorInvalidValue, "here");
    cr_assert_eq(pthread_create(&thread, NULL, wait_elsewhere, &code), 0);
    pthread_join(thread, NULL);
    cr_expect_eq(code, ERR_NONE);
    cr_expect_eq(cuda_lane_wait(), ERR_IO);
}

Test(cuda_lane, a_device_that_is_not_there_is_refused)
{
    int count = cuda_lane_device_count();
    cr_expect_eq(cuda_lane_use(count), ERR_USAGE);
    cr_expect(strstr(err_message(), "no CUDA device"), "%s", err_message());
    cr_expect_eq(cuda_lane_use(-1), ERR_USAGE);
}

Test(cuda_lane, without_a_device_a_stream_is_an_error_that_the_wait_returns)
{
    if (!cuda_lane_absent()) {
        printf("TEST SKIPPED: there is a CUDA device\n");
        return;
    }
    cr_expect_null(cuda_lane_stream());
    cr_expect_eq(cuda_lane_wait(), ERR_USAGE);
    cr_expect(strstr(err_message(), "no CUDA device"), "%s", err_message());
}

static void *stream_elsewhere(void *stream)
{
    *(struct CUstream_st **)stream = cuda_lane_stream();
    return NULL;
}

Test(cuda_lane, each_thread_has_a_stream_of_its_own_gpu)
{
    if (skipped())
        return;
    struct CUstream_st *mine = cuda_lane_stream(), *other = NULL;
    pthread_t thread;
    cr_assert_not_null(mine, "%s", err_message());
    cr_expect_eq(cuda_lane_stream(), mine);
    cr_assert_eq(pthread_create(&thread, NULL, stream_elsewhere, &other), 0);
    pthread_join(thread, NULL);
    cr_expect_not_null(other);
    cr_expect_neq(other, mine);
    cr_expect_eq(cuda_lane_wait(), ERR_NONE);
}

static void *multiply_elsewhere(void *code)
{
    const size_t bytes = 16 * sizeof(float);
    float ones[16], product[16] = {0};
    void *memory = NULL;
    for (int i = 0; i < 16; i++)
        ones[i] = 1;
    cr_assert_eq(cudaMalloc(&memory, 2 * bytes), cudaSuccess);
    float *there = memory;
    cr_assert_eq(cudaMemcpyAsync(there, ones, bytes, cudaMemcpyDefault, cuda_lane_stream()), cudaSuccess);
    const struct matmul_operand operand = {there, 4, false};
    const struct matmul_product squares = {
        .m = 4, .n = 4, .k = 4, .alpha = 1, .a = operand, .b = operand, .c = there + 16, .c_stride = 4};
    cuda_matmul(&squares);
    cr_assert_eq(cudaMemcpyAsync(product, there + 16, bytes, cudaMemcpyDefault, cuda_lane_stream()), cudaSuccess);
    *(int *)code = cuda_lane_wait();
    cr_expect_eq(product[15], 4);
    cr_assert_eq(cudaFree(memory), cudaSuccess);
    return NULL;
}

// The stand-in for CUDA (ci/standin) ends a process whose handle of cuBLAS ends after its stream.
Test(cuda_lane, a_handle_of_cublas_ends_before_its_stream_gpu)
{
    if (skipped())
        return;
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        int code = -1;
        cr_assert_eq(pthread_create(&thread, NULL, multiply_elsewhere, &code), 0);
        pthread_join(thread, NULL);
        cr_expect_eq(code, ERR_NONE, "%s", err_message());
    }
}

Test(cuda_lane, work_on_a_device_is_complete_when_its_thread_takes_another_gpu)
{
    static const uint32_t word = 0x01020304;
    void *memory = NULL;
    uint32_t found[256] = {0};
    int code = -1;
    if (skipped())
        return;
    if (cuda_lane_device_count() < 2) {
        printf("TEST SKIPPED: there is one CUDA device\n");
        return;
    }
    cr_assert_eq(cuda_lane_use(0), ERR_NONE);
    cr_assert_eq(cudaMalloc(&memory, sizeof found), cudaSuccess);
    cr_assert_eq(isa_cuda_fill(memory, word, 256), ERR_NONE);
    cr_assert_eq(cuda_lane_use(1), ERR_NONE, "%s", err_message());
    cr_expect_eq(cuda_lane_device(), 1);
    cr_assert_eq(cudaMemcpyAsync(found, memory, sizeof found, cudaMemcpyDefault, cuda_lane_stream()), cudaSuccess);
    cr_assert_eq(cuda_lane_wait(), ERR_NONE);
    for (int i = 0; i < 256; i++)
        cr_assert_eq(found[i], word, "word %d", i);
    multiply_elsewhere(&code);
    cr_expect_eq(code, ERR_NONE, "%s", err_message());
    cr_assert_eq(cudaFree(memory), cudaSuccess);
}
