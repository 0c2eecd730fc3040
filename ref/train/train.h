// SPDX-License-Identifier: Apache-2.0
// Training: ranks, which are threads or processes, run the model's layers through a stage. With verification, every bit
// of every state is compared with unsharded Adam's after every step.
#pragma once

#include "base/file.h"
#include "ref/comm/comm.h"
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
struct executor_log;
struct train_checkpoints;

struct train_progress {
    uint64_t step, steps;
    double loss, lr, norm, scale, tokens_per_s;
    double eta_s;  // at the mean pace so far, without verification
    bool skipped;
};

// Given to observers: a rank's stage, whose executor is idle. All ranks observe the same moments, so collective calls
// are allowed. They are not counted.
struct train_moment {
    struct stage *stage;
    int rank;
    uint64_t step;  // the last one made; before the first one: the step of the checkpoint that the run continues
    bool applied;
    double loss;  // of that step
};

// How a run is compared with unsharded Adam.
enum train_verification {
    TRAIN_VERIFY_NOT,
    TRAIN_VERIFY,       // in the schedule of a run that is not verified; a second run locates a difference
    TRAIN_VERIFY_EACH,  // waits after every step, and compares all states
};

struct train_setting {
    const struct config *config;
    const struct model *model;
    const struct text *text;  // null for models that want none, and in dry runs
    int world;
    struct comm *comm;  // of the world that a launcher started, of which this process is one rank; null: all ranks are
                        // threads of this process
    uint64_t steps, seed;
    struct executor_schedule schedule;
    uint64_t device_memory_bytes;                  // of each rank; 0: no limit
    uint64_t host_memory_bytes, nvme_space_bytes;  // the same
    const struct accelerator *accelerator;         // which the device tier belongs to; null: host memory
    int device_count;                              // of the accelerator; ranks that are threads take turns
    int device;          // of this process's rank; if ranks are threads: of rank 0, and the others take the next ones
    bool buffered;       // NVMe through the page cache, where a file system has no O_DIRECT
    bool swap_checksum;  // of every block on NVMe, compared when the block is read
    struct emulation emulation;
    struct inject_plan inject;  // faults on purpose
    struct trace *trace;        // open for the world, receives the timeline; null: no timeline
    struct executor_log *logs;  // [world], with the log schedule: what each rank's issuing thread did; null: not kept
    int threads;                // of each rank, in passes and in the update; 0: cores / world
    bool bf16_products;         // wanted for a model in bf16 in host memory (train_multiplies_bf16)
    bool library_products;      // wanted for a model in fp32 in an accelerator's memory (accelerator.h)
    enum train_verification verify;
    struct train_checkpoints *checkpoints;     // train_checkpoint.h; null: none
    const volatile sig_atomic_t *interrupted;  // training ends after the step in which it becomes 1; may be null
    void (*progress)(void *context, const struct train_progress *progress);  // after each step, on one thread
    void (*compared)(void *context, uint64_t step, uint64_t steps);  // unsharded Adam has made this step, as well
    void *progress_context;
    // Before the first step, and after each step and its update. An observed run waits for these, so that its steps do
    // not overlap as those of others.
    int (*observe)(void *context, const struct train_moment *moment);
    void *observe_context;
    // Of a model whose losses are sums over tokens: all tokens of a step, which its gradients and losses are divided
    // by; called on each rank before the step. Null: losses are means, and all micro-batches weigh alike. Such a run is
    // not verified.
    double (*mean_count)(void *context, int rank, uint64_t step);
    void *mean_context;
};

// True if the model multiplies with the processor's instructions for bf16 (matmul_set_bf16).
static inline bool train_multiplies_bf16(const struct train_setting *setting)
{
    return setting->bf16_products && setting->config->precision == DTYPE_BF16 && !setting->accelerator &&
           setting->model->operations->multiplies_matrices;
}

// True if the device's library makes the products, in an order of its own: those of 16-bit operands always.
static inline bool train_multiplies_by_library(const struct train_setting *setting)
{
    return setting->accelerator && setting->model->operations->multiplies_matrices &&
           (setting->config->precision != DTYPE_FP32 || setting->library_products);
}

// The first bit that differs from unsharded Adam's. It travels between ranks, and so contains no addresses.
struct train_difference {
    bool found;
    bool digest;    // the bits belong to a digest of that state, in the bucket that begins with the tensor
    bool schedule;  // a second run that waits after each step does not differ
    uint64_t step;
    int rank;                       // that holds it
    char state[16];                 // "parameter", "exp_avg", "exp_avg_sq", "copy", "loss", "applied", "norm", "scale",
                                    // "coefficient"
    char tensor[MODEL_NAME_BYTES];  // "" for the loss and the decision
    uint64_t element;
    uint64_t expected_bits, actual_bits;
    int bits;  // of the element
};

// Sent by each rank to all others after each step.
struct train_report_of_rank {
    double loss;
    uint32_t stop;
    uint32_t saves;  // its file of the checkpoint that is being saved is not written yet
};

struct train_result {
    uint64_t steps, skipped_steps;  // from step 1 on, those of a resumed checkpoint included
    uint64_t verified_steps;        // of this run
    uint64_t redone_steps;          // of this run: clipped after a speculative update
    uint64_t rescanned_steps;       // of this run: the norm read gradients on NVMe in a second pass
    uint64_t resumed_step;          // of the checkpoint that the run continues; 0: none
    uint64_t saved_step;            // of the last checkpoint saved; 0: none
    uint64_t save_copy_bytes;       // of rank 0's states, for asynchronous saves; 0: steps wait for saves
    bool interrupted;
    struct train_difference difference;
    double first_loss, loss;                // of this run's first and last step
    double seconds;                         // of all steps, without verification
    uint64_t *step_ns;                      // [steps - resumed_step]; free()
    uint64_t tokens;                        // of all ranks
    char digest[FILE_DIGEST_BYTES];         // of unsharded parameters and moments, in parameter order
    char oracle_digest[FILE_DIGEST_BYTES];  // by unsharded Adam; "" without verification, and after a
                                            // difference
    uint64_t held_bytes[TIER_COUNT][KIND_COUNT], formula_held_bytes[TIER_COUNT][KIND_COUNT];  // rank 0
    uint64_t moved_bytes[LANE_COUNT][OPERATION_COUNT];                                        // all ranks
    uint64_t formula_moved_bytes[LANE_COUNT][OPERATION_COUNT];
    uint64_t group_bytes[GROUP_COUNT], formula_group_bytes[GROUP_COUNT];  // sent, all ranks
    bool accounting_equal;            // every line of the ledger equals the formula's, on every rank
    uint64_t unlocked_bytes;          // host memory of all ranks that should be pinned and is not
    uint64_t host_hits, host_misses;  // parameters on NVMe: found on the host, and read; all ranks
    const struct stage_operations *operations;
    const char *traffic_formula;
    uint64_t param_elements;
};

// Returns the error of the rank that failed first. A difference from unsharded Adam is a result, not an error. If ranks
// are processes, every process has the totals of all ranks, and rank 0 has the rest of the result as well.
int train_run(const struct train_setting *setting, struct train_result *out);

// `zerogauge train`
int train_main(int argc, const char **argv);
