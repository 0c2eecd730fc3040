// SPDX-License-Identifier: Apache-2.0
// What the decision about a step (optimizer.c), the norm (gradient_norm.c), the update (sub_group.c) and speculation
// (speculation.c) share.
#pragma once

#include "ref/optimizer/optimizer.h"

// Elements [from, from + count) of this rank's shard of a bucket, in the memory where Adam runs, and the step's
// factors: the next step's may be decided before Adam has run. The scalars of all groups follow.
struct sub_group {
    const struct optimizer *optimizer;
    int bucket;
    float divisor, coefficient;
    size_t from, count;
    const void *gradient;
    void *master, *exp_avg, *exp_avg_sq;
    void *model_params;            // the updated parameters in the model's dtype; null: none
    struct executor_span scratch;  // of a whole update
    uint64_t step, t;              // for one
};

// Issues the operation that updates a sub-group on a tier. Null states are none of its spans.
int optimizer_issue_operation(struct optimizer *optimizer, const struct sub_group *group, enum ledger_tier here);

// The update of a bucket whose one parameter is whole: issues it, in one operation, or where this rank has a slice of
// the parameter in two, of which the first has no master and the second no gradient; and runs such an operation.
int optimizer_issue_whole(struct optimizer *optimizer, const struct sub_group *group, enum ledger_tier here);
int optimizer_run_whole(const struct sub_group *group);

// The name of the operations that a verified run has beyond others.
#define OPTIMIZER_DIGEST "digest"

// Collective: the largest magnitude of all gradients, complete when all scans are; and the sum of their squares, of
// which every element counts once.
int optimizer_global_maximum(struct optimizer *optimizer, uint32_t *max_bits);
int optimizer_global_sum(struct optimizer *optimizer, uint32_t max_bits, struct norm_sum *sum);

// Room for this rank's number and those of all ranks that must agree about it.
size_t optimizer_gathered_bytes(const struct optimizer *optimizer);

// Begins update t + 1 with gradients that were made with that loss scale.
int optimizer_advance(struct optimizer *optimizer, double scale);

// Issues the update of a bucket's shard, in place or into the places of a speculative one; shard as in
// optimizer_update.
int optimizer_issue_update(struct optimizer *optimizer, int bucket, bool speculative, void *shard);

// Brings the three states of a sub-group to a tier's memory, where Adam runs; those on their way to `goal`, if that is
// another place there.
int optimizer_bring_states(struct optimizer *optimizer, int bucket, size_t from, size_t count,
                           const struct adam_states *goal, struct adam_states *out);

// *out is where the states of a sub-group were read ahead; false: they were not.
bool optimizer_take_ahead(struct optimizer *optimizer, int bucket, size_t from, struct adam_states *out);

// Gives the buffers of what was read ahead to others.
void optimizer_drop_ahead(struct optimizer *optimizer);

// Makes the parameters that wait in `pending` this rank's shard of the parameters.
int optimizer_show_pending(struct optimizer *optimizer, int bucket);

// Makes a bucket's speculative update the update; drops those of all buckets, and returns whether there were any.
int optimizer_commit(struct optimizer *optimizer, int bucket);
bool optimizer_drop(struct optimizer *optimizer);
