// SPDX-License-Identifier: Apache-2.0
// A DeepSpeed JSON configuration, checked key by key: what is unknown, of the wrong type, out of range, contradictory
// or given twice is an error with file, line and key; what has no meaning here is accepted and reported. What
// DeepSpeed takes and this refuses, or takes otherwise:
//   - unknown keys at the top level, which DeepSpeed ignores; numbers and booleans written as strings; hjson's comments
//   - data_types.grad_accum_dtype left out: fp32 when 16-bit gradients are accumulated over micro-steps, where
//     DeepSpeed adds them in 16 bits
//   - "nvme" for the optimizer in stages 1 and 2, which DeepSpeed takes for "cpu" without a word
//   - offload_optimizer.buffer_count left out on NVMe: 5 where gradients are not on the host, as 4 may be too few
//   - activation_checkpointing.cpu_checkpointing, which also turns checkpoints on; an unknown key in that section
//   - keys that would change the arithmetic in a way not modelled here, unless they say what is done anyway
//   - "auto" is accepted wherever DeepSpeed or the Hugging Face Trainer knows it, and means the key's default; for the
//     batch keys: not given; if no batch size is given at all, 1 a rank
#ifndef ZG_CONFIG_H
#define ZG_CONFIG_H

#include "ref/arithmetic/dtype.h"
#include "ref/ledger/ledger.h"
#include "ref/recipe/recipe.h"
#include "ref/tier/tier_nvme.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum clip_form { CLIP_DEEPSPEED, CLIP_TORCH };
enum schedule_type { SCHEDULER_NONE, SCHEDULER_WARMUP, SCHEDULER_WARMUP_DECAY, SCHEDULER_WARMUP_COSINE };

struct config_scheduler {
    enum schedule_type type;
    double warmup_min_lr, warmup_max_lr;
    double warmup_min_ratio, cos_min_ratio;
    uint64_t warmup_num_steps, total_num_steps;
    bool warmup_linear;  // false: log
};

struct config_loss_scale {
    bool dynamic;
    double static_scale;  // 1 for fp32 and bf16
    unsigned initial_scale_power;
    uint64_t window;
    uint64_t hysteresis;
    bool consecutive_hysteresis;
    double min_scale;
};

// "offload_optimizer": master parameters and moments, and with them the gradients, and where Adam runs.
struct config_offload_optimizer {
    enum ledger_tier tier;  // device ("none"), host ("cpu") or NVMe
    size_t buffer_count;    // host buffers, each for one state of one sub-group on its way
    bool pin_memory;
    bool pipeline_read;   // NVMe: the next sub-groups are read beside the update
    bool pipeline_write;  // NVMe: the last ones are written beside it
    double ratio;         // the part of the elements that goes to the host; the rest stays on the device
};

// "offload_param", stage 3.
struct config_offload_param {
    enum ledger_tier tier;
    size_t buffer_count;  // NVMe: host buffers for parameters on their way
    size_t buffer_size;   // NVMe: elements of each
    size_t max_in_cpu;    // NVMe: elements that may stay on the host for their next use
    bool pin_memory;
};

enum { CONFIG_NVME_PATH_MAX = 16, CONFIG_PATH_NAME_BYTES = 512 };

enum config_partitioning { PARTITION_BANDWIDTH_CENTRIC, PARTITION_OWNER_BROADCAST };

// An optimizer group's own values, which no file says.
struct config_group {
    struct adam_hyper adam;
    const double *lr_by_step;  // of the run's step K, skipped ones included: [K - 1]; null: adam.lr in all
};

struct config {
    // the batch triple, complete: train_batch = micro_batch x accumulation x world
    size_t train_batch, micro_batch, accumulation;
    int stage;                       // 0..3, as the key says; what to do with it is stage_find's
    enum dtype precision;            // of parameters and their gradients
    enum dtype communication_dtype;  // in which gradients are sent
    enum dtype accumulation_dtype;   // in which micro-steps are added
    bool check_overflow;             // skip a step whose gradients hold inf or NaN
    double gradient_clipping;        // 0: off
    enum clip_form clip_form;
    struct config_loss_scale loss_scale;
    struct adam_hyper adam;
    const struct config_group *groups;  // by the model's group, the caller's; null: all follow from adam and scheduler
    char recipe[64];
    struct config_scheduler scheduler;
    size_t reduce_bucket_size, allgather_bucket_size;  // elements
    bool overlap_comm, contiguous_gradients;
    // of stage 3, in elements; the defaults in every other stage
    size_t prefetch_bucket_size, param_persistence_threshold, model_persistence_threshold;
    size_t max_live_parameters, max_reuse_distance;
    // tiers
    struct config_offload_optimizer offload_optimizer;
    struct config_offload_param offload_param;
    enum ledger_tier gradient_tier;    // of the shards that are kept for the update
    enum ledger_tier activation_tier;  // of activation checkpoints
    bool activation_checkpointing;
    size_t sub_group_size;  // elements of one step of the update
    char nvme_paths[CONFIG_NVME_PATH_MAX][CONFIG_PATH_NAME_BYTES];
    int nvme_path_count;
    struct nvme_aio aio;
    // "zerogauge"
    uint64_t delayed_update_start_step;  // from this step on the update is one step late; 0: never
    enum config_partitioning partitioning;
    size_t reduction_group;  // ranks in a group of hierarchical sums; 0: sums in canonical order
    size_t tiling_factor;    // parts of the model's large linear layers; 1: whole
};

// What a configuration is loaded with.
struct config_options {
    int world;               // ranks
    uint64_t steps;          // of the run, for "total_num_steps": "auto"; 0: unknown
    const char *const *set;  // [set_count] overrides "path.to.key=value", later ones win; the value is JSON, or else
    size_t set_count;        // a string
    const char *const *nvme_paths;  // [nvme_path_count] in place of the file's; not looked at where nothing is on NVMe
    size_t nvme_path_count;
    const char *engine;  // "libaio" or "io_uring" in place of the file's; null: not given
};

// A key of the file or of an override that does not speak for itself.
enum config_note_kind {
    CONFIG_IGNORED,  // it has no meaning here
    CONFIG_AUTO,     // it is "auto"
    CONFIG_OLD,      // it is an old name of another key
};

enum { CONFIG_NOTE_MAX = 256, CONFIG_VALUE_BYTES = 64 };

struct config_note {
    enum config_note_kind kind;
    const char *key;                 // static
    char value[CONFIG_VALUE_BYTES];  // as JSON, what "auto" became; what the old name stands for
};

struct config_notes {
    size_t count;
    struct config_note notes[CONFIG_NOTE_MAX];
};

// notes may be null. Every failure is ERR_USAGE with one line, `FILE:LINE: key.path: what is wrong, what was expected`.
int config_load_file(const char *file, const struct config_options *options, struct config *out,
                     struct config_notes *notes);
int config_load_preset(const char *name, const struct config_options *options, struct config *out,
                       struct config_notes *notes);

// The same for text in memory; name stands for the file.
int config_load_text(const char *name, const char *text, size_t bytes, const struct config_options *options,
                     struct config *out, struct config_notes *notes);

// The presets' names in alphabetical order; null past the end.
const char *config_preset_name(size_t index);

// What a configuration calls a tier: "none", "cpu", "nvme".
const char *config_device_name(enum ledger_tier tier);

// Whether any state is on NVMe; nvme_paths and aio have a meaning only then.
bool config_uses_nvme(const struct config *config);

// Prints the effective configuration as JSON, which loads again to the same configuration at the same world.
void config_print(const struct config *config, FILE *out);

// Prints a line for each note; nothing if there are none.
void config_print_notes(const struct config_notes *notes, FILE *out);

#endif
