// SPDX-License-Identifier: Apache-2.0
// ZeRO-1, P_os: optimizer state partitioning (ZeRO, section 5.1). Every rank holds all parameters and gradients, and
// 1/N_d of the optimizer states.
#include "ref/stage/stage.h"

#include "base/err.h"

// "For a DP degree of N_d, we group the optimizer states into N_d equal partitions, such that the i-th data parallel
// process only updates the optimizer states corresponding to the i-th partition."
static int zero1_open(struct stage *stage)
{
    const struct layout_rule rule = {
        .shards = comm_world(stage->setting.comm),
        .merge_layers = true,
        .bucket_elements = stage->setting.config->reduce_bucket_size,
    };
    TRY(stage_lay_out(stage, &rule));
    TRY(stage_allocate_full_params(stage));
    TRY(stage_allocate_full_gradients(stage));
    TRY(stage_allocate_optimizer(stage));
    if (stage_needs_gradient_buffers(stage))
        TRY(stage_allocate_gradient_buffers(stage));
    return stage_allocate_comm_buffers(stage, stage->setting.config->accumulation_dtype, false);
}

static int zero1_acquire(struct stage *stage, int layer, enum pass pass)
{
    if (pass == PASS_FORWARD)
        return ERR_NONE;
    return stage_open_gradients(stage, layer);
}

static int zero1_release(struct stage *stage, int layer, enum pass pass)
{
    (void)stage, (void)layer, (void)pass;
    return ERR_NONE;
}

// Micro-steps are added up where they are made. After the last one, each rank receives the sum over ranks of its own
// shard, in place: the first half of the all-reduce that data parallelism makes.
static int zero1_reduce(struct stage *stage, int layer)
{
    enum dtype dtype = stage->setting.config->accumulation_dtype;
    enum dtype communication = stage->setting.config->communication_dtype;
    int rank = comm_rank(stage->setting.comm), bucket;
    for (int next = 0; stage_next_complete(stage, layer, &next, &bucket);) {
        const struct bucket *b = &stage->layout.buckets[bucket];
        TRY(stage_keep_gradient(stage, bucket));
        if (!stage_last_micro_step(stage))
            continue;
        char *gradient = stage->full_gradients + b->offset * dtype_bytes(dtype);
        void *comm_buffer;
        TRY(stage_to_comm_buffer(stage, bucket, gradient, dtype, &comm_buffer));
        TRY(exchange_reduce_scatter(&stage->exchange, b, comm_buffer, NULL, communication));
        char *reduced_shard = (char *)comm_buffer + bucket_shard_begin(b, rank) * dtype_bytes(communication);
        TRY(stage_store_gradient(stage, bucket, reduced_shard, communication, false));
    }
    return ERR_NONE;
}

// "Thus, each data parallel process only needs to store and update 1/N_d of the total optimizer states and then only
// update 1/N_d of the parameters. We perform an all-gather across the data parallel process at the end of each
// training step to get the fully updated parameters across all data parallel process."
static int zero1_step(struct stage *stage, bool *applied)
{
    return stage_update(stage, stage_gather_full, applied);
}

const struct stage_operations zero1_stage = {
    .name = "ZeRO-1",
    .partition = "P_os",
    .open = zero1_open,
    .acquire = zero1_acquire,
    .release = zero1_release,
    .reduce = zero1_reduce,
    .step = zero1_step,
};
