// SPDX-License-Identifier: Apache-2.0
// What the parts of training share: a rank's context, and the comparison with unsharded Adam.
#ifndef ZG_TRAIN_INTERNAL_H
#define ZG_TRAIN_INTERNAL_H

#include "ref/train/activation.h"
#include "ref/oracle/oracle.h"
#include "ref/train/train.h"

#include <pthread.h>

// What adds up over ranks at the end of a run.
struct train_totals {
    uint64_t accounting_differs;  // ranks whose ledger differs from the formula in any line
    uint64_t unlocked_bytes, host_hits, host_misses;
    uint64_t moved_bytes[LANE_COUNT][OPERATION_COUNT], formula_moved_bytes[LANE_COUNT][OPERATION_COUNT];
};

struct train_rank {
    const struct train_setting *setting;
    struct train_result *result;  // written by rank 0 alone, but for the totals of all ranks
    int rank;
    struct comm *comm;
    pthread_t thread;
    int rc;
    char message[2048];
    struct ledger ledger;
    struct tier *tier;       // device and host
    struct tier_nvme *nvme;  // null: nothing lives there
    struct inject inject;
    struct executor *executor;
    struct stage stage;
    struct model_run *run;
    struct activations activations;
    struct model_batch *batches;             // by micro-step
    uint64_t resumed_step, resumed_applied;  // of the checkpoint that the run continues
    double loss;                             // of this rank's micro-batches, summed
    void *arguments;                         // of the compute operation being issued
    struct oracle *oracle;                   // rank 0
    struct model_batch oracle_tokens;
    float *full;  // room for the largest padded bucket
    void *expected;
    struct formula formula;
    struct train_totals totals;  // this rank's, and after train_collect all ranks'
};

// Opens a rank whose setting, result, number and comm are given, and frees what it has. With the dry schedule it has no
// data, its tiers are planned ones, and it is never verified.
int train_rank_open(struct train_rank *rank);
void train_rank_close(struct train_rank *rank);

// Collective, after each step: the mean loss over ranks, and whether any rank wants to stop.
int train_agree(struct train_rank *rank, double *loss, bool *stop);

// The micro-batch of (step, micro, rank); tokens is room for it, or null where the model wants none.
int train_batch(const struct train_setting *setting, uint64_t step, int micro, int rank, uint16_t *tokens,
                struct model_batch *out);

// Forward, backward and update of one step, issued and waited for.
int train_step(struct train_rank *rank, uint64_t step, bool *applied);

// Opens the oracle on rank 0, and every rank's room for comparing.
int verify_open(struct train_rank *rank);
void verify_close(struct train_rank *rank);

// Collective: every bit of every state after the step against the oracle's; rank 0 notes the first difference.
int verify_step(struct train_rank *rank, uint64_t step, bool applied, double loss);

// Collective: rank 0 receives the digest.
int verify_digest(struct train_rank *rank, char digest[33]);

#endif
