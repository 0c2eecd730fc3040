// SPDX-License-Identifier: Apache-2.0
#include "ref/partition/buffer_cache.h"

#include "base/err.h"
#include "ref/tier/tier.h"
#include "ref/tier/tier_nvme.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool takes_turns(const struct buffer_cache_rule *rule, const struct bucket *bucket)
{
    return !bucket->tied && !(rule->skip_persistent && bucket->persistent);
}

size_t buffer_cache_bucket_bytes(const struct layout *layout, const struct buffer_cache_rule *rule, int bucket)
{
    const struct bucket *b = &layout->buckets[bucket];
    const size_t block = TIER_NVME_ALIGNMENT;
    size_t bytes = (rule->shards ? b->shard_elements : b->padded_count) * rule->element_bytes;
    return rule->shards ? (bytes + block - 1) / block * block : bytes;
}

size_t buffer_cache_largest_bytes(const struct layout *layout, const struct buffer_cache_rule *rule)
{
    size_t largest = 0;
    for (int i = 0; i < rule->bucket_count; i++)
        if (takes_turns(rule, &layout->buckets[i]) && buffer_cache_bucket_bytes(layout, rule, i) > largest)
            largest = buffer_cache_bucket_bytes(layout, rule, i);
    return largest;
}

int buffer_cache_bucket_count(const struct layout *layout, const struct buffer_cache_rule *rule)
{
    int turns = 0;
    for (int i = 0; i < rule->bucket_count; i++)
        turns += takes_turns(rule, &layout->buckets[i]);
    return turns;
}

int buffer_cache_least(const struct layout *layout, const struct buffer_cache_rule *rule, int layer_count)
{
    int change[layer_count + 1], used = 0, least = 0;  // by layer: buckets that it uses more than the layer before
    memset(change, 0, sizeof change);
    for (int i = 0; i < rule->bucket_count; i++) {
        const struct bucket *bucket = &layout->buckets[i];
        if (!takes_turns(rule, bucket) || bucket->low_layer >= layer_count)
            continue;
        change[bucket->low_layer]++;
        if (bucket->high_layer < layer_count)
            change[bucket->high_layer + 1]--;
    }
    for (int layer = 0; layer < layer_count; layer++) {
        used += change[layer];
        least = used > least ? used : least;
    }
    return least;
}

int buffer_cache_open(const struct layout *layout, const struct buffer_cache_rule *rule, int buffer_count,
                      struct tier *tier, struct buffer_cache *out)
{
    assert(buffer_count >= 0 && rule->bucket_count <= layout->bucket_count && rule->element_bytes > 0);
    *out = (struct buffer_cache){.layout = layout, .rule = *rule, .buffer_count = buffer_count};
    out->buffer_bytes = buffer_cache_largest_bytes(layout, rule);
    out->bucket_in = calloc((size_t)buffer_count + 1, sizeof *out->bucket_in);
    out->used_at = calloc((size_t)buffer_count + 1, sizeof *out->used_at);
    out->own_offset = calloc((size_t)layout->bucket_count + 1, sizeof *out->own_offset);
    out->own_filled = calloc((size_t)layout->bucket_count + 1, sizeof *out->own_filled);
    if (!out->bucket_in || !out->used_at || !out->own_offset || !out->own_filled)
        return err_set(ERR_MEMORY, "no memory for %d cache buffers", buffer_count);
    size_t own_bytes = 0;
    for (int i = 0; i < layout->bucket_count; i++) {
        out->own_offset[i] = SIZE_MAX;
        if (i < rule->bucket_count && layout->buckets[i].tied) {
            out->own_offset[i] = own_bytes;
            own_bytes += buffer_cache_bucket_bytes(layout, rule, i);
        }
    }
    buffer_cache_clear(out);
    TRY(tier_allocate(tier, rule->where, KIND_STAGING, rule->name, (size_t)buffer_count * out->buffer_bytes, 0,
                      (void **)&out->memory));
    return tier_allocate(tier, rule->where, KIND_STAGING, rule->name, own_bytes, 0, (void **)&out->own_memory);
}

void buffer_cache_close(struct buffer_cache *cache)
{
    free(cache->bucket_in);
    free(cache->used_at);
    free(cache->own_offset);
    free(cache->own_filled);
    *cache = (struct buffer_cache){0};
}

void buffer_cache_clear(struct buffer_cache *cache)
{
    for (int i = 0; i < cache->buffer_count; i++)
        cache->bucket_in[i] = -1;
    for (int i = 0; i < cache->layout->bucket_count; i++)
        cache->own_filled[i] = false;
}

static int buffer_of(const struct buffer_cache *cache, int bucket)
{
    assert(bucket >= 0 && bucket < cache->rule.bucket_count);
    for (int i = 0; i < cache->buffer_count; i++)
        if (cache->bucket_in[i] == bucket)
            return i;
    return -1;
}

void *buffer_cache_peek(const struct buffer_cache *cache, int bucket)
{
    if (cache->own_offset[bucket] != SIZE_MAX)
        return cache->own_filled[bucket] ? cache->own_memory + cache->own_offset[bucket] : NULL;
    int buffer = buffer_of(cache, bucket);
    return buffer < 0 ? NULL : cache->memory + (size_t)buffer * cache->buffer_bytes;
}

void *buffer_cache_use(struct buffer_cache *cache, int bucket)
{
    int buffer = cache->own_offset[bucket] == SIZE_MAX ? buffer_of(cache, bucket) : -1;
    if (buffer >= 0)
        cache->used_at[buffer] = ++cache->now;
    return buffer_cache_peek(cache, bucket);
}

void buffer_cache_hold(struct buffer_cache *cache, int bucket)
{
    int buffer = cache->own_offset[bucket] == SIZE_MAX ? buffer_of(cache, bucket) : -1;
    if (buffer >= 0)
        cache->used_at[buffer] = UINT64_MAX;
}

void buffer_cache_release(struct buffer_cache *cache, int bucket)
{
    cache->own_filled[bucket] = false;
    for (int i = 0; i < cache->buffer_count; i++)
        if (cache->bucket_in[i] == bucket)
            cache->bucket_in[i] = -1;
}

static int lru_buffer(const struct buffer_cache *cache)
{
    int lru = 0;
    for (int i = 1; i < cache->buffer_count; i++) {
        bool empty = cache->bucket_in[i] < 0, lru_is_empty = cache->bucket_in[lru] < 0;
        if (empty == lru_is_empty ? cache->used_at[i] < cache->used_at[lru] : empty)
            lru = i;
    }
    return lru;
}

int buffer_cache_lru(const struct buffer_cache *cache)
{
    return cache->buffer_count > 0 ? cache->bucket_in[lru_buffer(cache)] : -1;
}

void *buffer_cache_acquire(struct buffer_cache *cache, int bucket)
{
    if (cache->own_offset[bucket] != SIZE_MAX) {
        cache->own_filled[bucket] = true;
        return cache->own_memory + cache->own_offset[bucket];
    }
    assert(cache->buffer_count > 0);
    buffer_cache_release(cache, bucket);
    int lru = lru_buffer(cache);
    cache->bucket_in[lru] = bucket;
    cache->used_at[lru] = ++cache->now;
    return cache->memory + (size_t)lru * cache->buffer_bytes;
}
