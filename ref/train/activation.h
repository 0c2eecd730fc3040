// SPDX-License-Identifier: Apache-2.0
// Activation checkpoints on their tier: what a layer of the model received, kept from its forward to its backward,
// which computes the rest again (ZeRO-Infinity, section 5.1.2). Offloaded, a checkpoint is made in one of two device
// buffers, from where it leaves while the next layer computes; backward finds it in one of them again, brought there
// while the layer before it was at work.
#ifndef ZG_ACTIVATION_H
#define ZG_ACTIVATION_H

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
    struct location *kept;  // by layer: where its checkpoint stays; a null address: it has none
    struct buffer_pool device_buffers, host_buffers;
};

// Takes the memory, if the configuration asks for checkpoints. move outlives it.
int activations_open(const struct model *model, const struct config *config, const struct move *move, struct tier *tier,
                     struct activations *out);
void activations_close(struct activations *activations);

// Bytes of a layer's checkpoint; 0: it has none.
size_t activations_bytes(const struct activations *activations, int layer);

// Where the layer's forward writes its checkpoint, on the device; null: nowhere. activations_keep, once that forward is
// issued, has it leave for where it stays.
void *activations_room(struct activations *activations, int layer);
int activations_keep(struct activations *activations, int layer, void *made);

// *out is where the layer's backward finds its checkpoint, on the device.
int activations_restore(struct activations *activations, int layer, void **out);

// Adds what is held, and what moves in every step.
void activations_formula(const struct activations *activations, struct formula *formula);

#endif
