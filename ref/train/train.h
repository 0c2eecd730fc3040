// SPDX-License-Identifier: Apache-2.0
// Training: ranks as threads or as processes, each running the model's units through a stage, beside it, if asked,
// unsharded Adam and the comparison of every bit after every step.
#ifndef ZG_TRAIN_H
#define ZG_TRAIN_H

#include "ref/config/config.h"
#include "ref/executor/emulation.h"
#include "ref/executor/executor.h"
#include "ref/formula/formula.h"
#include "ref/tier/inject.h"
#include "ref/model/model.h"
#include "ref/stage/stage.h"
#include "ref/model/text.h"
#include "ref/executor/trace.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct accelerator;
struct train_checkpoints;

struct train_progress {
    uint64_t step, steps;
    double loss, lr, norm, scale, tokens_per_s;
    double eta_s;  // at the mean pace so far, without verification
    bool skipped;
};

// What an observer is told: a rank's stage, at rest. Collective calls are allowed, as every rank is told the same
// moments, and are not counted.
struct train_moment {
    struct stage *stage;
    int rank;
    uint64_t step;  // that has just been made; before the first one: the step that the run continues from
    bool applied;
};

struct train_setting {
    const struct config *config;
    const struct model *model;
    const struct text *text;  // null for models that want none, and on a dry executor
    int world;
    struct comm *comm;  // of the world that a launcher has started, this process being a rank of it; null: all ranks
                        // are threads of this process
    uint64_t steps, seed;
    struct executor_schedule schedule;
    uint64_t device_memory_bytes;                  // a rank; 0: no limit
    uint64_t host_memory_bytes, nvme_space_bytes;  // the same
    const struct accelerator *accelerator;         // what the device tier is; null: host memory
    int device_count;                              // of the accelerator: where the ranks are threads, they take turns
    int device;          // where this process is a rank: its own; else that of rank 0, from which they take turns
    bool buffered;       // NVMe through the page cache, where a file system has no O_DIRECT
    bool swap_checksum;  // of every block on NVMe, compared when it is read
    struct emulation emulation;
    struct inject_plan inject;  // faults on purpose
    struct trace *trace;        // open for the world, and given the timeline; null: none is kept
    int threads;                // a rank, for the update; 0: cores / world
    bool verify;
    bool native_reduction;                     // sums in the transport's own order, compared with the canonical ones
    struct train_checkpoints *checkpoints;     // train_checkpoint.h; may be null
    const volatile sig_atomic_t *interrupted;  // may be null; when set, training ends after the step
    void (*progress)(void *context, const struct train_progress *progress);  // after each step, from one thread
    void *progress_context;
    int (*observe)(void *context, const struct train_moment *moment);  // before the first step, and after each
    void *observe_context;
};

// The first bit that differs from unsharded Adam. Without addresses, as it travels between ranks.
struct train_difference {
    bool found;
    uint64_t step;
    int rank;                       // whose copy it is
    char state[16];                 // "parameter", "exp_avg", "exp_avg_sq", "copy", "loss", "applied"
    char tensor[MODEL_NAME_BYTES];  // "" for the loss and the decision
    uint64_t element;
    uint64_t expected_bits, actual_bits;
    int bits;  // how wide they are
};

// What each rank tells the others after each step.
struct train_report_of_rank {
    double loss;
    uint64_t stop;
};

struct train_result {
    uint64_t steps, skipped_steps;  // from step 1 on, whichever run made them
    uint64_t verified_steps;        // of this run
    uint64_t resumed_step;          // of the checkpoint that the run continued; 0: none
    uint64_t saved_step;            // of the last checkpoint saved; 0: none
    bool interrupted;
    struct train_difference difference;
    double first_loss, loss;  // of this run's first and last step
    double seconds;           // of all steps, without verification
    uint64_t *step_ns;        // [steps - resumed_step]; free()
    uint64_t tokens;          // trained on, all ranks
    char digest[33];          // of parameters and moments, whole, in parameter order
    uint64_t held_bytes[TIER_COUNT][KIND_COUNT], formula_held_bytes[TIER_COUNT][KIND_COUNT];  // rank 0
    uint64_t moved_bytes[LANE_COUNT][OPERATION_COUNT];                                        // all ranks
    uint64_t formula_moved_bytes[LANE_COUNT][OPERATION_COUNT];
    struct comm_native native;        // where native_reduction was asked for
    bool accounting_equal;            // on every rank, every line
    uint64_t unlocked_bytes;          // host memory of all ranks that should be locked and is not
    uint64_t host_hits, host_misses;  // parameters on NVMe that the host still had, and those that were read; all ranks
    const struct stage_operations *operations;
    const char *traffic_formula;
    uint64_t param_elements;
};

// ERR_CHECK is not among its errors: a difference is a result. The error is that of the rank that failed first.
// Of processes, that of rank 0 has the whole result; every one has the totals of all ranks.
int train_run(const struct train_setting *setting, struct train_result *out);

// `zerogauge train`
int train_main(int argc, const char **argv);

#endif
