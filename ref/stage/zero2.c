// SPDX-License-Identifier: Apache-2.0
// ZeRO-2, P_os+g: optimizer states and gradients partitioned (ZeRO, section 5.2). Every rank holds all parameters, and
// 1/N_d of the gradients and of the optimizer states.
#include "ref/stage/stage_internal.h"

#include "base/err.h"

// "To make this more efficient in practice, we use a bucketization strategy, where we bucketize all the gradients
// corresponding to a particular partition, and perform reduction on the entire bucket at once."
static int zero2_open(struct stage *stage)
{
    TRY(stage_open_full_params(stage, stage_ranks(stage)));
    TRY(stage_allocate_gradient_shards(stage));
    TRY(stage_allocate_optimizer(stage));
    return stage_allocate_gradient_buffers(stage);
}

const struct stage_operations zero2_stage = {
    .name = "ZeRO-2",
    .partition = "P_os+g",
    .open = zero2_open,
    // "... as each gradient of each layer becomes available during the backward propagation, we only reduce them on the
    // data parallel process responsible for updating the corresponding parameters. After the reduction we no longer
    // need the gradients and their memory can be released."
    .reduces_each_micro_step = true,
    .reduce = stage_scatter_gradient,
    // The update and all-gather of P_os.
    .step = stage_update,
    .publish = stage_gather_full,
};
