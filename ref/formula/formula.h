// SPDX-License-Identifier: Apache-2.0
// The papers' formulas for memory and traffic (ZeRO, figure 1 and section 7) in their exact form for N ranks: with
// Psi parameters in buckets, padding, staging buffers, and the scalars of norm and loss. The ledger must show exactly
// these bytes.
#pragma once

#include "ref/ledger/ledger.h"
#include "ref/stage/stage.h"

#include <stdint.h>

// Bytes moved by a rank; what it sends to others is in both arrays.
struct formula_moved {
    uint64_t bytes[LANE_COUNT][OPERATION_COUNT];
    uint64_t group_bytes[GROUP_COUNT];
};

struct formula {
    uint64_t held_bytes[TIER_COUNT][KIND_COUNT];
    struct formula_moved step;       // moved by this rank in every step,
    struct formula_moved applied;    // in every step that is not skipped,
    struct formula_moved rescanned;  // where the norm reads gradients on NVMe,
    struct formula_moved unhanded;  // where no update hands its parameters to the forward, but it reads them from NVMe,
    struct formula_moved reread;    // where states that were read ahead are read again,
    struct formula_moved redone;    // where speculative updates are made again,
    struct formula_moved returned;  // and whenever an update's parameters reach the model
};

// Adds bytes that the rank sends to others of a group.
void formula_send(struct formula_moved *moved, enum ledger_group group, enum ledger_operation operation,
                  uint64_t bytes);

// For rank `rank` of the stage's world, which holds activation_bytes for the model's run and sends report_bytes
// to other ranks after each step (the loss).
void formula_of(const struct stage *stage, int rank, uint64_t activation_bytes, uint64_t report_bytes,
                struct formula *out);

// The paper's formula, for tables: bytes of parameters, gradients and optimizer states of a rank on one tier, without
// padding and staging, as in "(p + g) Psi + K Psi/N"; "" if there are none, or if a ratio splits them over tiers. On a
// mesh of R replicas of S shards S takes the place of N; P ranks hold hpZ's second copy together. With experts cut over
// E ranks, Psi_e of the Psi parameters are experts' and Psi_d are not, and a rank has Psi_r = Psi_d + Psi_e/E of them.
enum { FORMULA_TEXT_BYTES = 64 };
const char *formula_memory_text(const struct config *config, enum ledger_tier tier, char out[FORMULA_TEXT_BYTES]);
const char *formula_traffic_text(const struct stage *stage);
