// SPDX-License-Identifier: Apache-2.0
// ZeRO-2, P_os+g: optimizer states and gradients partitioned (ZeRO, section 5.2). Every rank holds all parameters, and
// 1/N_d of the gradients and of the optimizer states.
#include "ref/stage/stage.h"

#include "base/err.h"

static int zero2_open(struct stage *stage)
{
    const struct layout_rule rule = {
        .shards = comm_world(stage->setting.comm),
        .merge_layers = true,
        .bucket_elements = stage->setting.config->reduce_bucket_size,
    };
    TRY(stage_lay_out(stage, &rule));
    TRY(stage_allocate_full_params(stage));
    TRY(stage_allocate_gradient_shards(stage));
    TRY(stage_allocate_optimizer(stage));
    TRY(stage_allocate_gradient_buffers(stage));
    return stage_allocate_comm_buffers(stage, stage->setting.config->precision,
                                       !stage->setting.config->contiguous_gradients);
}

// "To make this more efficient in practice, we use a bucketization strategy, where we bucketize all the gradients
// corresponding to a particular partition, and perform reduction on the entire bucket at once."
static int zero2_acquire(struct stage *stage, int layer, enum pass pass)
{
    return pass == PASS_FORWARD ? ERR_NONE : stage_open_gradient_buffers(stage, layer);
}

static int zero2_release(struct stage *stage, int layer, enum pass pass)
{
    (void)stage, (void)layer, (void)pass;
    return ERR_NONE;
}

// "... as each gradient of each layer becomes available during the backward propagation, we only reduce them on the
// data parallel process responsible for updating the corresponding parameters. After the reduction we no longer need
// the gradients and their memory can be released."
static int zero2_reduce(struct stage *stage, int layer)
{
    int bucket;
    for (int next = 0; stage_next_complete(stage, layer, &next, &bucket);)
        TRY(stage_scatter_gradient(stage, bucket));
    return ERR_NONE;
}

// The update and the all-gather of P_os.
static int zero2_step(struct stage *stage, bool *applied)
{
    return stage_update(stage, stage_gather_full, applied);
}

const struct stage_operations zero2_stage = {
    .name = "ZeRO-2",
    .partition = "P_os+g",
    .reduces_each_micro_step = true,
    .open = zero2_open,
    .acquire = zero2_acquire,
    .release = zero2_release,
    .reduce = zero2_reduce,
    .step = zero2_step,
};
