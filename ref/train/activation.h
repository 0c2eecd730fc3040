// SPDX-License-Identifier: Apache-2.0
// Activation checkpoints on their tier: the inputs of a layer, kept from its forward to its backward, which computes
// the rest again (ZeRO-Infinity, section 5.1.2). If they are offloaded, forward writes a checkpoint to one of two
// device buffers, and it moves to its tier while the next layer computes. For backward it returns to one of them while
// the previous layer computes.
#pragma once

#include "ref/config/config.h"
#include "ref/formula/formula.h"
#include "ref/model/model.h"
#include "ref/executor/move.h"
#include "ref/tier/buffer_pool.h"

#include <stddef.h>

struct activations {
    const struct model *model;
    const struct config *config;
    const struct move *move;
    int in_flight;          // micro-batches whose checkpoints are kept at a time
    struct location *kept;  // by micro-batch in flight and layer: where its checkpoint is kept; a null address: none
    struct buffer_pool device_buffers, host_buffers;
};

// Allocates the memory for the checkpoints of `in_flight` consecutive micro-batches, if the configuration asks for
// checkpoints. move outlives it.
int activations_open(const struct model *model, const struct config *config, int in_flight, const struct move *move,
                     struct tier *tier, struct activations *out);
void activations_close(struct activations *activations);

// Bytes of a layer's checkpoint; 0: it has none.
size_t activations_bytes(const struct activations *activations, int layer);

// The memory on the device where the layer's forward writes its checkpoint; null: it has none. After that forward is
// issued, activations_keep issues the copy to where the checkpoint is kept.
void *activations_room(struct activations *activations, int micro, int layer);
int activations_keep(struct activations *activations, int micro, int layer, void *made);

// *out is the checkpoint on the device, for the layer's backward.
int activations_restore(struct activations *activations, int micro, int layer, void **out);

// Adds the bytes held, and those moved in every step.
void activations_formula(const struct activations *activations, struct formula *formula);
