// SPDX-License-Identifier: Apache-2.0
// qgZ (ZeRO++, section 3.3): gradients are reduced in 4 bits, within nodes and then across them.
#ifndef ZG_STAGE_QUANTIZED_H
#define ZG_STAGE_QUANTIZED_H

#include "ref/stage/stage.h"

#include <stdbool.h>

// Nodes are consecutive ranks of the shard group. Collective.
int stage_open_nodes(struct stage *stage);

// True if gradients are reduced so, between more than one rank.
bool stage_quantizes_gradients(const struct stage *stage);

// Reduces a bucket's gradient as backward makes it, on the device, and stores the rank's shard of the sum, which
// arrives in the communication dtype, or adds it to those of earlier micro-steps. The gradient's memory is used up.
int stage_scatter_quantized(struct stage *stage, int bucket, void *gradient);

// Memory of the buffers of both hops of one bucket, and with overlap_comm of those of the next one.
int stage_allocate_packed_gradients(struct stage *stage);

#endif
