// SPDX-License-Identifier: Apache-2.0
// The parts of `bench peer`: each does a part of training beside another implementation of it (peer.h). The ratio of a
// record is the peer's time over ours, or our rate over its: above 1 we are faster. Both have done the same work on the
// same data, and the results were compared, or there is no number.
#ifndef ZG_BENCH_PEER_H
#define ZG_BENCH_PEER_H

#include "bench/harness/bench.h"
#include "bench/peers/peer.h"

// What the user asked for; null and 0: not said.
struct peer_options {
    struct bench_options shared;
    char *part, *beside, *label;
    char *recipe, *step;     // adam
    char *operation;         // comm
    char *direction, *size;  // nvme
    int depth;
    double seconds;
    char *model, *preset, *schedule;  // step
    char **set;                       // popt's allocation
    int world, steps;
};

// Adam over one tensor: the same bits on both sides; but parameters may follow another recipe of the conformance suite,
// all of them the same, as PyTorch's do where it takes its square roots from MKL. The record names it.
int peer_adam(const struct peer_options *options, struct peer *peer);

// A collective of ranks on this machine; the peer verifies its results, as we do ours.
int peer_comm(const struct peer_options *options, struct peer *peer);

// Reading or writing a file, with fio between the two. Both verify what was read.
int peer_nvme(const struct peer_options *options, struct peer *peer);

// Steps of training a GPT in fp32 from the same weights on the same text: every loss is compared.
int peer_step(const struct peer_options *options, struct peer *peer);

// The largest relative difference of two losses of the same step.
#define PEER_LOSS_TOLERANCE 1e-4

#endif
