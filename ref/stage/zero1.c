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
        .shares = comm_world(stage->setting.comm),
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

static int zero1_acquire(struct stage *stage, int unit, enum pass pass)
{
    if (pass == PASS_FORWARD)
        return ERR_NONE;
    return stage_open_gradients(stage, unit);
}

static int zero1_release(struct stage *stage, int unit, enum pass pass)
{
    (void)stage, (void)unit, (void)pass;
    return ERR_NONE;
}

// Micro-steps are added up where they are made. After the last one, each rank receives the sum over ranks of its own
// share, in place: the first half of the all-reduce that data parallelism makes.
static int zero1_reduce(struct stage *stage, int unit)
{
    enum dtype dtype = stage->setting.config->accumulation_dtype;
    enum dtype communication = stage->setting.config->communication_dtype;
    int rank = comm_rank(stage->setting.comm), bundle;
    for (int next = 0; stage_next_complete(stage, unit, &next, &bundle);) {
        const struct bundle *b = &stage->layout.bundles[bundle];
        TRY(stage_keep_gradient(stage, bundle));
        if (!stage_last_micro_step(stage))
            continue;
        char *gradient = stage->gradients_whole + b->offset * dtype_bytes(dtype);
        void *wire;
        TRY(stage_to_wire(stage, bundle, gradient, dtype, &wire));
        TRY(exchange_reduce_scatter(&stage->exchange, b, wire, NULL, communication));
        char *own = (char *)wire + bundle_share_begin(b, rank) * dtype_bytes(communication);
        TRY(stage_store_gradient(stage, bundle, own, communication, false));
    }
    return ERR_NONE;
}

// "Thus, each data parallel process only needs to store and update 1/N_d of the total optimizer states and then only
// update 1/N_d of the parameters. We perform an all-gather across the data parallel process at the end of each
// training step to get the fully updated parameters across all data parallel process."
static int zero1_step(struct stage *stage, bool *applied)
{
    return stage_update(stage, stage_gather_whole, applied);
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
