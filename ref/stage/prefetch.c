// SPDX-License-Identifier: Apache-2.0
#include "ref/stage/prefetch.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Buckets that may be gathered together: those of one layer; those that prefetch_bucket_size fetches ahead; and, if
// layers are kept for their next use, as many as max_live_parameters allows.
static size_t gathered_count(const struct prefetcher_setting *setting, const struct buffer_cache_rule *rule)
{
    const struct config *config = setting->config;
    size_t largest = buffer_cache_largest_bytes(setting->layout, rule) / rule->element_bytes;
    size_t least = (size_t)buffer_cache_least(setting->layout, rule, setting->layer_count);
    if (largest == 0)
        return least;
    size_t wanted = least + (config->prefetch_bucket_size + largest - 1) / largest;
    if (config->max_reuse_distance > 0)
        wanted = SIZE_MAX;
    size_t turns = (size_t)buffer_cache_bucket_count(setting->layout, rule);
    if (wanted > turns)
        wanted = turns;
    if (wanted > config->max_live_parameters / largest)
        wanted = config->max_live_parameters / largest;
    return wanted < least ? least : wanted;
}

static int open_gathered(struct prefetcher *p)
{
    const struct prefetcher_setting *setting = &p->setting;
    const struct buffer_cache_rule rule = {
        .bucket_count = setting->layout->bucket_count,
        .skip_persistent = true,
        .element_bytes = dtype_bytes(setting->config->precision),
        .where = TIER_DEVICE,
        .name = "gathered parameters",
    };
    return buffer_cache_open(setting->layout, &rule, (int)gathered_count(setting, &rule), setting->tier, &p->gathered);
}

// buffer_count shards pass through the host; max_in_cpu elements of them may stay there for their next use.
static int open_host_params(struct prefetcher *p)
{
    const struct layout *layout = p->setting.layout;
    const struct config_offload_param *offload = &p->setting.config->offload_param;
    size_t element_bytes = dtype_bytes(p->setting.config->precision), largest = 0;
    const struct buffer_cache_rule rule = {
        .bucket_count = layout->bucket_count,
        .shards = true,
        .element_bytes = element_bytes,
        .where = TIER_HOST,
        .name = "parameters on their way from NVMe",
    };
    for (int i = 0; i < layout->bucket_count; i++)
        if (layout->buckets[i].shard_elements > largest)
            largest = layout->buckets[i].shard_elements;
    if (largest > offload->buffer_size)
        return err_set(ERR_USAGE,
                       "zero_optimization.offload_param.buffer_size is %zu elements, expected at least %zu, the "
                       "largest shard that a rank reads as a whole",
                       offload->buffer_size, largest);
    size_t turn_bytes = buffer_cache_largest_bytes(layout, &rule);
    size_t count = (size_t)buffer_cache_bucket_count(layout, &rule), wanted = offload->buffer_count;
    if (turn_bytes > 0 && offload->max_in_cpu / (turn_bytes / element_bytes) > wanted)
        wanted = offload->max_in_cpu / (turn_bytes / element_bytes);
    return buffer_cache_open(layout, &rule, (int)(wanted < count ? wanted : count), p->setting.tier, &p->host_params);
}

int prefetcher_open(const struct prefetcher_setting *setting, struct prefetcher *out)
{
    *out = (struct prefetcher){.setting = *setting};
    size_t buckets = (size_t)setting->layout->bucket_count + 1;
    out->fetched_at = calloc(buckets, sizeof *out->fetched_at);
    out->touched_at = calloc(buckets, sizeof *out->touched_at);
    if (!out->fetched_at || !out->touched_at)
        return err_set(ERR_MEMORY, "no memory for the prefetcher's tables of %zu buckets", buckets);
    if (setting->config->offload_param.tier == TIER_NVME)
        TRY(open_host_params(out));
    return open_gathered(out);
}

void prefetcher_close(struct prefetcher *p)
{
    access_trace_close(&p->access_trace);
    buffer_cache_close(&p->gathered);
    buffer_cache_close(&p->host_params);
    free(p->fetched_at);
    free(p->touched_at);
    *p = (struct prefetcher){0};
}

// The nc-transfer: *out is the rank's shard of the bucket on the host.
static int read_shard(struct prefetcher *p, int bucket, size_t bytes, struct location *out)
{
    struct location nvme = {TIER_NVME, p->setting.placements[bucket].parameter};
    *out = (struct location){TIER_HOST, buffer_cache_use(&p->host_params, bucket)};
    if (out->address) {
        p->host_hits++;
        return ERR_NONE;
    }
    p->host_misses++;
    out->address = buffer_cache_acquire(&p->host_params, bucket);
    return move_copy(p->setting.move, "read parameters", *out, nvme, bytes, NULL);
}

void *prefetcher_take_update(struct prefetcher *p, int bucket)
{
    void *shard = buffer_cache_acquire(&p->host_params, bucket);
    buffer_cache_hold(&p->host_params, bucket);
    return shard;
}

// The gg-transfer of a shard on the device.
static int gather(struct prefetcher *p, int bucket, const void *shard, void *full)
{
    const struct exchange *exchange = p->setting.exchange_of[bucket];
    return exchange->verbs->all_gather(exchange, bucket, shard, full, p->setting.config->precision);
}

int prefetcher_fetch(struct prefetcher *p, int bucket, void *full)
{
    const struct bucket *b = &p->setting.layout->buckets[bucket];
    const struct placement *placement = &p->setting.placements[bucket];
    enum dtype precision = p->setting.config->precision;
    if (placement->parameter_tier == TIER_DEVICE)
        return gather(p, bucket, placement->parameter, full);
    int rank = comm_rank(p->setting.exchange_of[bucket]->comm);
    size_t bytes = bucket_shard_real(b, rank) * dtype_bytes(precision);
    struct location shard = {TIER_HOST, placement->parameter};
    struct location own = {TIER_DEVICE, (char *)full + bucket_shard_begin(b, rank) * dtype_bytes(precision)};
    if (placement->parameter_tier == TIER_NVME)
        TRY(read_shard(p, bucket, bytes, &shard));
    TRY(move_copy(p->setting.move, "parameters", own, shard, bytes, NULL));
    return gather(p, bucket, own.address, full);
}

static int fetch_for(struct prefetcher *p, int bucket, bool backward, void *full)
{
    const struct exchange *exchange = p->setting.exchange_of[bucket];
    if (!backward || !exchange->verbs->gather_kept)
        return prefetcher_fetch(p, bucket, full);
    return exchange->verbs->gather_kept(exchange, bucket, full, p->setting.config->precision);
}

static int keep(struct prefetcher *p, int bucket, const void *full)
{
    const struct exchange *exchange = p->setting.exchange_of[bucket];
    if (!exchange->verbs->keep)
        return ERR_NONE;
    return exchange->verbs->keep(exchange, bucket, full, p->setting.config->precision);
}

// The use at that position of the order; -1: unknown.
static int use_at(const struct prefetcher *p, uint64_t position)
{
    return access_trace_at(&p->access_trace, position);
}

// The bucket is still gathered from its last use, and that is less than max_reuse_distance elements ago.
static bool is_gathered(const struct prefetcher *p, int bucket)
{
    uint64_t distance = p->touched_count - p->touched_at[bucket];
    return distance < p->setting.config->max_reuse_distance && buffer_cache_peek(&p->gathered, bucket);
}

// Gathers the bucket of a use for the next position of the order.
static int gather_next(struct prefetcher *p, int use)
{
    int bucket = use / 2;
    TRY(p->setting.before_use(p->setting.stage, bucket));
    executor_set_bucket(p->setting.move->executor, bucket);
    if (is_gathered(p, bucket))
        buffer_cache_use(&p->gathered, bucket);
    else
        TRY(fetch_for(p, bucket, use % 2, buffer_cache_acquire(&p->gathered, bucket)));
    p->touched_count += p->setting.layout->buckets[bucket].count;
    p->touched_at[bucket] = p->touched_count;
    p->fetched_at[bucket] = ++p->fetched;
    return ERR_NONE;
}

void prefetcher_begin_layer(struct prefetcher *p)
{
    p->layer_begin = p->access_trace.at;
}

int prefetcher_acquire(struct prefetcher *p, int bucket, bool backward, const void **full)
{
    assert(bucket >= 0 && bucket < p->setting.layout->bucket_count && !p->setting.layout->buckets[bucket].persistent);
    uint64_t position = p->access_trace.at;
    int use = 2 * bucket + backward;
    bool ahead = use_at(p, position) == use && p->fetched > position;
    TRY(access_trace_ask(&p->access_trace, use));
    if (!ahead) {
        // The step leaves the recorded order. What was fetched for that order must not evict what this layer has.
        p->fetched = position;
        for (uint64_t own = p->layer_begin; own < position; own++)
            buffer_cache_use(&p->gathered, p->access_trace.buckets[own] / 2);
        TRY(gather_next(p, use));
    }
    *full = buffer_cache_peek(&p->gathered, bucket);
    assert(*full && p->fetched >= p->access_trace.at);
    return backward ? ERR_NONE : keep(p, bucket, *full);
}

// The present layer or one that was fetched ahead of it needs the bucket.
static bool in_use(const struct prefetcher *p, int bucket)
{
    return bucket >= 0 && p->fetched_at[bucket] > p->layer_begin;
}

// A fetch would overwrite a buffer in use: the bucket's own, or that of the one it would evict.
static bool must_wait(const struct prefetcher *p, int bucket)
{
    if (is_gathered(p, bucket))
        return false;
    bool tied = p->setting.layout->buckets[bucket].tied;
    return in_use(p, bucket) || (!tied && in_use(p, buffer_cache_lru(&p->gathered)));
}

// "For instance, before executing the i-th operator, the prefetcher can invoke nc, cg, and gg-transfer for parameters
// required by i + 3, i + 2, and i + 1 operators, respectively." Each lane takes what is issued as soon as it can, so
// three buckets are on their way together.
int prefetcher_run_ahead(struct prefetcher *p)
{
    const struct layout *layout = p->setting.layout;
    size_t ahead = 0;
    int use;
    for (uint64_t position = p->access_trace.at; position < p->fetched; position++)
        ahead += layout->buckets[use_at(p, position) / 2].count;
    while ((use = use_at(p, p->fetched)) >= 0) {
        ahead += layout->buckets[use / 2].count;
        if (ahead > p->setting.config->prefetch_bucket_size || must_wait(p, use / 2))
            break;
        TRY(gather_next(p, use));
    }
    return ERR_NONE;
}

void prefetcher_release(struct prefetcher *p, int bucket)
{
    bool ahead = p->fetched_at[bucket] > p->access_trace.at;
    if (p->setting.config->max_reuse_distance == 0 && !ahead)
        buffer_cache_release(&p->gathered, bucket);
}

void prefetcher_restart(struct prefetcher *p)
{
    buffer_cache_clear(&p->gathered);
    if (p->setting.config->offload_param.tier == TIER_NVME)
        buffer_cache_clear(&p->host_params);
    access_trace_restart(&p->access_trace);
    p->fetched = 0;
    memset(p->fetched_at, 0, (size_t)p->setting.layout->bucket_count * sizeof *p->fetched_at);
}
