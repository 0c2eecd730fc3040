// SPDX-License-Identifier: Apache-2.0
// A least-recently-used cache of a fixed number of staging buffers in which buckets take turns: the buffers that
// gradients are made in, and the layers that ZeRO-3 gathers. How far communication may run ahead of computation is how
// many buffers there are, for the executor orders a buffer's next use after its last one. Tied buckets, which stay
// long, have buffers of their own.
#ifndef ZG_SLOTS_H
#define ZG_SLOTS_H

#include "ref/partition/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The use of a cache.
struct buffer_cache_rule {
    int bucket_count;      // the layout's buckets [0, bucket_count) use them,
    bool skip_persistent;  // but for persistent ones
    bool shards;           // one rank's shards of buckets, in whole blocks of NVMe; else full buckets
    size_t element_bytes;
    enum ledger_tier where;
    const char *name;  // not copied
};

struct buffer_cache {
    const struct layout *layout;
    struct buffer_cache_rule rule;
    int buffer_count;
    int *bucket_in;     // by buffer: what it holds; -1: nothing
    uint64_t *used_at;  // by buffer: when it was last asked for
    uint64_t now;
    size_t buffer_bytes;
    char *memory;        // buffer_count buffers
    size_t *own_offset;  // by bucket: where a tied bucket's own buffer is; SIZE_MAX: none
    char *own_memory;
    bool *own_filled;
};

// buffer_count buffers, each as large as the largest of the rule's buckets, and one for each tied one.
int buffer_cache_open(const struct layout *layout, const struct buffer_cache_rule *rule, int buffer_count,
                      struct tier *tier, struct buffer_cache *out);
void buffer_cache_close(struct buffer_cache *cache);

// The buffer that holds the bucket, or NULL. buffer_cache_use marks it as used most recently; buffer_cache_peek does
// not.
void *buffer_cache_use(struct buffer_cache *cache, int bucket);
void *buffer_cache_peek(const struct buffer_cache *cache, int bucket);

// Gives the bucket a buffer to fill: of the empty ones, or if there is none of all, the one used least recently.
void *buffer_cache_acquire(struct buffer_cache *cache, int bucket);

// The bucket that buffer_cache_acquire would evict; -1: none.
int buffer_cache_lru(const struct buffer_cache *cache);

// The bucket gives its buffer back.
void buffer_cache_release(struct buffer_cache *cache, int bucket);

// Forgets everything.
void buffer_cache_clear(struct buffer_cache *cache);

// The most of the rule's buckets, tied ones aside, that one layer uses at once: fewer buffers cannot work.
int buffer_cache_least(const struct layout *layout, const struct buffer_cache_rule *rule, int layer_count);

// How many of the rule's buckets take turns, and the bytes of the largest of them.
int buffer_cache_bucket_count(const struct layout *layout, const struct buffer_cache_rule *rule);
size_t buffer_cache_largest_bytes(const struct layout *layout, const struct buffer_cache_rule *rule);

// Bytes of one bucket's buffer.
size_t buffer_cache_bucket_bytes(const struct layout *layout, const struct buffer_cache_rule *rule, int bucket);

#endif
