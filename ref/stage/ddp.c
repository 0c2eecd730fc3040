// SPDX-License-Identifier: Apache-2.0
// Data parallelism, the baseline that ZeRO is measured against (ZeRO, section 7.1). Every rank holds everything:
// parameters, gradients and optimizer states.
#include "ref/stage/stage.h"

#include "base/err.h"

static int ddp_open(struct stage *stage)
{
    const struct layout_rule rule = {
        .shares = 1,
        .merge_units = true,
        .bucket_count = stage->setting.config->reduce_bucket_size,
    };
    TRY(stage_lay_out(stage, &rule));
    TRY(stage_allocate_whole_params(stage));
    TRY(stage_allocate_whole_gradients(stage));
    TRY(stage_allocate_optimizer(stage));
    if (stage_needs_buckets(stage))
        TRY(stage_allocate_buckets(stage));
    return stage_allocate_wire(stage, stage->setting.config->accumulation_dtype, false);
}

static int ddp_acquire(struct stage *stage, int unit, enum pass pass)
{
    // The parameters are here. Gradients are made where they stay, or in a bucket if micro-steps are added up.
    if (pass == PASS_FORWARD)
        return ERR_NONE;
    return stage_open_gradients(stage, unit);
}

static int ddp_release(struct stage *stage, int unit, enum pass pass)
{
    (void)stage, (void)unit, (void)pass;
    return ERR_NONE;
}

// "During data parallel training, gradients across all data parallel processes are averaged at the end of the backward
// propagation before computing the updates for the next step. The averaging is performed using an all-reduce
// communication collective."
static int ddp_reduce(struct stage *stage, int unit)
{
    enum dtype dtype = stage->setting.config->accumulation_dtype;
    enum dtype communication = stage->setting.config->communication_dtype;
    int bundle;
    for (int next = 0; stage_next_complete(stage, unit, &next, &bundle);) {
        const struct bundle *b = &stage->layout.bundles[bundle];
        TRY(stage_keep_gradient(stage, bundle));
        if (!stage_last_micro_step(stage))
            continue;
        char *gradient = stage->gradients_whole + b->offset * dtype_bytes(dtype);
        void *wire;
        TRY(stage_to_wire(stage, bundle, gradient, dtype, &wire));
        TRY(exchange_all_reduce(&stage->exchange, b, wire, communication));
        if (wire != gradient)
            TRY(move_cast(&stage->move, TIER_DEVICE, wire, communication, gradient, dtype, b->count, false));
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
