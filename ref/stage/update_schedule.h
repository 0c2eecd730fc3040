// SPDX-License-Identifier: Apache-2.0
// When the buckets of a step are updated. The plain schedule waits until the step is decided, updates all buckets in
// order, and is done. Every other one takes away a wait, and changes no bit; the first sentence of its file says which:
//
//   update_read_ahead.c, update_by_layer.c, update_hand_over.c, update_delayed.c; and ref/optimizer/speculation.c, by
//   which a bucket's update may have been made before the schedule reaches it
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct stage;

struct update_schedule {
    // Before the step is decided. Null: nothing is done then.
    int (*prepare)(struct stage *stage);
    // The step is decided: makes its updates, or begins to, if it is applied.
    int (*decided)(struct stage *stage, bool applied);
    // Before the next forward reads a bucket's parameters. Null: its update is issued.
    int (*before_use)(struct stage *stage, int bucket);
    // Issues what is left of the updates. Null: nothing is.
    int (*finish)(struct stage *stage);
};

// The updates of the last step.
struct updates {
    const struct update_schedule *schedule;  // null before the first step
    int *order;  // [layout.trainable_count] buckets: persistent ones, which all ranks gather after the update,
    int persistent_count;  // then the others; of each kind, those that the next forward needs first are first
    int issued;            // in that order
    bool waiting;          // forward issues the others
    uint64_t handed_over;  // forwards that did so, and found the parameters on the host (stage_hands_over)
};

extern const struct update_schedule update_in_order;    // stage_update.c
extern const struct update_schedule update_read_ahead;  // then in order
extern const struct update_schedule update_by_layer;    // which reads ahead, too, and hands over
extern const struct update_schedule update_delayed;

// Distance of the read-ahead: while bucket i of the order is updated and written to NVMe, the states of bucket i + 1
// are read.
enum { UPDATES_AHEAD = 1 };

// Reads the states of the buckets that are updated first, as far as there are buffers.
int update_prepare_reads(struct stage *stage);

// Host memory where the update of a bucket leaves its parameters, for the next forward to find them there (the
// prefetcher's); null: they are not handed over.
void *update_hand_over(struct stage *stage, int bucket);

// True if an update that the next forward issues leaves the bucket's parameters on the host, where that forward finds
// them, on their way to NVMe.
bool stage_hands_over(const struct stage *stage, int bucket);

// True if the next step's forward need not wait for the whole update: some states are updated outside the device,
// while it computes. Each operation waits for the buckets that it uses.
bool stage_overlaps_updates(const struct stage *stage);
