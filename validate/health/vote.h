// SPDX-License-Identifier: Apache-2.0
// A round's results by core, shared by round.c, which runs the operations, and vote.c, which compares them.
#pragma once

#include "validate/health/health_round.h"

// Repeated runs of an operation on a suspected core.
enum { HEALTH_AGAIN = 10 };

// One core's part of a round.
struct core_run {
    const struct health_round_setting *setting;
    size_t index;            // of the core
    unsigned char *results;  // of all operations, one after the other
    int codes[HEALTH_OPERATION_MAX];
    char texts[HEALTH_OPERATION_MAX][HEALTH_TEXT_MAX];
    double seconds[HEALTH_OPERATION_MAX], moving_s[HEALTH_OPERATION_MAX];
    size_t done;  // operations
    int pinned;   // the code of pin_to
};

// Where an operation's result begins in core_run.results.
size_t result_offset(const struct health_round_setting *setting, size_t operation);

// Runs an operation again on that core, over its result. attempt: 1 for the first repetition.
int core_run_again(struct core_run *run, size_t operation, int attempt);

// Holds the result of `bad` against that of `good`: adds a mismatch to *out, and runs the operation again on bad's
// core. core: what the mismatch names.
int health_suspect(const struct core_run *good, struct core_run *bad, size_t operation, int core,
                   struct health_round *out);

// Adds a mismatch to *out. ERR_MEMORY.
int health_mismatch_add(struct health_round *out, const struct health_mismatch *mismatch);

// Votes on one operation's results of all cores: adds its digest and its mismatches to *out. Cores without a part in
// the majority run the operation again, so their results change.
int health_vote(struct core_run *runs, size_t operation, struct health_round *out);
