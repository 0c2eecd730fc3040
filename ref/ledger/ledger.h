// SPDX-License-Identifier: Apache-2.0
// The ledger: every byte held (tier x kind) and every byte moved (lane x operation) by one rank. Only tiers and
// collectives write it. The papers' formulas must equal it. All functions may be called from any thread. A null ledger
// counts nothing.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum ledger_tier { TIER_DEVICE, TIER_HOST, TIER_NVME, TIER_COUNT };

enum ledger_kind {
    KIND_PARAMETER,   // parameters in the model's dtype
    KIND_GRADIENT,    // gradients that outlive the layer that made them
    KIND_OPTIMIZER,   // exp_avg and exp_avg_sq
    KIND_MASTER,      // the parameters that Adam updates, where those of the model are other memory
    KIND_STAGING,     // buffers for values on their way: gradient buckets, gathered layers
    KIND_ACTIVATION,  // activations that forward keeps for backward, and the model's scratch memory
    KIND_PADDING,     // elements that only make ranks' shards equal; no other kind includes them
    KIND_COUNT
};

enum lane { LANE_COMPUTE, LANE_COLLECTIVE, LANE_H2D, LANE_D2H, LANE_NVME_READ, LANE_NVME_WRITE, LANE_CPU, LANE_COUNT };

enum ledger_operation {
    OPERATION_ALL_GATHER,
    OPERATION_REDUCE_SCATTER,
    OPERATION_ALL_REDUCE,
    OPERATION_ALL_TO_ALL,
    OPERATION_BROADCAST,
    OPERATION_SEND,
    OPERATION_COPY,
    OPERATION_COUNT
};

// The cargo of a collective or a message: gradients, parameters, or anything else, such as activations and the loss.
enum ledger_purpose { PURPOSE_OTHER, PURPOSE_REDUCE, PURPOSE_GATHER, PURPOSE_COUNT };

// The ranks among which a collective or a message is: those of a group of the mesh (ref/mesh/mesh.h).
enum ledger_group {
    GROUP_WORLD,        // all ranks
    GROUP_SHARD,        // that partition states together, where these are not all ranks
    GROUP_REPLICATE,    // with the same shard of everything
    GROUP_SECONDARY,    // that hold hpZ's second copy of the parameters together
    GROUP_NODE,         // of one node, in the first hop of qgZ
    GROUP_NODES,        // with the same place in every node, in its second hop
    GROUP_EXPERT,       // that hold all experts together
    GROUP_EXPERT_DATA,  // that partition the states of the same experts
    GROUP_TENSOR,       // that cut each layer
    GROUP_PIPELINE,     // the stages of a pipeline
    GROUP_MODEL,        // that hold all parts of the model together: tensor x pipeline
    GROUP_COUNT
};

struct ledger {
    _Atomic uint64_t held_bytes[TIER_COUNT][KIND_COUNT];
    _Atomic uint64_t tier_bytes[TIER_COUNT];       // now, all kinds
    _Atomic uint64_t tier_peak_bytes[TIER_COUNT];  // maximum of tier_bytes
    _Atomic uint64_t moved_bytes[LANE_COUNT][OPERATION_COUNT];
    _Atomic uint64_t moved_count[LANE_COUNT][OPERATION_COUNT];  // calls
    _Atomic uint64_t sent_bytes[PURPOSE_COUNT];                 // between ranks; moved_bytes includes them
    _Atomic uint64_t sent_count[PURPOSE_COUNT];                 // calls
    _Atomic uint64_t group_bytes[GROUP_COUNT];                  // the same bytes as sent_bytes
};

const char *ledger_tier_name(enum ledger_tier tier);
const char *ledger_kind_name(enum ledger_kind kind);
const char *ledger_lane_name(enum lane lane);
const char *ledger_operation_name(enum ledger_operation operation);
const char *ledger_group_name(enum ledger_group group);

// " (parameter 20 MiB, optimizer 40 MiB)": the bytes held on a tier, by kind; "" where none are. Returns out.
enum { LEDGER_HELD_TEXT_BYTES = 512 };
const char *ledger_held_text(const struct ledger *ledger, enum ledger_tier tier, char out[LEDGER_HELD_TEXT_BYTES]);

// Adds bytes held, or subtracts them. Dropping more than is held is an error of the caller.
void ledger_hold(struct ledger *ledger, enum ledger_tier tier, enum ledger_kind kind, uint64_t bytes);
void ledger_drop(struct ledger *ledger, enum ledger_tier tier, enum ledger_kind kind, uint64_t bytes);

// Counts one operation that sent `bytes` from this rank.
void ledger_move(struct ledger *ledger, enum lane lane, enum ledger_operation operation, uint64_t bytes);

// Counts `count` collectives or messages, which sent `bytes` together, by operation, by purpose and by group.
void ledger_send(struct ledger *ledger, enum ledger_group group, enum ledger_purpose purpose,
                 enum ledger_operation operation, uint64_t count, uint64_t bytes);
