// SPDX-License-Identifier: Apache-2.0
// Data parallelism, the baseline that ZeRO is measured against (ZeRO, section 7.1). Every rank holds everything:
// parameters, gradients and optimizer states.
#include "ref/stage/stage_internal.h"

#include "base/err.h"

static int ddp_open(struct stage *stage)
{
    TRY(stage_open_full_params(stage, 1));
    TRY(stage_allocate_full_gradients(stage));
    TRY(stage_allocate_optimizer(stage));
    return stage_allocate_gradient_buffers(stage);
}

// "During data parallel training, gradients across all data parallel processes are averaged at the end of the backward
// propagation before computing the updates for the next step. The averaging is performed using an all-reduce
// communication collective."
static int ddp_reduce(struct stage *stage, int bucket)
{
    const struct exchange *exchange = stage_exchange(stage, bucket);
    return exchange->verbs->all_reduce(exchange, bucket, stage_full_gradient(stage, bucket));
}

const struct stage_operations ddp_stage = {
    .name = "DDP",
    .partition = "none",
    .replicates_update = true,
    .open = ddp_open,
    .reduce = ddp_reduce,
    .step = stage_update,
};
