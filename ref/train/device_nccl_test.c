// SPDX-License-Identifier: Apache-2.0
// Tests of the processes that take a GPU each: where one of them cannot, all are refused, and go on without.
#include "ref/comm/comm_test.h"
#include "ref/cuda/cuda_lane.h"
#include "ref/train/device.h"
#include "ref/cuda/tier_cuda.h"

static const struct accelerator *accelerator;

static void connect(struct rank *rank)
{
    struct train_setting setting = {.world = rank->world, .accelerator = accelerator};
    struct comm *comm = rank->comm;
    rank_keep(rank, clock_now_s(), device_connect(&setting, &comm));
    if (comm != rank->comm)
        rank_wrong(rank, "another transport");
    else if (comm_barrier(comm) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
}

Test(device_nccl, more_ranks_than_gpus_are_refused_together_and_keep_their_transport)
{
    struct rank ranks[RANKS_MAX];
    int devices = cuda_lane_device_count(), world = devices + 2;
    char what[64];
    snprintf(what, sizeof what, "%d ranks on this host, which has %d GPU", world, devices);
    if (world > RANKS_MAX) {
        puts("TEST SKIPPED: this machine has more GPUs than the test has ranks");
        return;
    }
    accelerator = &cuda_accelerator;
    ranks_run(ranks, world, connect, NULL);
    for (int i = 0; i < world; i++) {
        cr_expect_eq(ranks[i].rc, ERR_USAGE);
        cr_expect(strstr(ranks[i].message, what) || strstr(ranks[i].message, "NCCL"), "%s", ranks[i].message);
        cr_expect_str_eq(ranks[i].report, "");
    }
}

Test(device_nccl, without_an_accelerator_the_transport_stays)
{
    struct rank ranks[RANKS_MAX];
    ranks_run(ranks, 2, connect, NULL);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(ranks[i].rc, ERR_NONE);
        cr_expect_str_eq(ranks[i].report, "");
    }
}
