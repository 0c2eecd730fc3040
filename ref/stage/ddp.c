// SPDX-License-Identifier: Apache-2.0
// Data parallelism, the baseline that ZeRO is measured against (ZeRO, section 7.1). Every rank holds everything:
// parameters, gradients and optimizer states.
#include "ref/stage/stage.h"

#include "base/err.h"

static int ddp_open(struct stage *stage)
{
    const struct layout_rule rule = {
        .shards = 1,
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

static int ddp_acquire(struct stage *stage, int layer, enum pass pass)
{
    // The parameters are here. Gradients are made where they stay, or in a gradient buffer if micro-steps are added up.
    if (pass == PASS_FORWARD)
        return ERR_NONE;
    return stage_open_gradients(stage, layer);
}

static int ddp_release(struct stage *stage, int layer, enum pass pass)
{
    (void)stage, (void)layer, (void)pass;
    return ERR_NONE;
}

// "During data parallel training, gradients across all data parallel processes are averaged at the end of the backward
// propagation before computing the updates for the next step. The averaging is performed using an all-reduce
// communication collective."
static int ddp_reduce(struct stage *stage, int layer)
{
    enum dtype dtype = stage->setting.config->accumulation_dtype;
    enum dtype communication = stage->setting.config->communication_dtype;
    int bucket;
    for (int next = 0; stage_next_complete(stage, layer, &next, &bucket);) {
        const struct bucket *b = &stage->layout.buckets[bucket];
        TRY(stage_keep_gradient(stage, bucket));
        if (!stage_last_micro_step(stage))
            continue;
        char *gradient = stage->full_gradients + b->offset * dtype_bytes(dtype);
        void *comm_buffer;
        TRY(stage_to_comm_buffer(stage, bucket, gradient, dtype, &comm_buffer));
        TRY(exchange_all_reduce(&stage->exchange, b, comm_buffer, communication));
        if (comm_buffer != gradient)
            TRY(move_cast(&stage->move, TIER_DEVICE, comm_buffer, communication, gradient, dtype, b->count, false));
    }
    return ERR_NONE;
}

static int ddp_step(struct stage *stage, bool *applied)
{
    return stage_update(stage, NULL, applied);
}

const struct stage_operations ddp_stage = {
    .name = "DDP",
    .partition = "none",
    .replicates_update = true,
    .open = ddp_open,
    .acquire = ddp_acquire,
    .release = ddp_release,
    .reduce = ddp_reduce,
    .step = ddp_step,
};
