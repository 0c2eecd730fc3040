// SPDX-License-Identifier: Apache-2.0
// `bench peer --part step`: the first messages to a peer, whose format peer_step_send.c has, and the figures of both
// sides as shares of the machine's.
#pragma once

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

// Adds measurements of the Gflop/s of square matrix products in the model's dtype, verified, as many together as all
// ranks have threads.
int peer_step_multiply(const struct peer_step_start *start, struct bench_samples *gflops);

// The durations of a side's steps, and the most bytes that were resident in its processes in a counted turn; pages that
// processes share count in each.
struct peer_step_side {
    const struct bench_samples *step_ms;
    double peak_bytes;
};

// Returns a new object: "square_gflops", and of both sides the tokens per second, the model's operations as a share of
// these products, and the memory. Null without memory.
json_t *peer_step_figures(const struct peer_step_start *start, const struct bench_samples *gflops,
                          const struct peer_step_side *ours, const struct peer_step_side *theirs);
