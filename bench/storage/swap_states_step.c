// SPDX-License-Identifier: Apache-2.0
// The optimizer's step over a set of states: by the optimizer of training on NVMe, or by Adam alone in memory.
#include "bench/storage/swap_states.h"

#include "base/err.h"
#include "ref/arithmetic/norm.h"
#include "ref/optimizer/clip.h"
#include "ref/optimizer/lr.h"

// The mean over one rank, clipped as the configuration says.
static int begin_in_memory(struct swap_states *s)
{
    const struct config *config = &s->config;
    const struct placement *placement = &s->placement;
    struct adam_hyper hyper = config->adam;
    hyper.lr = lr_at(config, ++s->step_count);
    s->step = (struct adam_step){
        .recipe = recipe_find(config->recipe),
        .grad = placement->gradient_shard,
        .grad_dtype = DTYPE_BF16,
        .grad_divisor = 1,
        .param = placement->master,
        .exp_avg = placement->exp_avg,
        .exp_avg_sq = placement->exp_avg_sq,
        .model_params = placement->parameter,
        .model_dtype = DTYPE_BF16,
        .count = s->setting.count,
        .tensor_count = s->setting.count,
    };
    uint32_t max_bits = norm_max(DTYPE_BF16, placement->gradient_shard, s->setting.count);
    struct norm_sum sum = {0};
    norm_accumulate(&sum, DTYPE_BF16, placement->gradient_shard, s->setting.count, max_bits);
    s->step.grad_coefficient =
        clip_coefficient(config->clip_form, norm_finish(sum, max_bits), config->gradient_clipping);
    return recipe_begin_step(s->step.recipe, &hyper, s->step_count, &s->recipe_state, &s->step.scalars);
}

int swap_states_begin(struct swap_states *states)
{
    if (!states->setting.on_nvme)
        return begin_in_memory(states);
    bool apply;
    TRY(optimizer_begin(&states->optimizer, &apply));
    states->optimizer.updated[0] = false;
    return apply ? ERR_NONE : err_set(ERR_INTERNAL, "a gradient is not finite");
}

int swap_states_update(struct swap_states *states)
{
    if (!states->setting.on_nvme) {
        adam_update_parallel(&states->step, states->setting.threads);
        return ERR_NONE;
    }
    TRY(optimizer_update(&states->optimizer, 0, NULL));
    return executor_wait(states->executor);
}
