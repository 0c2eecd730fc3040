// SPDX-License-Identifier: Apache-2.0
// The optimizer states of one large tensor: on NVMe, updated by the optimizer of training, so that sub-groups pass
// through staging buffers; or in memory, updated by Adam in one piece, whose results the other must equal.
#pragma once

#include "ref/arithmetic/adam.h"
#include "ref/config/config.h"
#include "ref/executor/executor.h"
#include "ref/tier/inject.h"
#include "ref/optimizer/optimizer.h"

#include <stdbool.h>

struct swap_setting {
    size_t count;  // parameters
    bool on_nvme;
    const char *const *paths;  // [path_count] folders
    int path_count;
    size_t sub_group_count;  // parameters per sub-group
    int buffer_count;        // host buffers, each for one state of a sub-group; at least SWAP_BUFFERS_MIN
    struct nvme_aio aio;
    bool checksum, buffered;
    int threads;                       // for Adam
    const struct inject_plan *inject;  // null: no faults
};

// Master parameters, exp_avg and exp_avg_sq pass through buffers; gradients and 16-bit parameters are on the host.
enum { SWAP_BUFFERS_MIN = 3 };

struct swap_states {
    struct swap_setting setting;
    struct config config;
    struct model model;
    struct model_param param;
    struct model_layer layer;
    struct layout layout;
    struct placement placement;
    struct optimizer optimizer;  // on NVMe only
    struct adam_step step;       // in memory only, with the next two
    struct recipe_state recipe_state;
    uint64_t step_count;
    struct comm *comm;
    struct ledger ledger;
    struct tier *tier;
    struct tier_nvme *nvme;
    struct inject inject;
    struct executor *executor;
    void *spare[SWAP_BUFFERS_MIN];  // on NVMe, as large as the states: targets of swap_states_transfer
    struct buffer_pool outgoing;    // the buffers that it writes
};

// Allocates and fills the states and bf16 gradients, equal in every set and step. After an error nothing is open.
int swap_states_open(const struct swap_setting *setting, struct swap_states *out);
void swap_states_close(struct swap_states *states);

// Begin prepares the next step, update makes it: on NVMe it reads, updates and writes all sub-groups
// (swap_states_step.c).
int swap_states_begin(struct swap_states *states);
int swap_states_update(struct swap_states *states);

// Moves a step's bytes through the same tier and lanes, with as many buffers, without Adam: reads into buffers, and
// unordered to them writes of other buffers to the spare bytes.
int swap_states_transfer(struct swap_states *states);

// Returns the bytes that a step reads; it writes as many.
size_t swap_states_bytes(const struct swap_states *states);

// Compares two sets of equal settings. ERR_CHECK names the first element of a state or of the bf16 parameters that
// differs.
int swap_states_compare(const struct swap_states *a, const struct swap_states *b);
