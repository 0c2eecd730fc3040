// SPDX-License-Identifier: Apache-2.0
// The parts that stages are made of.
#pragma once

#include "ref/stage/stage.h"

// Cuts the model into buckets, and chooses the exchange of each and the tier of every state.
int stage_lay_out(struct stage *stage, struct layout_rule rule);

// The ranks over which states are partitioned.
int stage_ranks(const struct stage *stage);

// The same for stages whose ranks hold all parameters, and their memory: buckets hold layers up to reduce_bucket_size
// and have `shards` shards.
int stage_open_full_params(struct stage *stage, int shards);

// The trainable buckets that no layer before this one uses; *next starts as 0. Their gradients are complete after the
// layer's backward, and the next forward needs them from this layer on.
bool stage_next_of_first_layer(const struct stage *stage, int layer, int *next, int *bucket);

// Gives every state its initial value.
int stage_initialise(struct stage *stage);

// Points the bucket's parameters into `full`, the padded bucket in the model's dtype.
void stage_point_params(struct stage *stage, int bucket, const void *full);

// Points the layer's gradients at the memory where backward makes them: at gradient buffers, where every trainable
// bucket takes one unless it has one; or at the full gradients themselves, in stages that hold them and need no
// buffers.
int stage_open_gradients(struct stage *stage, int layer);

// The bucket's gradient buffer, which the cache may give to another bucket when what was issued has used it.
void *stage_close_gradient_buffer(struct stage *stage, int bucket);

// A bucket of the full gradients.
struct gradient stage_full_gradient(const struct stage *stage, int bucket);

// Full gradients: adds the bucket's gradient buffer to them, if it has one. The first micro-step overwrites.
int stage_keep_gradient(struct stage *stage, int bucket);

// Gradient shards: reduce-scatters the gradient buffer and adds the rank's shard of the sum to the one that it keeps.
// The first micro-step overwrites.
int stage_scatter_gradient(struct stage *stage, int bucket);

// Where a reduced shard needs no further step: where it is kept, if nothing is added to it there. data is null:
// nowhere.
struct gradient stage_gradient_goal(const struct stage *stage, int bucket);

// Stores the rank's shard of a reduced gradient, which is on the device, where it is kept; or adds it to those of
// earlier micro-steps there. After the last one the kept sum is complete.
int stage_store_gradient(struct stage *stage, int bucket, struct gradient shard);

// Sets the order of updates.
int stage_order_updates(struct stage *stage);

// The verb `step`: decides about the step, and updates and publishes every bucket as the step's schedule does.
int stage_update(struct stage *stage, bool *applied);

// When this step's updates are made (update_schedule.h).
const struct update_schedule *stage_update_schedule(const struct stage *stage);

// The plain schedule: updates every bucket in order, if the step is applied.
int stage_update_in_order(struct stage *stage, bool applied);

// Updates a bucket and publishes it. shard: as in optimizer_update.
int stage_update_bucket(struct stage *stage, int bucket, void *shard);

// Issues the updates, if any wait, that must precede reads of a bucket's parameters.
int stage_update_before_use(struct stage *stage, int bucket);

// Publishes by an all-gather into the full parameters.
int stage_gather_full(struct stage *stage, int bucket);

// A state whose shards are to be allocated. tier_of: TIER_COUNT if a bucket has none.
struct stage_shards {
    enum ledger_kind kind;
    const char *name;
    int bucket_count;
    size_t element_bytes;
    enum ledger_tier (*tier_of)(const struct stage *stage, int bucket);
};

// addresses[bucket] of all shards: one allocation on the device, one on the host, and one per bucket on NVMe, where
// transfers begin and end on blocks.
int stage_allocate_shards(struct stage *stage, const struct stage_shards *shards, void *addresses[]);

enum ledger_tier stage_gradient_tier(const struct stage *stage, int bucket);

// Memory of states; the placements point there. Parameters in the model's dtype; gradients in the accumulation dtype;
// the optimizer's shards with the buffers in which its sub-groups and offloaded gradients travel.
int stage_allocate_param_shards(struct stage *stage);
int stage_allocate_full_gradients(struct stage *stage);
int stage_allocate_gradient_shards(struct stage *stage);
int stage_allocate_optimizer(struct stage *stage);

// The optimizer's part of staging memory.
int stage_allocate_optimizer_buffers(struct stage *stage);
int stage_allocate_arrived_shards(struct stage *stage);

// Staging memory on the device: gradient buffers, unless backward can make full gradients in place, and the buffers of
// the exchanges.
int stage_allocate_gradient_buffers(struct stage *stage);
