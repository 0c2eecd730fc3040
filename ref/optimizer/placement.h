// SPDX-License-Identifier: Apache-2.0
// Where the states of a bucket live on a rank.
#pragma once

#include "ref/config/config.h"

#include <stdbool.h>

// Adam's states of a bucket, in the configured dtypes: the parameters that it updates, and the moments.
struct adam_states {
    void *master, *exp_avg, *exp_avg_sq;
};

// Where a bucket's states live on this rank: this rank's shard, unless said otherwise. An address on NVMe only names
// the bytes there (tier_nvme.h).
struct placement {
    enum ledger_tier gradient_tier, optimizer_tier, parameter_tier;
    int shard;                   // that this rank owns of the bucket
    bool in_norm;                // this rank adds the bucket to the norm, as one rank does of every element
    void *gradient_shard;        // the sum over ranks and micro-steps, in the accumulation dtype
    void *master;                // the parameters that Adam updates
    void *exp_avg, *exp_avg_sq;  // moments
    void *parameter;             // in the model's dtype; the same memory as master if placement_is_shared
    void *full_params;           // the padded bucket in the model's dtype, on the device; NULL where no rank holds it
    void *pending;               // delayed or speculative update: updated parameters that forward may not see yet
    void *other_gradient_shard;  // delayed update: the gradient of the other step
    struct adam_states speculated;  // speculative update: the states after the step, until it is decided
};

// The states of a sub-group that are in buffers before its update is issued (read_ahead.c).
enum { OPTIMIZER_AHEAD_MAX = 16 };
struct states_ahead {
    int bucket;
    size_t from;
    struct adam_states states;
};

// The tier in whose memory Adam updates a bucket: the device for states that live there, otherwise the host.
enum ledger_tier optimizer_tier(const struct placement *placement);

// The tier where updated parameters wait: the parameters' own, or the host for those on the device.
enum ledger_tier placement_pending_tier(const struct placement *placement);

// True if a bucket's update is speculative: it is offloaded with its gradient, and the configuration asks for it.
bool placement_is_speculative(const struct config *config, const struct placement *placement);

// True if parameters and master parameters are one memory: both in one dtype on one tier, and updates neither delayed
// nor speculative.
bool placement_is_shared(const struct config *config, const struct placement *placement);
