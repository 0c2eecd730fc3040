// SPDX-License-Identifier: Apache-2.0
// ZeRO-3, P_os+g+p: parameters partitioned, too (ZeRO, sections 5.3 and 7.2.2). Every rank holds 1/N_d of everything,
// and whole only the layers in use.
#include "ref/stage/stage.h"

#include "base/err.h"

#include <string.h>

// Buckets that may be gathered at once: those of one layer, those fetched ahead of it (prefetch_bucket_size), and, if
// layers are kept for their next use, as many as max_live_parameters allows.
static size_t gathered_buffer_count(const struct stage *stage, const struct buffer_cache_rule *rule)
{
    const struct config *config = stage->setting.config;
    const struct layout *layout = &stage->layout;
    size_t largest = buffer_cache_largest_bytes(layout, rule) / rule->element_bytes;
    size_t least = (size_t)buffer_cache_least(layout, rule, stage->setting.model->layer_count);
    if (largest == 0)
        return least;
    size_t wanted = least + (config->prefetch_bucket_size + largest - 1) / largest;
    if (config->max_reuse_distance > 0)
        wanted = SIZE_MAX;
    size_t turns = (size_t)buffer_cache_bucket_count(layout, rule);
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
        .shards = comm_world(stage->setting.comm),
        .cut_frozen = true,
        .owners_in_turn = config->partitioning == PARTITION_OWNER_BROADCAST,
        .persistence_threshold = config->param_persistence_threshold,
        .persistence_budget = config->model_persistence_threshold,
    };
    TRY(stage_lay_out(stage, &rule));
    TRY(stage_allocate_param_shards(stage));
    TRY(stage_allocate_gradient_shards(stage));
    TRY(stage_allocate_optimizer(stage));
    TRY(stage_allocate_gradient_buffers(stage));
    TRY(stage_allocate_comm_buffers(stage, config->precision, !config->contiguous_gradients));
    const struct buffer_cache_rule gathered = {
        .bucket_count = stage->layout.bucket_count,
        .skip_persistent = true,
        .element_bytes = dtype_bytes(config->precision),
        .where = TIER_DEVICE,
        .name = "gathered parameters",
    };
    return buffer_cache_open(&stage->layout, &gathered, (int)gathered_buffer_count(stage, &gathered),
                             stage->setting.tier, &stage->gathered);
}

// Whether the bucket is still gathered from its last use, and near enough to it: max_reuse_distance counts the elements
// acquired in between.
static void *still_gathered(struct stage *stage, int bucket)
{
    uint64_t distance = stage->touched_count - stage->touched_at[bucket];
    if (distance >= stage->setting.config->max_reuse_distance)
        return NULL;
    return buffer_cache_get(&stage->gathered, bucket);
}

// Gathers the bucket, for the next position of the access trace that is not acquired yet.
static int gather_next(struct stage *stage, int bucket)
{
    void *full = still_gathered(stage, bucket);
    if (!full) {
        full = buffer_cache_acquire(&stage->gathered, bucket);
        TRY(stage_fetch(stage, bucket, full));
    }
    stage->touched_count += stage->layout.buckets[bucket].count;
    stage->touched_at[bucket] = stage->touched_count;
    stage->asked_at[bucket] = ++stage->fetched;
    return ERR_NONE;
}

// Whether a layer from the one at `now` on, a position of the access trace, still needs the bucket where it is.
static bool in_use(const struct stage *stage, int bucket, uint64_t now)
{
    return bucket >= 0 && stage->asked_at[bucket] > now;
}

// Overlap-centric (ZeRO-Infinity, section 6.2): while operator i computes, the parameters of i + 1 are gathered, those
// of i + 2 go to the device, those of i + 3 are read from NVMe. Here buckets are fetched in the recorded order, as far
// ahead as prefetch_bucket_size, and the buffers that no layer from the present one on needs, allow; each lane takes
// what is issued as soon as it can, so three buckets are on their way at once.
static int prefetch(struct stage *stage, uint64_t now)
{
    size_t ahead = 0;
    int bucket;
    for (size_t position = stage->access_trace.at; position < stage->fetched; position++)
        ahead += stage->layout.buckets[access_trace_at(&stage->access_trace, position)].count;
    while ((bucket = access_trace_at(&stage->access_trace, stage->fetched)) >= 0) {
        ahead += stage->layout.buckets[bucket].count;
        if (ahead > stage->setting.config->prefetch_bucket_size)
            break;
        bool fetches = !still_gathered(stage, bucket), tied = stage->layout.buckets[bucket].tied;
        if (fetches &&
            (in_use(stage, bucket, now) || (!tied && in_use(stage, buffer_cache_lru(&stage->gathered), now))))
            break;
        TRY(gather_next(stage, bucket));
    }
    return ERR_NONE;
}

// "When the parameters outside of its partition are required for forward and backward propagation, they are received
// from the appropriate data parallel process ..." Here by an all-gather of all partitions: "we reschedule the
// parameter all-gather by spreading it across the entire forward propagation, and discarding the parameters once they
// have been used. Note however that this all-gather needs to happen once again for the backward propagation in the
// reverse order."
static int zero3_acquire(struct stage *stage, int layer, enum pass pass)
{
    uint64_t now = stage->access_trace.at;
    int bucket;
    for (int next = 0; stage_next_bucket(stage, layer, &next, &bucket);) {
        if (stage->layout.buckets[bucket].persistent)
            continue;
        bool ahead = access_trace_at(&stage->access_trace, stage->access_trace.at) == bucket &&
                     stage->fetched > stage->access_trace.at;
        TRY(access_trace_ask(&stage->access_trace, bucket));
        if (!ahead) {
            // What was fetched for an order that is left has no place in the new one, and must not evict what this
            // layer has already.
            stage->fetched = stage->access_trace.at - 1;
            for (uint64_t position = now; position < stage->fetched; position++)
                buffer_cache_get(&stage->gathered, stage->access_trace.buckets[position]);
            TRY(gather_next(stage, bucket));
        }
        stage_point_params(stage, bucket, buffer_cache_peek(&stage->gathered, bucket));
    }
    TRY(prefetch(stage, now));
    return pass == PASS_FORWARD ? ERR_NONE : stage_open_gradient_buffers(stage, layer);
}

// Discarded is the claim to the buffer: the executor lets another layer in when the operations issued so far have used
// it. A layer that is fetched ahead for its next use stays.
static int zero3_release(struct stage *stage, int layer, enum pass pass)
{
    (void)pass;
    int bucket;
    for (int next = 0; stage_next_bucket(stage, layer, &next, &bucket);)
        if (stage->setting.config->max_reuse_distance == 0 && stage->asked_at[bucket] <= stage->access_trace.at)
            buffer_cache_release(&stage->gathered, bucket);
    return ERR_NONE;
}

static int zero3_reduce(struct stage *stage, int layer)
{
    int bucket;
    for (int next = 0; stage_next_complete(stage, layer, &next, &bucket);)
        TRY(stage_scatter_gradient(stage, bucket));
    return ERR_NONE;
}

// No all-gather follows the update, but for the persistent parameters: the next forward gathers what it needs.
static int publish_persistent(struct stage *stage, int bucket)
{
    return stage->layout.buckets[bucket].persistent ? stage_fetch(stage, bucket, stage->placements[bucket].full_params)
                                                    : ERR_NONE;
}

static int zero3_step(struct stage *stage, bool *applied)
{
    buffer_cache_clear(&stage->gathered);
    access_trace_restart(&stage->access_trace);
    stage->fetched = 0;
    memset(stage->asked_at, 0, (size_t)stage->layout.bucket_count * sizeof *stage->asked_at);
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
