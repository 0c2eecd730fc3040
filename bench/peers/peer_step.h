// SPDX-License-Identifier: Apache-2.0
// The first messages to a peer of `bench peer --part step`: peer_step_send.c has their format.
#ifndef ZG_PEER_STEP_H
#define ZG_PEER_STEP_H

#include "bench/peers/bench_peer.h"
#include "ref/train/train.h"

enum { PEER_STEP_SEED = 1 };

struct peer_step_start {
    const struct peer_options *options;
    const struct config *config;
    const struct mesh *mesh;
    const struct model *model;  // a GPT
    struct text *text;
    size_t turn_steps, turns;
};

// Sends it and waits until the peer is ready.
int peer_step_send(const struct peer_step_start *start, struct peer *peer);

// Threads of a rank on both sides: one unless the user wants more.
int peer_step_threads(const struct peer_options *options);

#endif
