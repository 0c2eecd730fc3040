// SPDX-License-Identifier: Apache-2.0
// ZeRO-3, P_os+g+p: parameters partitioned, too (ZeRO, sections 5.3 and 7.2.2). Every rank holds 1/N_d of everything,
// and whole only the layers in use.
#include "stage.h"

#include "err.h"

// Layers that may be whole at once: those of one unit, those fetched ahead of it (prefetch_bucket_size), and, if
// layers are kept for their next use, as many as max_live_parameters allows.
static int gathered_slot_count(const struct stage *stage)
{
    const struct config *config = stage->setting.config;
    const struct layout *layout = &stage->layout;
    size_t largest = slots_largest(layout, layout->bundle_count, true);
    size_t least = (size_t)slots_least(layout, layout->bundle_count, true, stage->setting.model->unit_count);
    if (largest == 0)
        return (int)least;
    size_t wanted = least + (config->prefetch_bucket_size + largest - 1) / largest;
    if (config->max_reuse_distance > 0)
        wanted = SIZE_MAX;
    size_t turns = 0;
    for (int i = 0; i < layout->bundle_count; i++)
        turns += !layout->bundles[i].tied && !layout->bundles[i].persistent;
    if (wanted > turns)
        wanted = turns;
    if (wanted > config->max_live_parameters / largest)
        wanted = config->max_live_parameters / largest;
    return (int)(wanted < least ? least : wanted);
}

// "Just as with the optimizer states, and the gradients, each process only stores the parameters corresponding to its
// partition."
static int zero3_open(struct stage *stage)
{
    const struct config *config = stage->setting.config;
    const struct layout_rule rule = {
        .shares = comm_world(stage->setting.comm),
        .cut_frozen = true,
        .persistence_threshold = config->param_persistence_threshold,
        .persistence_budget = config->model_persistence_threshold,
    };
    TRY(layout_open(stage->setting.model, &rule, &stage->layout));
    TRY(stage_allocate_param_shares(stage));
    TRY(stage_allocate_gradient_shares(stage));
    TRY(stage_allocate_optimizer(stage));
    TRY(stage_allocate_buckets(stage));
    TRY(stage_allocate_wire(stage, config->precision, !config->contiguous_gradients));
    return slots_open(&stage->layout, stage->layout.bundle_count, true, dtype_bytes(config->precision),
                      gathered_slot_count(stage), stage->setting.tier, "gathered parameters", &stage->gathered);
}

// Whether the bundle is still whole from its last use, and near enough to it: max_reuse_distance counts the elements
// acquired in between.
static void *still_gathered(struct stage *stage, int bundle)
{
    uint64_t distance = stage->touched_count - stage->touched_at[bundle];
    if (distance >= stage->setting.config->max_reuse_distance)
        return NULL;
    return slots_find(&stage->gathered, bundle);
}

// "When the parameters outside of its partition are required for forward and backward propagation, they are received
// from the appropriate data parallel process ..." Here by an all-gather of all partitions: "we reschedule the
// parameter all-gather by spreading it across the entire forward propagation, and discarding the parameters once they
// have been used. Note however that this all-gather needs to happen once again for the backward propagation in the
// reverse order."
static int zero3_acquire(struct stage *stage, int unit, enum pass pass)
{
    int bundle;
    for (int next = 0; stage_next_bundle(stage, unit, &next, &bundle);) {
        const struct bundle *b = &stage->layout.bundles[bundle];
        if (b->persistent)
            continue;
        void *whole = still_gathered(stage, bundle);
        if (!whole) {
            whole = slots_take(&stage->gathered, bundle);
            TRY(exchange_all_gather(&stage->exchange, b, stage->places[bundle].parameter, whole,
                                    stage->setting.config->precision));
        }
        stage->touched_count += b->count;
        stage->touched_at[bundle] = stage->touched_count;
        stage_point_params(stage, bundle, whole);
    }
    return pass == PASS_FORWARD ? ERR_NONE : stage_open_buckets(stage, unit);
}

// Discarded is the claim to the slot: the executor lets another layer in when the operations issued so far have used
// it.
static int zero3_release(struct stage *stage, int unit, enum pass pass)
{
    (void)pass;
    int bundle;
    for (int next = 0; stage_next_bundle(stage, unit, &next, &bundle);)
        if (stage->setting.config->max_reuse_distance == 0)
            slots_drop(&stage->gathered, bundle);
    return ERR_NONE;
}

static int zero3_reduce(struct stage *stage, int unit)
{
    int bundle;
    for (int next = 0; stage_next_complete(stage, unit, &next, &bundle);)
        TRY(stage_scatter_gradient(stage, bundle));
    return ERR_NONE;
}

// No all-gather follows the update, but for the persistent parameters: the next forward gathers what it needs.
static int zero3_step(struct stage *stage, bool *applied)
{
    slots_empty(&stage->gathered);
    TRY(optimizer_begin(&stage->optimizer, applied));
    if (!*applied)
        return ERR_NONE;
    for (int i = 0; i < stage->layout.trainable_count; i++) {
        const struct bundle *b = &stage->layout.bundles[i];
        TRY(optimizer_update(&stage->optimizer, i));
        if (b->persistent)
            TRY(exchange_all_gather(&stage->exchange, b, stage->places[i].parameter, stage->places[i].whole,
                                    stage->setting.config->precision));
    }
    return ERR_NONE;
}

const struct stage_operations zero3_stage = {
    .name = "ZeRO-3",
    .partition = "P_os+g+p",
    .reduces_each_micro_step = true,
    .open = zero3_open,
    .acquire = zero3_acquire,
    .release = zero3_release,
    .reduce = zero3_reduce,
    .step = zero3_step,
};
