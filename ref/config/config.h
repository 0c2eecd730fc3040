// SPDX-License-Identifier: Apache-2.0
// A DeepSpeed JSON configuration, checked key by key: an unknown, mistyped, out-of-range, contradictory or repeated key
// is an error with file, line and key; a key without effect here is accepted and reported. Differences from DeepSpeed:
//   - refuses unknown keys at the top level, which DeepSpeed ignores, and numbers and booleans written as strings
//   - refuses "nvme" for the optimizer in stages 1 and 2, where DeepSpeed silently uses "cpu"
//   - offload_optimizer.buffer_count on NVMe defaults to 5 where gradients are not on the host, as 4 may be too few
//   - activation_checkpointing.cpu_checkpointing also turns checkpoints on; unknown keys of that section are refused
//   - refuses keys that change the arithmetic in a way not modelled here, unless their value asks for what is done
//     anyway
//   - accepts "auto" wherever DeepSpeed or the Hugging Face Trainer does: with the Trainer's value where it has one
//     (transformers 5.24, integrations/deepspeed.py), else with the meaning of the key's default; for a batch key
//     "auto" means not given; without any batch size the micro-batch is 1 per rank
#pragma once

#include "ref/arithmetic/dtype.h"
#include "ref/ledger/ledger.h"
#include "ref/mesh/mesh.h"
#include "ref/pipeline/schedule.h"
#include "ref/recipe/quantize.h"
#include "ref/recipe/muon.h"
#include "ref/recipe/recipe.h"
#include "ref/tier/tier_nvme.h"

#include <jansson.h>

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
    size_t buffer_count;    // host buffers, each holds one state of one sub-group in transit
    bool pin_memory;
    bool pipeline_read;   // NVMe: reads the next sub-groups during the update
    bool pipeline_write;  // NVMe: writes the previous sub-groups during the update
    double ratio;         // of the elements that go to the host; the rest stays on the device
};

// "offload_param", stage 3.
struct config_offload_param {
    enum ledger_tier tier;
    size_t buffer_count;  // NVMe: host buffers for parameters in transit
    size_t buffer_size;   // NVMe: elements of each
    size_t max_in_cpu;    // NVMe: elements that may stay on the host for their next use
    bool pin_memory;
};

enum { CONFIG_NVME_PATH_MAX = 16, CONFIG_PATH_NAME_BYTES = 512, CONFIG_LORA_BYTES = 128 };

enum config_partitioning { PARTITION_BANDWIDTH_CENTRIC, PARTITION_OWNER_BROADCAST };

// An optimizer group's own values; no configuration file has a key for them.
struct config_group {
    struct adam_hyper adam;
    struct muon_hyper muon;    // of the group's whole parameters (model.h)
    const double *lr_by_step;  // step K, skipped steps counted, uses [K - 1]; null: adam.lr in every step
};

struct config {
    // the batch triple, complete: train_batch = micro_batch x accumulation x ranks of data parallelism
    size_t train_batch, micro_batch, accumulation;
    int stage;                       // 0..3
    enum dtype precision;            // of parameters and their gradients
    enum dtype communication_dtype;  // of gradients on the wire
    enum dtype accumulation_dtype;   // of the sum over micro-steps
    enum dtype moment_dtype;         // of exp_avg and exp_avg_sq between updates, which compute in fp32
    enum dtype master_dtype;         // of the parameters that Adam updates: fp32, or `precision`
    bool check_overflow;             // skip a step whose gradients hold inf or NaN
    double gradient_clipping;        // 0: off
    enum clip_form clip_form;
    struct config_loss_scale loss_scale;
    struct adam_hyper adam;
    bool uses_muon;          // hidden matrices by Muon, all else by Adam
    struct muon_hyper muon;  // its hyper-parameters
    const struct config_group
        *groups;  // [the model's groups], owned by the caller; null: all groups use adam and scheduler
    char recipe[64];
    struct config_scheduler scheduler;
    size_t reduce_bucket_size, allgather_bucket_size;  // elements
    bool overlap_comm, contiguous_gradients;
    // stage 3, in elements; at their defaults in other stages
    size_t prefetch_bucket_size, param_persistence_threshold, model_persistence_threshold;
    size_t max_live_parameters, max_reuse_distance;
    // tiers
    struct config_offload_optimizer offload_optimizer;
    struct config_offload_param offload_param;
    enum ledger_tier gradient_tier;    // of the gradient shards kept for the update
    enum ledger_tier activation_tier;  // of activation checkpoints
    bool activation_checkpointing;
    size_t sub_group_size;  // elements that the optimizer updates together
    char nvme_paths[CONFIG_NVME_PATH_MAX][CONFIG_PATH_NAME_BYTES];
    int nvme_path_count;
    struct nvme_aio aio;
    // "zerogauge"
    uint64_t delayed_update_start_step;  // first step with a delayed update; 0: never
    bool speculative_update;             // offloaded states are updated before the step is decided
    bool async_save;                     // checkpoints of a run are written while its steps go on, from a copy
    enum config_partitioning partitioning;
    size_t reduction_group;                // ranks in a group of hierarchical sums; 0: sums in canonical order
    size_t tiling_factor;                  // parts that each large linear layer is cut into; 1: not cut
    bool is_of_file;                       // and of no preset
    bool is_fsdp;                          // of a file for Hugging Face's trainers that names FSDP
    bool sequence_parallel;                // Megatron-LM's: ranks of tensor parallelism divide the sequence, too
    char lora[CONFIG_LORA_BYTES];          // "rank=8,alpha=16,targets=c_attn" (ref/model/lora/lora.h); "": no adapters
    struct mesh mesh;                      // of as many ranks as the world; all 0: one shard group
    enum pipeline_kind pipeline_schedule;  // of a mesh with pipeline stages; micro-steps are the micro-batches
    int secondary_ranks;        // hpZ: ranks that hold a second copy of the parameters together; 0: there is none
    bool quantized_weights;     // qwZ: parameters are gathered in 8 bits, block by block
    bool e4m3_weights;          // then: in E4M3, with one scale a parameter
    bool quantized_gradients;   // qgZ: gradients are sent in 4 bits, in two hops over nodes
    size_t quantization_block;  // elements of a block, 1 with e4m3_weights; 0: nothing is quantized
    int node_ranks;             // qgZ: ranks of a node, which follow one another
};

// Values from outside the file.
struct config_options {
    int world;               // ranks
    bool plans;              // stages 2 and 3 in a pipeline, and all that config_plan_words says, have a meaning
    int sequence_ranks;      // that divide each sequence among them, in plans; 0: one
    uint64_t steps;          // of the run, for "total_num_steps": "auto"; 0: unknown
    size_t width;            // of the model, for bucket sizes that are "auto"; 0: unknown
    const char *dtype;       // of the model's own file, where fp16 and bf16 are both "auto": fp32, fp16 or bf16; null:
                             // unknown, which means bf16
    const char *const *set;  // [set_count] overrides "path.to.key=value", later ones win; a value that is not JSON is
    size_t set_count;        // a string
    const char *const *nvme_paths;  // [nvme_path_count] in place of the file's; ignored where no state is on NVMe
    size_t nvme_path_count;
    const char *engine;  // "libaio" or "io_uring" in place of the file's; null: not given
};

// Why a key of the file or of an override is reported.
enum config_note_kind {
    CONFIG_IGNORED,  // it has no effect here
    CONFIG_AUTO,     // it is "auto"
    CONFIG_DTYPE,    // both dtypes are "auto"
    CONFIG_OLD,      // it is an old name of another key
    CONFIG_RAISED,   // it is too few here
    CONFIG_FOREIGN,  // it is a key of another program's configuration that has no meaning here
};

enum { CONFIG_NOTE_MAX = 256, CONFIG_VALUE_BYTES = 64 };

struct config_note {
    enum config_note_kind kind;
    const char *key;                 // static
    char value[CONFIG_VALUE_BYTES];  // the value that replaces "auto" or what is too few, as JSON; the new form of an
                                     // old name; or a foreign key
};

struct config_notes {
    size_t count;
    struct config_note notes[CONFIG_NOTE_MAX];
};

// A file whose name ends in .yaml, .yml or .toml is another program's (config_doc.h). Returns ERR_USAGE with one line,
// `FILE:LINE: key.path: what is wrong, what was expected`. notes may be null.
int config_load_file(const char *file, const struct config_options *options, struct config *out,
                     struct config_notes *notes);

// A new object with the part of another program's file that plans alone have, by names of options of `zerogauge plan`
// ("lora": 16, "weights": "nf4"), and "context"; null for other files. ERR_USAGE as config_load_file.
int config_plan_words(const char *file, json_t **out);

int config_load_preset(const char *name, const struct config_options *options, struct config *out,
                       struct config_notes *notes);

// The same for text in memory; messages give `name` for the file.
int config_load_text(const char *name, const char *text, size_t bytes, const struct config_options *options,
                     struct config *out, struct config_notes *notes);

// The names of the presets in alphabetical order; null past the end.
const char *config_preset_name(size_t index);

// The name of a tier in configurations: "none", "cpu", "nvme".
const char *config_device_name(enum ledger_tier tier);

// "Adam", or "Muon", which trains other parameters than hidden matrices by Adam.
const char *config_optimizer_name(const struct config *config);

// The mesh of a run with this many ranks.
struct mesh config_mesh(const struct config *config, int world);

// True if any state is on NVMe; only then have nvme_paths and aio an effect.
bool config_uses_nvme(const struct config *config);

// The effective configuration, as config_print prints it; a new object, null: no memory.
json_t *config_json(const struct config *config);

// Prints the effective configuration as JSON. Loading it at the same world gives the same configuration.
void config_print(const struct config *config, FILE *out);

// Prints such an object, its numbers with the fewest digits that read back the same.
void config_print_json(const json_t *json, FILE *out);

// Prints one line for each note.
void config_print_notes(const struct config_notes *notes, FILE *out);
