// SPDX-License-Identifier: Apache-2.0
// The transfer of parameters to the device, ahead of their use (ZeRO-Infinity, section 6.2, "Overlap Centric Design").
//
// A fetch has three steps, each on a lane of its own: "nc-transfer" from NVMe to the host, "cg-transfer" from the host
// to the device, and "gg-transfer", the all-gather. "The prefetcher is aware of the three step communication process,
// and therefore can overlap the nc-transfer for one parameter with cg-transfer and gg-transfer of other parameters."
//
// Each rank reads only its own 1/N_d of a parameter, by its own link (section 6.1, "bandwidth-centric partitioning").
//
// The first step records the order in which buckets are acquired (access_trace.h). Later steps fetch in that order, as
// many elements ahead as prefetch_bucket_size, into a cache of full buckets on the device. Positions in the order count
// from 0, and acquired ones lie behind `fetched`.
#pragma once

#include "ref/config/config.h"
#include "ref/executor/move.h"
#include "ref/optimizer/optimizer.h"
#include "ref/partition/buffer_cache.h"
#include "ref/partition/exchange.h"
#include "ref/partition/layout.h"
#include "ref/stage/access_trace.h"
#include "ref/tier/tier.h"

#include <stdbool.h>
#include <stdint.h>

struct stage;

// All of it outlives the prefetcher.
struct prefetcher_setting {
    const struct config *config;
    const struct layout *layout;
    const struct placement *placements;         // by bucket: the rank's shards of parameters, on any tier
    const struct exchange *const *exchange_of;  // by bucket
    const struct move *move;
    struct tier *tier;
    int layer_count;
    // Issues what must precede reads of the bucket's parameters.
    int (*before_use)(struct stage *stage, int bucket);
    struct stage *stage;
};

struct prefetcher {
    struct prefetcher_setting setting;
    struct access_trace access_trace;  // of uses: 2 x bucket, plus 1 in backward
    struct buffer_cache gathered;      // device: full buckets, in use or fetched ahead
    struct buffer_cache host_params;   // host: the rank's shards of buckets on NVMe
    uint64_t host_hits, host_misses;   // fetches that found the shard in host_params, and that read it from NVMe
    uint64_t layer_begin;              // position of the present layer's first bucket
    uint64_t fetched;                  // buckets at positions below this one have been fetched
    uint64_t *fetched_at;              // by bucket: the last position that it was fetched for, plus 1; 0: none
    uint64_t touched_count;            // elements fetched so far, those found in `gathered` included
    uint64_t *touched_at;              // by bucket: touched_count when it was last fetched
};

int prefetcher_open(const struct prefetcher_setting *setting, struct prefetcher *out);
void prefetcher_close(struct prefetcher *prefetcher);

// A layer asks for its buckets: first this, then prefetcher_acquire for each, then prefetcher_run_ahead.
void prefetcher_begin_layer(struct prefetcher *prefetcher);

// *full is the bucket's memory on the device, complete when the operations issued so far have run. An exchange
// may keep in forward what backward gathers again.
int prefetcher_acquire(struct prefetcher *prefetcher, int bucket, bool backward, const void **full);

// Fetches later layers.
int prefetcher_run_ahead(struct prefetcher *prefetcher);

// The layer has used the bucket: its buffer may be reused, unless it is kept for a later use. The executor lets the
// next fetch into the buffer begin when the operations that use it have run.
void prefetcher_release(struct prefetcher *prefetcher, int bucket);

// The step ends and parameters change: forgets all copies, and begins the recorded order again.
void prefetcher_restart(struct prefetcher *prefetcher);

// Host memory for the updated shard of a bucket whose parameters live on NVMe, where the next fetch of the bucket finds
// it. Until then it takes one of the buffers of host_params, of which another must remain.
void *prefetcher_take_update(struct prefetcher *prefetcher, int bucket);

// Fetches one bucket's shards into `full`, its padded memory on the device.
int prefetcher_fetch(struct prefetcher *prefetcher, int bucket, void *full);
