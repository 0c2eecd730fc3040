// SPDX-License-Identifier: Apache-2.0
// Trials of training with states on tiers: a configuration, as JSON for `zerogauge train`; its run with verification;
// and the demand that every bit and every byte is right. A failure prints the whole configuration.
#pragma once

#include "base/err.h"
#include "ref/model/names/model_find.h"
#include "ref/model/whole.h"
#include "ref/tier/storage_test.h"
#include "ref/train/train_checkpoint.h"
#include "ref/train/train_report.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct offload_trial {
    const char *model;
    int world;
    uint64_t steps;
    struct executor_schedule schedule;
    int stage;
    enum dtype precision, communication, sum;
    enum dtype moments;   // in which they are kept
    bool of_model_dtype;  // so are the master parameters; false: in fp32
    size_t accumulation;
    enum ledger_tier parameter, gradient, optimizer;
    enum nvme_engine engine;
    size_t block_bytes;  // of NVMe
    int queue_depth;
    double ratio;
    bool pipeline_read, pipeline_write, overlap_comm, contiguous, owner_broadcast;
    bool overflows;  // fp16 with a loss scale that is too large at first
    bool unchecked;  // bf16 without the overflow check
    bool checkpointing;
    enum ledger_tier activation;  // of the checkpoints
    size_t sub_group, buffers;    // buffers: 0: the least
    size_t param_buffers, max_in_cpu;
    size_t prefetch, persistence, live, reuse, bucket;
    uint64_t delay;  // the first delayed step; 0: none
    bool speculative;
    int replicas;   // of the states; 0: one shard group
    int tensor;     // ranks that cut each layer; 0: none do
    int pipeline;   // stages of a pipeline; 0: none
    bool gpipe;     // the schedule of its micro-batches
    int experts;    // ranks that hold all experts together; 0: each does
    int secondary;  // ranks that hold a second copy of the parameters; 0: none
    bool quantized_weights, quantized_gradients, e4m3;
    int node;   // ranks of a node, for quantized gradients; 0: not given
    int block;  // of quantization; 0: the default
    int tiles;
    double clip;
    bool muon;  // the optimizer of hidden matrices
};

// Defaults, which a test overrides.
#pragma GCC diagnostic ignored "-Woverride-init"
#define OFFLOAD_TRIAL(...)                                                                                             \
    (struct offload_trial)                                                                                             \
    {                                                                                                                  \
        .model = "linear", .world = 2, .steps = 3, .schedule = {EXECUTOR_OVERLAP, 0}, .stage = 3,                      \
        .precision = DTYPE_BF16, .communication = DTYPE_BF16, .sum = DTYPE_BF16, .accumulation = 1,                    \
        .parameter = TIER_DEVICE, .gradient = TIER_DEVICE, .optimizer = TIER_DEVICE, .block_bytes = 1 << 16,           \
        .queue_depth = 4, .ratio = 1, .pipeline_read = true, .pipeline_write = true, .overlap_comm = true,             \
        .contiguous = true, .sub_group = 2048, .param_buffers = 2, .prefetch = 5000, .live = 1000000, .bucket = 5000,  \
        .tiles = 1, .clip = 1, __VA_ARGS__                                                                             \
    }

// Parts of trials: one format for all, and where states live.
#define OFFLOAD_IN(format) .precision = format, .communication = format, .sum = format
#define OFFLOAD_ON_HOST .gradient = TIER_HOST, .optimizer = TIER_HOST
#define OFFLOAD_ON_NVME .parameter = TIER_NVME, .gradient = TIER_NVME, .optimizer = TIER_NVME

static inline bool offload_checks_overflow(const struct offload_trial *t)
{
    return t->precision == DTYPE_FP16 || (t->precision == DTYPE_BF16 && !t->unchecked);
}

// The staging buffers on the host that the update of one sub-group needs: one for each state that Adam uses there and
// that lives elsewhere.
static inline size_t offload_least_buffers(const struct offload_trial *t)
{
    bool speculative = t->speculative && (t->clip > 0 || offload_checks_overflow(t));
    bool copies = (t->precision != DTYPE_FP32 && !t->of_model_dtype) || t->parameter != t->optimizer || t->delay > 0 ||
                  speculative;
    size_t on_device = copies && t->parameter == TIER_NVME ? 1 : 0;
    size_t on_host = (t->optimizer == TIER_NVME ? 3u : 0u) + (t->gradient != TIER_HOST ? 1u : 0u) +
                     (copies && t->parameter != TIER_HOST ? 1u : 0u);
    if (t->optimizer == TIER_DEVICE)
        return on_device;
    return t->ratio < 1 && on_device > on_host ? on_device : on_host;
}

enum { OFFLOAD_TEXT_BYTES = 4096 };

static inline const char *offload_text(const struct offload_trial *t, char out[OFFLOAD_TEXT_BYTES])
{
    static const char *const flags[] = {"false", "true"};
    size_t least = offload_least_buffers(t), buffers = t->buffers ? t->buffers : least ? least : 1;
    char mesh[160] = "", delay[64] = "", fp16[160] = "", bf16[64] = "", block[64] = "";
    char states[96];
    snprintf(states, sizeof states, "\"moment_dtype\": \"%s\", \"master_dtype\": \"%s\", ", dtype_name(t->moments),
             dtype_name(t->of_model_dtype ? t->precision : DTYPE_FP32));
    if (t->block)
        snprintf(block, sizeof block, "\"quantization_block\": %d, \"reduction_group\": %d, ", t->block, t->node);
    if (t->e4m3)
        snprintf(block, sizeof block, "\"quantized_weights_format\": \"e4m3\", ");
    if (t->delay)
        snprintf(delay, sizeof delay, "\"delayed_update\": {\"start_step\": %d}, ", (int)t->delay);
    // Stage 0 has replicas alone.
    int tensor = t->tensor ? t->tensor : 1, stages = t->pipeline ? t->pipeline : 1, data = t->world / tensor / stages;
    int replicas = t->replicas ? t->replicas : t->experts && t->stage == 0 ? data : 1;
    if (t->replicas || t->tensor || t->pipeline || t->experts)
        snprintf(mesh, sizeof mesh,
                 "\"mesh\": \"replicate=%d,shard=%d,tensor=%d,pipeline=%d,expert=%d\", \"pipeline_schedule\": \"%s\", ",
                 replicas, data / replicas, tensor, stages, t->experts ? t->experts : 1, t->gpipe ? "gpipe" : "1f1b");
    if (t->precision == DTYPE_FP16)
        snprintf(fp16, sizeof fp16,
                 "\"fp16\": {\"enabled\": true, \"initial_scale_power\": %d, "
                 "\"loss_scale_window\": 2, \"hysteresis\": %d}, ",
                 t->overflows ? 19 : 10, t->overflows ? 1 : 2);
    if (t->precision == DTYPE_BF16)
        snprintf(bf16, sizeof bf16, "\"bf16\": {\"enabled\": true, \"check_grad_overflow\": %s}, ",
                 flags[!t->unchecked]);
    snprintf(out, OFFLOAD_TEXT_BYTES,
             "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": %zu, \"gradient_clipping\": %g, "
             "%s%s\"communication_data_type\": \"%s\", \"data_types\": {\"grad_accum_dtype\": \"%s\"}, "
             "\"optimizer\": {\"type\": \"%s\", \"params\": {\"lr\": 1e-3, \"weight_decay\": 0.1}}, "
             "\"zero_optimization\": {\"stage\": %d, \"overlap_comm\": %s, \"contiguous_gradients\": %s, "
             "\"reduce_bucket_size\": %zu, \"allgather_bucket_size\": %zu, \"stage3_prefetch_bucket_size\": %zu, "
             "\"stage3_param_persistence_threshold\": %zu, \"stage3_max_live_parameters\": %zu, "
             "\"stage3_max_reuse_distance\": %zu, \"zero_hpz_partition_size\": %d, "
             "\"zero_quantized_weights\": %s, \"zero_quantized_gradients\": %s, \"sub_group_size\": %zu, "
             "\"offload_optimizer\": {\"device\": \"%s\", "
             "\"pin_memory\": false, \"buffer_count\": %zu, \"pipeline_read\": %s, \"pipeline_write\": %s, "
             "\"ratio\": %g}, \"offload_param\": {\"device\": \"%s\", \"pin_memory\": false, \"buffer_count\": %zu, "
             "\"max_in_cpu\": %zu}}, \"aio\": {\"block_size\": %zu, \"queue_depth\": %d}, \"zerogauge\": {%s%s%s%s%s"
             "\"offload_gradient\": {\"device\": \"%s\"}, \"aio_engine\": \"%s\", \"tiling\": {\"factor\": %d}, "
             "\"activation_checkpointing\": {\"enabled\": %s, \"device\": \"%s\"}%s}}",
             t->accumulation, t->clip, fp16, bf16, dtype_name(t->communication), dtype_name(t->sum),
             t->muon ? "Muon" : "AdamW", t->stage, flags[t->overlap_comm], flags[t->contiguous], t->bucket, t->bucket,
             t->prefetch, t->persistence, t->live, t->reuse, t->secondary, flags[t->quantized_weights],
             flags[t->quantized_gradients], t->sub_group, config_device_name(t->optimizer), buffers,
             flags[t->pipeline_read], flags[t->pipeline_write], t->ratio, config_device_name(t->parameter),
             t->param_buffers, t->max_in_cpu, t->block_bytes, t->queue_depth, states, mesh, block, delay,
             t->speculative ? "\"speculative_update\": true, " : "", config_device_name(t->gradient),
             t->engine == NVME_IO_URING ? "io_uring" : "libaio", t->tiles, flags[t->checkpointing],
             config_device_name(t->activation), t->owner_broadcast ? ", \"partitioning\": \"owner_broadcast\"" : "");
    return out;
}

// Everything about a trial, as a message.
static inline const char *offload_name(const struct offload_trial *t)
{
    static char name[OFFLOAD_TEXT_BYTES + 256];
    char text[OFFLOAD_TEXT_BYTES];
    snprintf(name, sizeof name, "--model %s --world %d --steps %d, schedule %d:%llu, --config: %s", t->model, t->world,
             (int)t->steps, (int)t->schedule.mode, (unsigned long long)t->schedule.seed, offload_text(t, text));
    return name;
}

static inline int offload_config(const struct offload_trial *t, struct config *config)
{
    static const char *const folder[] = {storage_folder};
    const struct config_options options = {
        .world = t->world, .steps = t->steps, .nvme_paths = folder, .nvme_path_count = 1};
    char text[OFFLOAD_TEXT_BYTES];
    offload_text(t, text);
    return config_load_text("trial", text, strlen(text), &options, config, NULL);
}

// Numbers in words, enough for the small models' samples.
static inline struct text *offload_words(void)
{
    char path[] = "/tmp/zg-text-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    for (int i = 0; i < 3000; i++)
        fprintf(file, "%d squared is %d; ", i, i * i);
    fclose(file);
    struct text *text = NULL;
    int rc = text_open(path, &text);
    unlink(path);
    cr_assert_eq(rc, ERR_NONE);
    return text;
}

// A run with `setting`, but with the trial's configuration, model and text.
static inline int offload_run_with(const struct offload_trial *t, struct train_setting setting,
                                   struct train_result *result)
{
    struct config config;
    *result = (struct train_result){0};
    TRY(offload_config(t, &config));
    setting.config = &config;
    setting.world = t->world;
    setting.steps = t->steps;
    setting.seed = 7;
    setting.schedule = t->schedule;
    setting.threads = 1;
    TRY(model_find_changed(t->model, &(struct model_changes){.tiling_factor = (size_t)t->tiles}, &setting.model));
    struct model_whole *whole = NULL;
    if (t->muon)
        TRY(model_whole_open(setting.model, &whole));
    setting.model = whole ? &whole->model : setting.model;
    struct text *text = setting.model->wants_text && !setting.text ? offload_words() : NULL;
    if (text)
        setting.text = text;
    int rc = train_run(&setting, result);
    free(result->step_ns);
    result->step_ns = NULL;
    text_close(text);
    model_whole_close(whole);
    return rc;
}

// The same, from the newest checkpoint of a folder if it has one; saves there, too.
static inline int offload_run_saving(const struct offload_trial *t, struct train_setting setting, const char *folder,
                                     uint64_t every, struct train_result *result)
{
    char notes[NOTES_BYTES];
    struct config config;
    struct train_checkpoints checkpoints;
    const struct train_checkpoint_options options = {.checkpoint = folder, .every = every};
    struct train_setting facts = {.config = &config, .world = t->world, .steps = t->steps, .seed = 7};
    TRY(offload_config(t, &config));
    TRY(model_find(t->model, &facts.model));
    struct text *text = offload_words();
    facts.text = setting.text = text;
    setting.checkpoints = &checkpoints;
    int rc = train_checkpoints_open(&options, &facts, &checkpoints, notes);
    if (rc == ERR_NONE)
        rc = offload_run_with(t, setting, result);
    train_checkpoints_close(&checkpoints);
    text_close(text);
    return rc;
}

// The result of a run that must succeed.
static inline struct train_result offload_succeed(const struct offload_trial *t, struct train_setting setting)
{
    struct train_result result;
    int rc = offload_run_with(t, setting, &result);
    cr_assert_eq(rc, ERR_NONE, "%s\n%s", rc ? err_message() : "", offload_name(t));
    return result;
}

// The same with its timeline, which the caller closes.
static inline struct train_result offload_trace(const struct offload_trial *t, struct train_setting setting,
                                                struct trace *trace)
{
    cr_assert_eq(trace_open(t->world, trace), ERR_NONE);
    setting.trace = trace;
    return offload_succeed(t, setting);
}

static inline int offload_run(const struct offload_trial *t, struct train_result *result)
{
    return offload_run_with(t, (struct train_setting){.verify = true, .swap_checksum = true}, result);
}

// A run of the trial is a mistake of the user, for this reason.
static inline void offload_expect_refusal(const struct offload_trial *t, struct train_setting setting,
                                          const char *reason)
{
    struct train_result result;
    cr_expect_eq(offload_run_with(t, setting, &result), ERR_USAGE, "%s", offload_name(t));
    cr_expect(strstr(err_message(), reason), "expected \"%s\", got: %s", reason, err_message());
}

// Demands that the bytes held and moved equal the formula's.
static inline void offload_demand_accounts(const struct train_result *result, const char *name)
{
    for (int tier = 0; tier < TIER_COUNT; tier++)
        for (int kind = 0; kind < KIND_COUNT; kind++)
            cr_assert_eq(result->held_bytes[tier][kind], result->formula_held_bytes[tier][kind],
                         "%s on %s held %llu, formula %llu\n%s", ledger_kind_name(kind), ledger_tier_name(tier),
                         (unsigned long long)result->held_bytes[tier][kind],
                         (unsigned long long)result->formula_held_bytes[tier][kind], name);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int i = 0; i < OPERATION_COUNT; i++)
            cr_assert_eq(result->moved_bytes[lane][i], result->formula_moved_bytes[lane][i],
                         "%s on lane %s moved %llu, formula %llu\n%s", ledger_operation_name(i), ledger_lane_name(lane),
                         (unsigned long long)result->moved_bytes[lane][i],
                         (unsigned long long)result->formula_moved_bytes[lane][i], name);
    for (int group = 0; group < GROUP_COUNT; group++)
        cr_assert_eq(result->group_bytes[group], result->formula_group_bytes[group],
                     "%s groups sent %llu, formula %llu\n%s", ledger_group_name((enum ledger_group)group),
                     (unsigned long long)result->group_bytes[group],
                     (unsigned long long)result->formula_group_bytes[group], name);
    cr_assert(result->accounting_equal, "some rank's accounting\n%s", name);
}

// Demands that every bit equals unsharded Adam's, and that the bytes held and moved equal the formula's.
static inline struct train_result offload_demand(const struct offload_trial *t)
{
    struct train_result result = offload_succeed(t, (struct train_setting){.verify = true, .swap_checksum = true});
    const struct train_difference *d = &result.difference;
    cr_assert(!d->found, "step %d, rank %d, %s of %s, element %d: expected %llx, got %llx\n%s", (int)d->step, d->rank,
              d->state, d->tensor, (int)d->element, (unsigned long long)d->expected_bits,
              (unsigned long long)d->actual_bits, offload_name(t));
    cr_assert_eq(result.verified_steps, t->steps, "%s", offload_name(t));
    cr_assert_str_eq(result.oracle_digest, result.digest, "%s", offload_name(t));
    offload_demand_accounts(&result, offload_name(t));
    return result;
}
