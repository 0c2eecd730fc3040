// SPDX-License-Identifier: Apache-2.0
// A rank's context, and the comparison with unsharded Adam.
#ifndef ZG_TRAIN_INTERNAL_H
#define ZG_TRAIN_INTERNAL_H

#include "ref/train/activation.h"
#include "ref/oracle/oracle.h"
#include "ref/train/train.h"

#include <pthread.h>

// Counts that are summed over ranks at the end of a run.
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
    struct model **parts;       // by index in an expert group: the models of its ranks; null without expert parallelism
    const struct model *model;  // that this rank trains: its part, or the whole
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
    void *expected, *other;
    struct formula formula;
    struct train_totals totals;  // this rank's, and after train_collect all ranks'
};

// Opens a rank whose setting, result, rank and comm are set; close frees it after an error, too. With the dry schedule
// its tiers are planned, its states have no values, and it is not verified.
int train_rank_open(struct train_rank *rank);
void train_rank_close(struct train_rank *rank);

// Opens the parts and chooses the rank's model. ERR_USAGE: the mesh does not fit the model.
int train_parts_open(struct train_rank *rank);
void train_parts_close(struct train_rank *rank);

// The parts that differ in a bucket, 1 for what every rank has alike; this rank's index among them; and a bucket's
// parameter of part `part` in the whole model.
int train_part_count(const struct train_rank *rank, const struct bucket *bucket);
int train_part_own(const struct train_rank *rank, const struct bucket *bucket);
int train_part_param(const struct train_rank *rank, int part, int param);

// Collective, after each step. *loss is the mean over ranks; *stop is true if any rank wants to stop.
int train_agree(struct train_rank *rank, double *loss, bool *stop);

// The micro-batch of (step, micro, rank). tokens is its memory, or null for models that want no text.
int train_batch(const struct train_setting *setting, uint64_t step, int micro, int rank, uint16_t *tokens,
                struct model_batch *out);

// At the end of a run: this rank's totals, with the ledger compared line by line with the formula; collective: the sum
// of all ranks' totals, in every rank; and that sum in the result.
void train_account(struct train_rank *rank);
int train_add_totals(struct train_rank *rank);
void train_keep_totals(const struct train_totals *totals, struct train_result *out);

// Collective: the stage, which is open, takes up the checkpoint, if there is one. With verification the oracle makes
// all steps of the checkpoint first and must arrive at the same bits.
int train_resume(struct train_rank *rank);

// Collective: saves after a step, if a checkpoint is due. `last`: no step follows. A state that differs from the
// oracle's is not saved.
int train_save(struct train_rank *rank, uint64_t step, bool applied, double loss, bool last);

// Forward, backward and update of one step, issued and waited for.
int train_step(struct train_rank *rank, uint64_t step, bool *applied);

// Opens the oracle on rank 0, and allocates every rank's memory for comparisons.
int verify_open(struct train_rank *rank);
void verify_close(struct train_rank *rank);

// Collective: compares every bit of every state after the step with the oracle's. Rank 0 keeps the first difference.
int verify_step(struct train_rank *rank, uint64_t step, bool applied, double loss);

// Collective: rank 0 receives the digest.
int verify_digest(struct train_rank *rank, char digest[FILE_DIGEST_BYTES]);

#endif
