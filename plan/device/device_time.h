// SPDX-License-Identifier: Apache-2.0
// The time that a GPU computes on a micro-batch: a roofline of every product's shape, attention, the passes over memory
// between the products, and a fixed time for each layer.
#pragma once

#include "plan/device/transformer.h"

struct device_rates {
    double product_flops_per_s;    // of large matrix products
    double attention_flops_per_s;  // of a flash attention, which computes only the causal half
    double memory_bytes_per_s;
    double layer_s;  // of a layer's forward, whatever its size: launches, and gaps between kernels
    double ring_bytes_per_s, ring_latency_s;  // of a step of context parallelism's ring
};

struct device_time {
    double forward_s, backward_s;  // of all layers, without recomputation
    double recomputed_s;           // taken more by a backward that recomputes every block
};

// element_bytes: of parameters and activations.
void device_time_of(const struct transformer *t, const struct device_rates *rates, size_t sequence_count,
                    size_t element_bytes, struct device_time *out);
