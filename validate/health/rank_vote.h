// SPDX-License-Identifier: Apache-2.0
// The vote between the ranks of a launcher: after the cores of each rank have voted, all ranks compare what they have.
// Results that depend on the processor's kind are left out.
#pragma once

#include "validate/health/health_round.h"
#include "ref/comm/comm.h"

// A rank's result of an operation. digest: "" if its cores had no majority.
struct health_ballot {
    char operation[HEALTH_NAME_BYTES];  // "": the rank has no further operation
    char digest[33];
    uint64_t result_bytes;
};

// Writes the digest that more ranks have for this operation than any other; of as many, the one that they have for the
// same operation in other instruction sets, such as "Adam, avx2" for "Adam, scalar". "": there is none.
// ballots: [world][HEALTH_OPERATION_MAX].
void health_elect_digest(const struct health_ballot *ballots, int world, const char *operation, char digest[33]);

// Votes on every operation of a round that `setting` described; all ranks call it with the same round and seed. A rank
// whose result is not that of most ranks gets a mismatch, with the place of the first wrong element. If nobody can be
// named, rank 0 gets it.
int health_vote_ranks(const struct health_round_setting *setting, struct comm *comm, struct health_round *round);

// Exchanges bytes with another rank, in every round the next one until all have met, and adds a mismatch for wrong
// words received, which names the sender by name_of. All ranks call it with the same round and seed. A flip of the
// operation HEALTH_LINK spoils bytes that this rank receives.
#define HEALTH_LINK "link"
int health_exchange_ranks(const struct health_round_setting *setting, struct comm *comm,
                          const char *(*name_of)(int rank), struct health_round *round);
