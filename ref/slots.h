// SPDX-License-Identifier: Apache-2.0
// A fixed number of staging buffers in which bundles take turns: the buckets that gradients are made in, and the
// layers that ZeRO-3 gathers. How far communication may run ahead of computation is how many slots there are, for the
// executor orders a slot's next use after its last one. Tied bundles, which stay long, have slots of their own.
#ifndef ZG_SLOTS_H
#define ZG_SLOTS_H

#include "shard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slots {
    const struct layout *layout;
    struct tier *tier;
    size_t element_bytes;
    int slot_count;
    int *bundle_in;    // by slot: what it holds; -1: nothing
    uint64_t *used_at;  // by slot: when it was last asked for
    uint64_t now;
    size_t slot_bytes;
    char *memory;      // slot_count slots
    size_t *own_offset;  // by bundle: where a tied bundle's own slot is; SIZE_MAX: none
    char *own_memory;
    bool *own_filled;
};

// The layout's bundles [0, bundle_count) use these slots, but for persistent ones if skip_persistent. slot_count
// slots, each as large as the largest of them, and one for each tied one.
int slots_open(const struct layout *layout, int bundle_count, bool skip_persistent, size_t element_bytes,
               int slot_count, struct tier *tier, const char *name, struct slots *out);
void slots_close(struct slots *slots);

// The slot that holds the bundle, or NULL.
void *slots_find(struct slots *slots, int bundle);

// Gives the bundle a slot to fill: of the empty ones, or if there is none of all, the one asked for longest ago.
void *slots_take(struct slots *slots, int bundle);

// The bundle is done with its slot.
void slots_drop(struct slots *slots, int bundle);

// Forgets everything.
void slots_empty(struct slots *slots);

// The most of those bundles, tied ones aside, that one unit uses at once: fewer slots cannot work.
int slots_least(const struct layout *layout, int bundle_count, bool skip_persistent, int unit_count);

// Elements of the largest of those bundles, tied ones aside.
size_t slots_largest(const struct layout *layout, int bundle_count, bool skip_persistent);

#endif
