// SPDX-License-Identifier: Apache-2.0
// The memory of a rank of a GPU implementation (PyTorch's FSDP2, DeepSpeed), line by line, each with its formula and
// source. The reference's own ledger counts what the reference holds: fp32 activations, and buffers of its own design.
#pragma once

#include "plan/device/transformer.h"
#include "ref/config/config.h"
#include "ref/ledger/ledger.h"
#include "ref/model/model.h"

#include <stdint.h>

struct device_line {
    const char *name, *formula, *source;
    uint64_t bytes[TIER_COUNT];
};

enum { DEVICE_LINE_MAX = 12 };

struct device_memory {
    struct device_line lines[DEVICE_LINE_MAX];
    int line_count;
    uint64_t total_bytes[TIER_COUNT];
};

struct device_setting {
    const struct config *config;
    const struct model *model;
    const struct transformer *transformer;
    const uint64_t (*held_bytes)[KIND_COUNT];  // of the reference's ledger, [TIER_COUNT]: the stage's shards
    int world;
    int in_flight;              // micro-batches whose activations are held together; 0: one
    size_t logit_bytes;         // of a logit and its gradient; 0: both in fp32
    double checkpointed_share;  // of the blocks, 0 to 1: those that keep only their input
};

void device_memory_of(const struct device_setting *setting, struct device_memory *out);
