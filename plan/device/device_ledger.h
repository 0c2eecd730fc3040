// SPDX-License-Identifier: Apache-2.0
// The memory of a rank of a GPU implementation, line by line, each with its formula and source.
//
// Not everything is held at a time: a device needs what the fullest of four moments of a step holds.
#pragma once

#include "plan/device/framework.h"
#include "plan/device/transformer.h"
#include "ref/config/config.h"
#include "ref/ledger/ledger.h"
#include "ref/model/model.h"

#include <stdint.h>

// Of the last micro-step: the loss, with all activations; the backward pass of the last and of the first block, before
// and with all gradients; the update.
enum device_moment { MOMENT_LOSS, MOMENT_LAST_BLOCK, MOMENT_FIRST_BLOCK, MOMENT_UPDATE, MOMENT_COUNT };

struct device_line {
    const char *name, *formula, *source;
    uint64_t bytes[TIER_COUNT];
    unsigned moments;  // 1 << enum device_moment for each at which the device holds it
};

enum { DEVICE_LINE_MAX = 16 };

struct device_memory {
    struct device_line lines[DEVICE_LINE_MAX];
    int line_count;
    const struct framework *framework;
    enum device_moment fullest;          // of the device
    uint64_t tensor_bytes;               // on the device at the fullest moment
    uint64_t reserved_bytes;             // by the allocator for them, with blocks that it cannot use, in the median run
    uint64_t context_bytes;              // of libraries, outside of the allocator
    uint64_t total_bytes[TIER_COUNT];    // the device's at the fullest moment
    uint64_t at_most_bytes[TIER_COUNT];  // with the most that allocators have needed in addition
};

struct device_setting {
    const struct config *config;
    const struct model *model;
    const struct transformer *transformer;
    const uint64_t (*held_bytes)[KIND_COUNT];  // of the reference's ledger, [TIER_COUNT]: the stage's shards
    const struct framework_choice *choice;
    int world;
    double in_flight;  // micro-batches whose activations are held together; 0: one
};
