// SPDX-License-Identifier: Apache-2.0
// ZeRO-3, P_os+g+p: parameters partitioned, too (ZeRO, sections 5.3 and 7.2.2). Every rank holds 1/N_d of everything,
// and whole only the layers in use.
#include "ref/stage/stage.h"

#include "base/err.h"

#include <string.h>

// Layers that may be whole at once: those of one unit, those fetched ahead of it (prefetch_bucket_size), and, if
// layers are kept for their next use, as many as max_live_parameters allows.
static size_t gathered_slot_count(const struct stage *stage, const struct slots_rule *rule)
{
    const struct config *config = stage->setting.config;
    const struct layout *layout = &stage->layout;
    size_t largest = slots_largest_bytes(layout, rule) / rule->element_bytes;
    size_t least = (size_t)slots_least(layout, rule, stage->setting.model->unit_count);
    if (largest == 0)
        return least;
    size_t wanted = least + (config->prefetch_bucket_size + largest - 1) / largest;
    if (config->max_reuse_distance > 0)
        wanted = SIZE_MAX;
    size_t turns = (size_t)slots_turns(layout, rule);
    if (wanted > turns)
        wanted = turns;
    if (wanted > config->max_live_parameters / largest)
        wanted = config->max_live_parameters / largest;
    return wanted < least ? least : wanted;
}

// "Just as with the optimizer states, and the gradients, each process only stores the parameters corresponding to its
// partition."
static int zero3_open(struct stage *stage)
{
    const struct config *config = stage->setting.config;
    const struct layout_rule rule = {
        .shares = comm_world(stage->setting.comm),
        .cut_frozen = true,
        .whole_owners = config->partitioning == PARTITION_OWNER_BROADCAST,
        .persistence_threshold = config->param_persistence_threshold,
        .persistence_budget = config->model_persistence_threshold,
    };
    TRY(stage_lay_out(stage, &rule));
    TRY(stage_allocate_param_shares(stage));
    TRY(stage_allocate_gradient_shares(stage));
    TRY(stage_allocate_optimizer(stage));
    TRY(stage_allocate_buckets(stage));
    TRY(stage_allocate_wire(stage, config->precision, !config->contiguous_gradients));
    const struct slots_rule gathered = {
        .bundle_count = stage->layout.bundle_count,
        .skip_persistent = true,
        .element_bytes = dtype_bytes(config->precision),
        .where = TIER_DEVICE,
        .name = "gathered parameters",
    };
    return slots_open(&stage->layout, &gathered, (int)gathered_slot_count(stage, &gathered), stage->setting.tier,
                      &stage->gathered);
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

// Has the bundle whole, for the next place of the order that is not acquired yet.
static int gather_next(struct stage *stage, int bundle)
{
    void *whole = still_gathered(stage, bundle);
    if (!whole) {
        whole = slots_take(&stage->gathered, bundle);
        TRY(stage_fetch(stage, bundle, whole));
    }
    stage->touched_count += stage->layout.bundles[bundle].count;
    stage->touched_at[bundle] = stage->touched_count;
    stage->asked_at[bundle] = ++stage->fetched;
    return ERR_NONE;
}

// Whether a unit from the one at `now` on, a place of the order, still needs the bundle where it is.
static bool in_use(const struct stage *stage, int bundle, uint64_t now)
{
    return bundle >= 0 && stage->asked_at[bundle] > now;
}

// Overlap-centric (ZeRO-Infinity, section 6.2): while operator i computes, the parameters of i + 1 are gathered, those
// of i + 2 go to the device, those of i + 3 are read from NVMe. Here bundles are fetched in the recorded order, as far
// ahead as prefetch_bucket_size, and the slots that no unit from the present one on needs, allow; each lane takes what
// is issued as soon as it can, so three bundles are on their way at once.
static int prefetch(struct stage *stage, uint64_t now)
{
    size_t ahead = 0;
    int bundle;
    for (size_t place = stage->order.at; place < stage->fetched; place++)
        ahead += stage->layout.bundles[order_at(&stage->order, place)].count;
    while ((bundle = order_at(&stage->order, stage->fetched)) >= 0) {
        ahead += stage->layout.bundles[bundle].count;
        if (ahead > stage->setting.config->prefetch_bucket_size)
            break;
        bool fetches = !still_gathered(stage, bundle), tied = stage->layout.bundles[bundle].tied;
        if (fetches && (in_use(stage, bundle, now) || (!tied && in_use(stage, slots_victim(&stage->gathered), now))))
            break;
        TRY(gather_next(stage, bundle));
    }
    return ERR_NONE;
}

// "When the parameters outside of its partition are required for forward and backward propagation, they are received
// from the appropriate data parallel process ..." Here by an all-gather of all partitions: "we reschedule the
// parameter all-gather by spreading it across the entire forward propagation, and discarding the parameters once they
// have been used. Note however that this all-gather needs to happen once again for the backward propagation in the
// reverse order."
static int zero3_acquire(struct stage *stage, int unit, enum pass pass)
{
    uint64_t now = stage->order.at;
    int bundle;
    for (int next = 0; stage_next_bundle(stage, unit, &next, &bundle);) {
        if (stage->layout.bundles[bundle].persistent)
            continue;
        bool ahead = order_at(&stage->order, stage->order.at) == bundle && stage->fetched > stage->order.at;
        TRY(order_ask(&stage->order, bundle));
        if (!ahead) {
            // What was fetched for an order that is left has no place in the new one, and must not put out what this
            // unit has already.
            stage->fetched = stage->order.at - 1;
            for (uint64_t place = now; place < stage->fetched; place++)
                slots_find(&stage->gathered, stage->order.bundles[place]);
            TRY(gather_next(stage, bundle));
        }
        stage_point_params(stage, bundle, slots_look(&stage->gathered, bundle));
    }
    TRY(prefetch(stage, now));
    return pass == PASS_FORWARD ? ERR_NONE : stage_open_buckets(stage, unit);
}

// Discarded is the claim to the slot: the executor lets another layer in when the operations issued so far have used
// it. A layer that is fetched ahead for its next use stays.
static int zero3_release(struct stage *stage, int unit, enum pass pass)
{
    (void)pass;
    int bundle;
    for (int next = 0; stage_next_bundle(stage, unit, &next, &bundle);)
        if (stage->setting.config->max_reuse_distance == 0 && stage->asked_at[bundle] <= stage->order.at)
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
static int publish_persistent(struct stage *stage, int bundle)
{
    return stage->layout.bundles[bundle].persistent ? stage_fetch(stage, bundle, stage->places[bundle].whole)
                                                    : ERR_NONE;
}

static int zero3_step(struct stage *stage, bool *applied)
{
    slots_empty(&stage->gathered);
    order_restart(&stage->order);
    stage->fetched = 0;
    memset(stage->asked_at, 0, (size_t)stage->layout.bundle_count * sizeof *stage->asked_at);
    return stage_update(stage, publish_persistent, applied);
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
