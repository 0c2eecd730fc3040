// SPDX-License-Identifier: Apache-2.0
// The device tier on a GPU.
#include "ref/cuda/tier_cuda.h"

#include "ref/cuda/cuda_lane.h"
#include "base/err.h"
#include "ref/tier/tier.h"
#include "ref/tier/tier_poison.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>

enum { COUNT = 4096, BYTES = COUNT * sizeof(uint32_t) };

static uint32_t written[COUNT], found[COUNT];

static struct tier *open_device(void)
{
    const struct tier_setting setting = {.accelerator = &cuda_accelerator};
    const char *absent = cuda_lane_absent();
    struct tier *tier = NULL;
    if (absent)
        printf("TEST SKIPPED: %s\n", absent);
    else
        cr_assert_eq(tier_open(NULL, &setting, &tier), ERR_NONE, "%s", err_message());
    return tier;
}

static void *take(struct tier *tier)
{
    void *memory;
    cr_assert_eq(tier_allocate(tier, TIER_DEVICE, KIND_PARAMETER, "parameters", BYTES, 0, &memory), ERR_NONE, "%s",
                 err_message());
    return memory;
}

static void *write_elsewhere(void *memory)
{
    cr_assert_eq(cuda_accelerator.enter(0), ERR_NONE);
    cr_expect_eq(bytes_copy(memory, written, BYTES), ERR_NONE, "%s", err_message());
    return NULL;
}

Test(tier_cuda, memory_is_any_threads_as_soon_as_it_is_allocated_gpu)
{
    struct tier *tier = open_device();
    if (!tier)
        return;
    for (uint32_t i = 0; i < COUNT; i++)
        written[i] = 3 * i;
    void *memory = take(tier);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, write_elsewhere, memory), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(bytes_copy(found, memory, BYTES), ERR_NONE, "%s", err_message());
    cr_expect_arr_eq(found, written, BYTES);
    tier_close(tier);
}

Test(tier_cuda, fresh_memory_holds_the_pattern_gpu)
{
    struct tier *tier = open_device();
    if (!tier)
        return;
    void *memory = take(tier);
    cr_assert_eq(bytes_copy(found, memory, BYTES), ERR_NONE, "%s", err_message());
    cr_expect(tier_is_poison((uint8_t *)found, BYTES, (uintptr_t)memory));
    tier_close(tier);
}

// An error of work that was enqueued before is the copy's, too.
Test(tier_cuda, a_copy_to_the_host_returns_an_error_noted_before_gpu)
{
    struct tier *tier = open_device();
    if (!tier)
        return;
    void *memory = take(tier);
    cuda_lane_keep(err_set(ERR_IO, "a kernel failed"));
    cr_expect_eq(bytes_copy(found, memory, BYTES), ERR_IO);
    cr_expect_str_eq(err_message(), "a kernel failed");
    cr_expect_eq(accelerator_wait(), ERR_IO);
    cr_expect_eq(bytes_copy(found, memory, BYTES), ERR_NONE, "%s", err_message());
    tier_close(tier);
}
