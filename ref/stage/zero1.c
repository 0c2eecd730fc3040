// SPDX-License-Identifier: Apache-2.0
// ZeRO-1, P_os: optimizer state partitioning (ZeRO, section 5.1). Every rank holds all parameters and gradients, and
// 1/N_d of the optimizer states.
#include "ref/stage/stage_internal.h"

#include "base/err.h"

// "For a DP degree of N_d, we group the optimizer states into N_d equal partitions, such that the i-th data parallel
// process only updates the optimizer states corresponding to the i-th partition."
static int zero1_open(struct stage *stage)
{
    TRY(stage_open_full_params(stage, stage_ranks(stage)));
    TRY(stage_allocate_full_gradients(stage));
    TRY(stage_allocate_optimizer(stage));
    return stage_allocate_gradient_buffers(stage);
}

// Each rank receives the sum over ranks of its own shard, in place: the first half of data parallelism's all-reduce.
static int zero1_reduce(struct stage *stage, int bucket)
{
    const struct exchange *exchange = stage_exchange(stage, bucket);
    struct gradient gradient = stage_full_gradient(stage, bucket);
    TRY(exchange->verbs->reduce_scatter(exchange, bucket, &gradient, stage_gradient_goal(stage, bucket)));
    return stage_store_gradient(stage, bucket, gradient);
}

const struct stage_operations zero1_stage = {
    .name = "ZeRO-1",
    .partition = "P_os",
    .open = zero1_open,
    .reduce = zero1_reduce,
    // The second half: "Thus, each data parallel process only needs to store and update 1/N_d of the total optimizer
    // states and then only update 1/N_d of the parameters. We perform an all-gather across the data parallel process at
    // the end of each training step to get the fully updated parameters across all data parallel process."
    // Both are in stage_update.c, Adam itself is in ref/optimizer/sub_group.c.
    .step = stage_update,
    .publish = stage_gather_full,
};
