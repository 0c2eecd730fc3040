// SPDX-License-Identifier: Apache-2.0
// ZeRO-3, P_os+g+p: parameters are partitioned, too (ZeRO, sections 5.3 and 7.2.2). Every rank holds 1/N_d of
// everything, and full parameters only of the layers in use.
#include "ref/stage/stage_internal.h"

#include "base/err.h"

// "Just as with the optimizer states, and the gradients, each process only stores the parameters corresponding to its
// partition."
static int zero3_open(struct stage *stage)
{
    const struct config *config = stage->setting.config;
    const struct layout_rule rule = {
        .shards = stage_ranks(stage),
        .cut_frozen = true,
        .owners_in_turn = config->partitioning == PARTITION_OWNER_BROADCAST,
        .persistence_threshold = config->param_persistence_threshold,
        .persistence_budget = config->model_persistence_threshold,
    };
    TRY(stage_lay_out(stage, rule));
    TRY(stage_allocate_param_shards(stage));
    TRY(groups_allocate_copies(&stage->groups));
    TRY(stage_allocate_gradient_shards(stage));
    TRY(stage_allocate_optimizer(stage));
    TRY(stage_allocate_gradient_buffers(stage));
    const struct prefetcher_setting parameters = {
        .config = config,
        .layout = &stage->layout,
        .placements = stage->placements,
        .exchange_of = stage->groups.exchange_of,
        .move = &stage->move,
        .tier = stage->setting.tier,
        .layer_count = stage->setting.model->layer_count,
        .before_use = stage_update_before_use,
        .stage = stage,
    };
    return prefetcher_open(&parameters, &stage->prefetcher);
}

// "When the parameters outside of its partition are required for forward and backward propagation, they are received
// from the appropriate data parallel process ..." Here by an all-gather of all partitions: "we reschedule the
// parameter all-gather by spreading it across the entire forward propagation, and discarding the parameters once they
// have been used. Note however that this all-gather needs to happen once again for the backward propagation in the
// reverse order."
static int zero3_acquire(struct stage *stage, int layer, enum pass pass)
{
    int bucket;
    prefetcher_begin_layer(&stage->prefetcher);
    for (int next = 0; stage_next_bucket(stage, layer, &next, &bucket);) {
        const void *full;
        if (stage->layout.buckets[bucket].persistent)
            continue;
        TRY(prefetcher_acquire(&stage->prefetcher, bucket, pass == PASS_BACKWARD, &full));
        stage_point_params(stage, bucket, full);
    }
    return prefetcher_run_ahead(&stage->prefetcher);
}

// Releases the buffers; what they hold stays until they are reused (prefetch.h).
static int zero3_release(struct stage *stage, int layer)
{
    int bucket;
    for (int next = 0; stage_next_bucket(stage, layer, &next, &bucket);)
        prefetcher_release(&stage->prefetcher, bucket);
    return ERR_NONE;
}

// The update makes gathered copies of the parameters stale.
static int zero3_step(struct stage *stage, bool *applied)
{
    prefetcher_restart(&stage->prefetcher);
    return stage_update(stage, applied);
}

// Only persistent parameters, those that every rank always holds, are gathered after the update. All others are when
// the next forward needs them.
static int zero3_publish(struct stage *stage, int bucket)
{
    if (!stage->layout.buckets[bucket].persistent)
        return ERR_NONE;
    return prefetcher_fetch(&stage->prefetcher, bucket, stage->placements[bucket].full_params);
}

const struct stage_operations zero3_stage = {
    .name = "ZeRO-3",
    .partition = "P_os+g+p",
    .reduces_each_micro_step = true,
    .open = zero3_open,
    .acquire = zero3_acquire,
    .release = zero3_release,
    .reduce = stage_scatter_gradient,  // as in ZeRO-2
    .step = zero3_step,
    .publish = zero3_publish,
};
