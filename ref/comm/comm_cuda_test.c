// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads, with buffers on a GPU.
#include "ref/comm/comm_test.h"
#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/tier_cuda.h"

#include <stdint.h>

enum { COUNT = 4096, WORLD = 4, ROUNDS = 4 };

static uint32_t *take(size_t count)
{
    void *memory = NULL;
    cr_assert_eq(cuda_accelerator.allocate(count * sizeof(uint32_t), &memory), ERR_NONE, "%s", err_message());
    cr_assert_eq(accelerator_claim(&cuda_accelerator, memory, count * sizeof(uint32_t)), ERR_NONE);
    return memory;
}

static void give(void *memory)
{
    accelerator_disclaim(memory);
    cr_expect_eq(cuda_accelerator.release(memory), ERR_NONE);
}

static uint32_t word_of(uint32_t round, int rank)
{
    return 0x3f800000u + 16 * round + (uint32_t)rank;
}

// The buffer that a rank sends is still being filled when it calls the collective, and again when that returns.
static void gather_what_is_being_filled(struct rank *rank)
{
    size_t counts[WORLD], offsets[WORLD];
    static _Thread_local uint32_t found[WORLD * COUNT];
    if (cuda_accelerator.enter(0) != ERR_NONE) {
        rank_wrong(rank, "%s", err_message());
        return;
    }
    for (int i = 0; i < WORLD; i++) {
        counts[i] = COUNT;
        offsets[i] = (size_t)i * COUNT;
    }
    uint32_t *send = take(COUNT), *recv = take(WORLD * COUNT);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        cuda_accelerator.fill(send, word_of(round, rank->index), COUNT * sizeof *send);
        if (comm_all_gather(rank->comm, send, recv, counts, offsets, DTYPE_FP32) != ERR_NONE)
            rank_wrong(rank, "%s", err_message());
        cuda_accelerator.fill(send, 0xffffffffu, COUNT * sizeof *send);
        if (bytes_copy(found, recv, sizeof found) != ERR_NONE)
            rank_wrong(rank, "%s", err_message());
        for (size_t i = 0; i < WORLD * COUNT; i++)
            if (found[i] != word_of(round, (int)(i / COUNT)))
                rank_wrong(rank, "round %u, element %zu: %08x", round, i, found[i]);
    }
    if (accelerator_wait() != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    give(send);
    give(recv);
}

Test(comm_cuda, ranks_read_a_buffer_only_when_it_is_complete_gpu)
{
    const char *absent = cuda_lane_absent();
    if (absent) {
        printf("TEST SKIPPED: %s\n", absent);
        return;
    }
    ranks_run_well(WORLD, gather_what_is_being_filled, NULL);
}
