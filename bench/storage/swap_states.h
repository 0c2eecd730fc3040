// SPDX-License-Identifier: Apache-2.0
// One set of optimizer states of one large tensor: on NVMe, with the optimizer over them that training has (update.h,
// sub_group.c), so that sub-groups pass through staging buffers; or in memory, with Adam in one piece and nothing else
// of the optimizer, which is what the other must equal.
#ifndef ZG_SWAP_STATES_H
#define ZG_SWAP_STATES_H

#include "ref/arithmetic/adam.h"
#include "ref/config/config.h"
#include "ref/executor/executor.h"
#include "ref/tier/inject.h"
#include "ref/optimizer/optimizer.h"

#include <stdbool.h>

// How a set is made.
struct swap_setting {
    size_t count;  // parameters
    bool on_nvme;
    const char *const *paths;  // [path_count] folders
    int path_count;
    size_t sub_group_count;  // parameters of a sub-group
    int buffer_count;        // host buffers, each for one state of a sub-group; at least SWAP_BUFFERS_MIN
    struct nvme_aio aio;
    bool checksum, buffered;
    int threads;                       // of Adam
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
    struct optimizer optimizer;  // on NVMe
    struct adam_step step;       // in memory; this and the next two
    struct recipe_state recipe_state;
    uint64_t step_count;
    struct comm *comm;
    struct ledger ledger;
    struct tier *tier;
    struct tier_nvme *nvme;
    struct inject inject;
    struct executor *executor;
    void *spare[SWAP_BUFFERS_MIN];  // on NVMe: as large as the states, for swap_states_transfer to write to
    struct buffer_pool outgoing;    // what it writes
};

// bf16 gradients of `count` elements, the same in every set and step.
int swap_states_open(const struct swap_setting *setting, struct swap_states *out);
void swap_states_close(struct swap_states *states);

// Prepares the next step, which swap_states_update then makes: on NVMe all sub-groups are read, updated and written.
int swap_states_begin(struct swap_states *states);
int swap_states_update(struct swap_states *states);

// The same bytes through the same tier and lanes, and as many buffers, without Adam: reads into buffers, and writes of
// others to the spare bytes, with no order between the two.
int swap_states_transfer(struct swap_states *states);

// Bytes that a step reads, and writes as many.
size_t swap_states_bytes(const struct swap_states *states);

// ERR_CHECK names the first element of a state, or of the 16-bit parameters, that differs.
int swap_states_compare(const struct swap_states *a, const struct swap_states *b);

#endif
