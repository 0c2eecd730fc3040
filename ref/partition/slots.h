// SPDX-License-Identifier: Apache-2.0
// A fixed number of staging buffers in which bundles take turns: the buckets that gradients are made in, and the
// layers that ZeRO-3 gathers. How far communication may run ahead of computation is how many slots there are, for the
// executor orders a slot's next use after its last one. Tied bundles, which stay long, have slots of their own.
#ifndef ZG_SLOTS_H
#define ZG_SLOTS_H

#include "ref/partition/shard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a set of slots is for.
struct slots_rule {
    int bundle_count;      // the layout's bundles [0, bundle_count) use them,
    bool skip_persistent;  // but for persistent ones
    bool shares;           // one rank's shares of bundles, in whole blocks of NVMe; else whole bundles
    size_t element_bytes;
    enum ledger_tier where;
    const char *name;      // not copied
};

struct slots {
    const struct layout *layout;
    struct slots_rule rule;
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

// slot_count slots, each as large as the largest of the rule's bundles, and one for each tied one.
int slots_open(const struct layout *layout, const struct slots_rule *rule, int slot_count, struct tier *tier,
               struct slots *out);
void slots_close(struct slots *slots);

// The slot that holds the bundle, or NULL. To find is to ask for it; slots_look asks for nothing.
void *slots_find(struct slots *slots, int bundle);
void *slots_look(const struct slots *slots, int bundle);

// Gives the bundle a slot to fill: of the empty ones, or if there is none of all, the one asked for longest ago.
void *slots_take(struct slots *slots, int bundle);

// The bundle that slots_take would put out; -1: none.
int slots_victim(const struct slots *slots);

// The bundle is done with its slot.
void slots_drop(struct slots *slots, int bundle);

// Forgets everything.
void slots_empty(struct slots *slots);

// The most of the rule's bundles, tied ones aside, that one unit uses at once: fewer slots cannot work.
int slots_least(const struct layout *layout, const struct slots_rule *rule, int unit_count);

// How many of the rule's bundles take turns, and the bytes of the largest of them.
int slots_turns(const struct layout *layout, const struct slots_rule *rule);
size_t slots_largest_bytes(const struct layout *layout, const struct slots_rule *rule);

// Bytes of one bundle's slot.
size_t slots_bytes(const struct layout *layout, const struct slots_rule *rule, int bundle);

#endif
