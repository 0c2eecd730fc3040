// SPDX-License-Identifier: Apache-2.0
// The parts of `bench peer`: each runs a part of training in turn with another implementation of it (peer.h). The ratio
// of a record is the peer's time over ours, or our rate over the peer's: above 1 we are faster. A record is printed
// only if both did the same work on the same data and the results were compared.
#pragma once

#include "bench/harness/bench.h"
#include "bench/peers/peer.h"

// The user's choices; null and 0: not given.
struct peer_options {
    struct bench_options shared;
    char *part, *beside, *label;
    char *recipe, *step;     // adam
    char *operation;         // comm, checkpoint
    char *direction, *size;  // nvme
    int depth;
    double seconds;
    char *model, *preset, *schedule, *dtype;  // step
    char **set;                               // popt's allocation
    int world, steps;
    double tolerance;
};

// Runs Adam over one tensor. Both sides must have the same bits, except that all of the peer's parameters may follow
// one other recipe of the conformance suite, as PyTorch's do if it takes square roots from MKL. The record names the
// recipe.
int peer_adam(const struct peer_options *options, struct peer *peer);

// Runs a collective among ranks on this machine. Each side verifies its own results.
int peer_comm(const struct peer_options *options, struct peer *peer);

// Reads or writes a file, in turn with fio, too. Each side verifies its own data.
int peer_nvme(const struct peer_options *options, struct peer *peer);

// Saves the states of training, or loads what was saved. Each side compares its own.
int peer_checkpoint(const struct peer_options *options, struct peer *peer);

// Trains a GPT in fp32 or bf16 from the same weights on the same text. Every loss is compared.
int peer_step(const struct peer_options *options, struct peer *peer);

// The largest accepted relative difference between the losses of a step, unless the user names one for a peer whose
// states are less precise: of the order of some hundred roundings in fp32; of a few in bf16, whose places differ
// between implementations.
#define PEER_LOSS_TOLERANCE 1e-4
#define PEER_LOSS_TOLERANCE_BF16 0x1p-6
