// SPDX-License-Identifier: Apache-2.0
// A least-recently-used cache of staging buffers in which buckets take turns: the buffers in which backward makes
// gradients, and the layers that ZeRO-3 gathers. The number of buffers limits how far communication runs ahead of
// computation, because the executor orders a buffer's next use after its last one. A tied bucket, which stays long, has
// a buffer of its own.
#pragma once

#include "ref/partition/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The contents of a cache.
struct buffer_cache_rule {
    int bucket_count;      // the layout's buckets [0, bucket_count),
    bool skip_persistent;  // without the persistent ones
    bool shards;           // one rank's shards of them, in whole blocks of NVMe; false: full buckets
    size_t element_bytes;
    enum ledger_tier where;
    const char *name;  // not copied
};

struct buffer_cache {
    const struct layout *layout;
    struct buffer_cache_rule rule;
    int buffer_count;
    int *bucket_in;     // by buffer: the bucket that it holds; -1: none
    uint64_t *used_at;  // by buffer: `now` at its last use
    uint64_t now;       // uses so far
    size_t buffer_bytes;
    char *memory;        // buffer_count buffers
    size_t *own_offset;  // by bucket: of a tied bucket's own buffer in own_memory; SIZE_MAX: none
    char *own_memory;
    bool *own_filled;  // by bucket
};

// buffer_count buffers, each as large as the largest of the rule's buckets, and one for each tied bucket. The layout
// outlives the cache.
int buffer_cache_open(const struct layout *layout, const struct buffer_cache_rule *rule, int buffer_count,
                      struct tier *tier, struct buffer_cache *out);
void buffer_cache_close(struct buffer_cache *cache);

// The buffer that holds the bucket, or NULL. Changes nothing.
void *buffer_cache_peek(const struct buffer_cache *cache, int bucket);

// The same, and the buffer becomes the one used most recently.
void *buffer_cache_use(struct buffer_cache *cache, int bucket);

// Gives the bucket a buffer to fill: among the empty ones, or among all if none is empty, the one used least recently.
void *buffer_cache_acquire(struct buffer_cache *cache, int bucket);

// The bucket's buffer becomes the last that others may take, until its next use.
void buffer_cache_hold(struct buffer_cache *cache, int bucket);

// The bucket that buffer_cache_acquire would evict; -1: none, as there is an empty buffer.
int buffer_cache_lru(const struct buffer_cache *cache);

// Empties the bucket's buffer, if it has one.
void buffer_cache_release(struct buffer_cache *cache, int bucket);

// Empties all buffers.
void buffer_cache_clear(struct buffer_cache *cache);

// The largest number of the rule's buckets, tied ones aside, that one layer uses: the least number of buffers.
int buffer_cache_least(const struct layout *layout, const struct buffer_cache_rule *rule, int layer_count);

// The number of the rule's buckets that take turns, and the bytes of the largest of them.
int buffer_cache_bucket_count(const struct layout *layout, const struct buffer_cache_rule *rule);
size_t buffer_cache_largest_bytes(const struct layout *layout, const struct buffer_cache_rule *rule);

// Bytes of one bucket's buffer.
size_t buffer_cache_bucket_bytes(const struct layout *layout, const struct buffer_cache_rule *rule, int bucket);
