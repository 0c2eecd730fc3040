// SPDX-License-Identifier: Apache-2.0
// A rank's context, and the comparison with unsharded Adam.
#pragma once

#include "ref/train/activation.h"
#include "ref/mesh/mesh.h"
#include "ref/model/part.h"
#include "ref/oracle/oracle.h"
#include "ref/pipeline/schedule.h"
#include "ref/stage/stage_shard.h"
#include "ref/train/train.h"

#include <pthread.h>

// Counts that are summed over ranks at the end of a run.
struct train_totals {
    uint64_t accounting_differs;  // ranks whose ledger differs from the formula in any line
    uint64_t unlocked_bytes, host_hits, host_misses;
    uint64_t moved_bytes[LANE_COUNT][OPERATION_COUNT], formula_moved_bytes[LANE_COUNT][OPERATION_COUNT];
    uint64_t group_bytes[GROUP_COUNT], formula_group_bytes[GROUP_COUNT];
};

// A rank as a stage of a pipeline (train_pipeline.c).
struct train_pipeline {
    struct pipeline_schedule schedule;
    int stage;            // this rank's, of schedule.stage_count
    int tied;             // the tied weight's index in this stage's model; -1: none, or at no other end
    size_t tied_bytes;    // in the model's dtype
    void *tied_gradient;  // the last stage: its part of the gradient
    uint64_t returned;    // updates that forward had seen before this step (struct optimizer)
};

struct train_rank {
    const struct train_setting *setting;
    struct train_result *result;  // written by rank 0 alone, but for the totals of all ranks
    int rank;
    struct comm *comm;  // of the world
    struct mesh mesh;
    int data_rank;               // this rank's index among the ranks that train the same part: it has micro-batches
    struct model_part *part;     // null: the whole model
    const struct model *model;   // that this rank trains: the part's, or the whole one
    struct comm *data_comm;      // of the ranks that train the same part; the world's if that is the whole model
    struct comm *parts_comm;     // of the ranks with the same micro-batches, one for each part; null: there is one part
    struct comm *tensor_comm;    // of the ranks that cut each layer; null: none do
    struct comm *slices_comm;    // the same, for updates during passes; null: no update needs others' slices
    struct comm *pipeline_comm;  // of the pipeline's stages, ranks as they; null: there is one stage
    struct comm *token_comm;     // of the ranks that have all experts together, where they are whole; else null
    pthread_t thread;
    int rc;
    char message[2048];
    struct ledger ledger;
    struct tier *tier;       // device and host
    struct tier_nvme *nvme;  // null: nothing lives there
    struct inject inject;
    struct executor *executor;
    struct stage stage;
    struct train_pipeline pipeline;
    struct model_run **runs;  // [run_count]; a micro-batch in flight has one of its own, unless it keeps checkpoints
    int run_count;
    struct activations activations;
    struct model_batch *batches;             // by micro-step
    uint64_t resumed_step, resumed_applied;  // of the checkpoint that the run continues
    size_t run_bytes;                        // of each run's memory
    // Numbers of this step that operations make or send, in memory that is theirs while they are pending.
    double *loss;                                   // of this rank's micro-batches, summed
    struct train_report_of_rank *report, *reports;  // this rank's, and [world] all ranks'
    void *arguments;                                // of the compute operation being issued
    struct oracle *oracle;                          // rank 0
    struct train_difference difference;             // from unsharded Adam, as all ranks know it
    struct noted_step *noted;                       // steps that the oracle has not made
    size_t noted_count, noted_capacity;
    uint64_t verified_step;  // the last that the oracle has made
    struct model_batch oracle_tokens;
    float *full;  // room for the largest padded bucket of any part, full_elements
    size_t full_elements;
    void *expected;
    float *save_copy;             // host memory for asynchronous saves; null: steps wait for saves
    struct ongoing_save *saving;  // the save that is under way, of the step saving_step; null: none is
    uint64_t saving_step;
    struct formula formula;
    struct train_totals totals;  // this rank's, and after train_collect all ranks'
};

// One run of all ranks; *out is set but for param_elements. *difference_step: the first step that differs, as all
// processes know; 0: none.
int train_run_once(const struct train_setting *setting, struct train_result *out, uint64_t *difference_step);

// Opens a rank whose setting, result, rank and comm are set; close frees it after an error, too. With the dry schedule
// its tiers are planned, its states have no values, and it is not verified.
int train_rank_open(struct train_rank *rank);
void train_rank_close(struct train_rank *rank);

// Frees the memory of forward and backward, after the last step.
void train_rank_close_runs(struct train_rank *rank);

// Opens a rank's place on the mesh: its part of the model and the communicators. Collective.
int train_part_open(struct train_rank *rank);
void train_part_close(struct train_rank *rank);

// True if the layer's passes exchange values with other ranks: sums of tensor parallelism, or tokens of experts.
bool train_exchanges(const struct train_rank *rank, int layer);

// Adds the bytes that the layers' passes send to the ranks that cut them in a step.
void train_exchange_formula(const struct train_rank *rank, struct formula *formula);

// In a dry run, which computes nothing, issues what a layer's pass exchanges; elsewhere does nothing.
int train_exchange_dry(struct train_rank *rank, int layer, enum pass pass, int micro);

// The ranks that train one part, each with micro-batches of its own.
int train_data_ranks(const struct train_setting *setting);

// A bucket of one part of the model, as all ranks of the world know it.
struct train_piece {
    struct model_slice slice;  // of a whole parameter
    size_t offset;             // of its first element in the bucket
};
struct train_bucket {
    int first_rank;  // of those that train the part
    bool mine;       // this rank is one of them
    int index;       // of the bucket in their layout
    bool frozen;
    size_t count;  // elements
    int piece_count;
    const struct train_piece *pieces;
};

// Collective: every rank visits every bucket of every part, in the same order.
typedef int train_visit(struct train_rank *rank, const struct train_bucket *bucket, void *context);
int train_each_bucket(struct train_rank *rank, train_visit *visit, void *context);

// Of a step, as all ranks know it.
struct train_outcome {
    bool applied;
    double loss;  // the mean over ranks
    bool stop;    // some rank wants to stop
    bool saves;   // some rank's file of the save under way was not written yet
};

// Collective, in each step: issues the exchange of this rank's loss and wish to stop, and waits for those of all ranks.
int train_agree_begin(struct train_rank *rank);
int train_agree_end(struct train_rank *rank, struct train_outcome *out);

// The micro-batch of (step, micro, rank); rank counts those of data parallelism. tokens is its memory, or null for
// models that want no text.
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

// Allocates what an asynchronous save needs, and adds it to the formula. The rank may be planned: then it saves so if
// the configuration says so.
int train_save_open(struct train_rank *rank);

// Returns whether a thread of this rank is writing its file.
bool train_save_writes(const struct train_rank *rank);

// Collective: saves after a step, if a checkpoint is due, or begins to. `last`: no step follows. A state that differs
// from the oracle's is not saved. An asynchronous save ends after the step in which no rank was writing, or when the
// next one is due.
int train_save(struct train_rank *rank, uint64_t step, const struct train_outcome *made, bool last);

// Forward, backward and update of one step. When it returns the step is decided; an update outside the device may still
// run (stage_overlaps_updates).
int train_step(struct train_rank *rank, uint64_t step, struct train_outcome *out);

// Waits until the last step is complete, its update included, so that its states may be read.
int train_settle(struct train_rank *rank);

// Makes the micro-batch of a micro-step, whose memory it waits for.
int train_take_batch(struct train_rank *rank, uint64_t step, int micro);

// Issue a layer's computation, and what it exchanges; the layer is acquired. Forward keeps the layer's checkpoint, if
// it has one; backward reads `checkpoint`, or null, as activations_restore returned it.
int train_forward(struct train_rank *rank, int layer, int micro);
int train_backward(struct train_rank *rank, int layer, int micro, void *checkpoint);

// Issues the passes of all micro-batches: forward and backward of one after the other, or in the order of a pipeline's
// schedule and with its messages between them.
typedef int train_pass_forward(struct train_rank *rank, uint64_t step, int micro);
typedef int train_pass_backward(struct train_rank *rank, int micro);
int train_each_micro_step(struct train_rank *rank, uint64_t step, train_pass_forward *forward,
                          train_pass_backward *backward);

// After stage_step: sends an updated tied weight from the first stage of a pipeline to the last, if forward will see
// it. Waits for the update, unless it overlaps the next step.
int train_end_step(struct train_rank *rank);

// Opens the oracle on rank 0, and allocates every rank's memory for comparisons.
int verify_open(struct train_rank *rank);
void verify_close(struct train_rank *rank);

// A step as this rank made it, after train_step; with TRAIN_VERIFY it is noted, to be compared by verify_catch_up.
struct oracle_decision verify_made(const struct train_rank *rank, bool applied, double loss);
int verify_note(struct train_rank *rank, const struct oracle_decision *made);

// Collective: the states of a checkpoint of that step, which are loaded; the oracle has made all steps before it.
int verify_resumed(struct train_rank *rank, uint64_t step, bool applied, double loss);

// Collective, when the run has waited for all updates: compares the noted steps with the oracle's, and then every bit
// of every state.
int verify_catch_up(struct train_rank *rank);

// Collective: waits for the update, and compares the step and every bit of every state after it with the oracle's.
int verify_step(struct train_rank *rank, uint64_t step, const struct oracle_decision *made);

// The parts of these. verify_lay_out: expected = the oracle's tensors of one bucket as the bucket lays them out; state
// STATE_COUNT: in the model's dtype. verify_decision and verify_states keep the first difference in *out, unless there
// is one; verify_states is collective. verify_agree, collective: all ranks know the first difference of any.
void verify_lay_out(const struct train_rank *rank, const struct train_bucket *b, int state, size_t element_bytes);
void verify_decision(const struct train_rank *rank, const struct oracle_decision *made,
                     const struct oracle_decision *expected, struct train_difference *out);
int verify_states(struct train_rank *rank, struct train_difference *out);
int verify_agree(struct train_rank *rank, uint64_t step, const struct train_difference *mine);

// The digest of the oracle's states, on rank 0: that of a run that is equal.
void verify_digest(const struct train_rank *rank, char digest[FILE_DIGEST_BYTES]);

// Collective: rank 0 receives the digest.
int train_states_digest(struct train_rank *rank, char digest[FILE_DIGEST_BYTES]);

// Sets the rank's stage and its schedule; the rest after the stage of ZeRO is open.
void train_pipeline_place(struct train_rank *rank);
int train_pipeline_open(struct train_rank *rank);

// Before a micro-batch's backward of a layer, whose gradient is open: in the first stage, receives the last stage's
// part of the tied weight's gradient.
int train_pipeline_receive_tied(struct train_rank *rank, int micro, int layer);

// After a checkpoint is loaded, complete and uncounted: sends the tied weight from the first stage to the last. A
// checkpoint has each weight once.
int train_pipeline_resume(struct train_rank *rank);

// Adds the bytes held, and those sent in every step and after every update.
void train_pipeline_formula(const struct train_rank *rank, struct formula *formula);
