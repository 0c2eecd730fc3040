// SPDX-License-Identifier: Apache-2.0
// The effective configuration as JSON.
#include "ref/config/config_doc.h"

#include <stdlib.h>

static json_t *loss_scale_json(const struct config *config)
{
    const struct config_loss_scale *scale = &config->loss_scale;
    if (config->precision != DTYPE_FP16)
        return json_pack("{s:b}", "enabled", 0);
    if (!scale->dynamic)
        return json_pack("{s:b, s:f}", "enabled", 1, "loss_scale", scale->static_scale);
    return json_pack("{s:b, s:i, s:I, s:I, s:I, s:b, s:I}", "enabled", 1, "loss_scale", 0, "initial_scale_power",
                     (json_int_t)scale->initial_scale_power, "loss_scale_window", (json_int_t)scale->window,
                     "hysteresis", (json_int_t)scale->hysteresis, "consecutive_hysteresis",
                     scale->consecutive_hysteresis, "min_loss_scale", (json_int_t)scale->min_scale);
}

// DeepSpeed reads one path, as a string.
static json_t *paths_json(const struct config *config)
{
    if (config->nvme_path_count == 1)
        return json_string(config->nvme_paths[0]);
    json_t *paths = json_array();
    for (int i = 0; i < config->nvme_path_count; i++)
        json_array_append_new(paths, json_string(config->nvme_paths[i]));
    return paths;
}

// Leaves out keys that have no effect with the others, as do the functions below. Writes the paths whichever section
// they are given in.
static json_t *offload_optimizer_json(const struct config *config)
{
    const struct config_offload_optimizer *offload = &config->offload_optimizer;
    json_t *json = json_pack("{s:s}", "device", config_device_name(offload->tier));
    if (offload->tier != TIER_DEVICE) {
        json_object_set_new(json, "pin_memory", json_boolean(offload->pin_memory));
        json_object_set_new(json, "buffer_count", json_integer((json_int_t)offload->buffer_count));
    }
    if (offload->tier == TIER_HOST && config->stage == 3)
        json_object_set_new(json, "ratio", json_real(offload->ratio));
    if (offload->tier == TIER_NVME) {
        json_object_set_new(json, "pipeline_read", json_boolean(offload->pipeline_read));
        json_object_set_new(json, "pipeline_write", json_boolean(offload->pipeline_write));
    }
    if (config_uses_nvme(config))
        json_object_set_new(json, "nvme_path", paths_json(config));
    return json;
}

static json_t *offload_param_json(const struct config *config)
{
    const struct config_offload_param *offload = &config->offload_param;
    json_t *json = json_pack("{s:s}", "device", config_device_name(offload->tier));
    if (offload->tier != TIER_DEVICE)
        json_object_set_new(json, "pin_memory", json_boolean(offload->pin_memory));
    if (offload->tier == TIER_NVME) {
        json_object_set_new(json, "buffer_count", json_integer((json_int_t)offload->buffer_count));
        json_object_set_new(json, "buffer_size", json_integer((json_int_t)offload->buffer_size));
        json_object_set_new(json, "max_in_cpu", json_integer((json_int_t)offload->max_in_cpu));
        json_object_set_new(json, "nvme_path", paths_json(config));
    }
    return json;
}

static json_t *zero_json(const struct config *config)
{
    json_t *zero = json_pack("{s:i, s:b, s:b, s:I, s:I}", "stage", config->stage, "overlap_comm", config->overlap_comm,
                             "contiguous_gradients", config->contiguous_gradients, "reduce_bucket_size",
                             (json_int_t)config->reduce_bucket_size, "allgather_bucket_size",
                             (json_int_t)config->allgather_bucket_size);
    json_object_set_new(zero, "offload_optimizer", offload_optimizer_json(config));
    json_object_set_new(zero, "offload_param", offload_param_json(config));
    if (config->stage > 0)
        json_object_set_new(zero, "sub_group_size", json_integer((json_int_t)config->sub_group_size));
    if (config->stage != 3)
        return zero;
    json_t *stage3 =
        json_pack("{s:I, s:I, s:I, s:I, s:I}", "stage3_prefetch_bucket_size", (json_int_t)config->prefetch_bucket_size,
                  "stage3_param_persistence_threshold", (json_int_t)config->param_persistence_threshold,
                  "stage3_model_persistence_threshold", (json_int_t)config->model_persistence_threshold,
                  "stage3_max_live_parameters", (json_int_t)config->max_live_parameters, "stage3_max_reuse_distance",
                  (json_int_t)config->max_reuse_distance);
    json_object_update(zero, stage3);
    if (config->secondary_ranks > 1)
        json_object_set_new(zero, "zero_hpz_partition_size", json_integer(config->secondary_ranks));
    if (config->quantized_weights)
        json_object_set_new(zero, "zero_quantized_weights", json_true());
    if (config->quantized_gradients)
        json_object_set_new(zero, "zero_quantized_gradients", json_true());
    json_decref(stage3);
    return zero;
}

// Null: there is none. DeepSpeed fails on "scheduler": null.
static json_t *scheduler_json(const struct config_scheduler *s)
{
    const char *warmup_type = s->warmup_linear ? "linear" : "log";
    json_int_t warmup = (json_int_t)s->warmup_num_steps, total = (json_int_t)s->total_num_steps;
    switch (s->type) {
    case SCHEDULER_NONE:
        break;
    case SCHEDULER_WARMUP:
        return json_pack("{s:s, s:{s:f, s:f, s:I, s:s}}", "type", "WarmupLR", "params", "warmup_min_lr",
                         s->warmup_min_lr, "warmup_max_lr", s->warmup_max_lr, "warmup_num_steps", warmup, "warmup_type",
                         warmup_type);
    case SCHEDULER_WARMUP_DECAY:
        return json_pack("{s:s, s:{s:f, s:f, s:I, s:s, s:I}}", "type", "WarmupDecayLR", "params", "warmup_min_lr",
                         s->warmup_min_lr, "warmup_max_lr", s->warmup_max_lr, "warmup_num_steps", warmup, "warmup_type",
                         warmup_type, "total_num_steps", total);
    case SCHEDULER_WARMUP_COSINE:
        return json_pack("{s:s, s:{s:f, s:f, s:I, s:s, s:I}}", "type", "WarmupCosineLR", "params", "warmup_min_ratio",
                         s->warmup_min_ratio, "cos_min_ratio", s->cos_min_ratio, "warmup_num_steps", warmup,
                         "warmup_type", warmup_type, "total_num_steps", total);
    }
    return NULL;
}

static json_t *muon_json(const struct config *config)
{
    const struct adam_hyper *adam = &config->adam;
    const struct muon_hyper *muon = &config->muon;
    return json_pack("{s:s, s:{s:f, s:f, s:f, s:b, s:i, s:s, s:[f, f], s:f, s:f, s:b}}", "type", "Muon", "params",
                     "muon_lr", muon->lr, "adam_lr", adam->lr, "momentum", muon->momentum, "nesterov", muon->nesterov,
                     "ns_steps", muon->ns_steps, "adjust_lr_fn",
                     muon->adjust == MUON_ORIGINAL ? "original" : "match_rms_adamw", "betas", adam->beta1, adam->beta2,
                     "eps", adam->eps, "weight_decay", adam->weight_decay, "bias_correction", adam->bias_correction);
}

static json_t *optimizer_json(const struct config *config)
{
    const struct adam_hyper *adam = &config->adam;
    if (config->uses_muon)
        return muon_json(config);
    return json_pack("{s:s, s:{s:f, s:[f, f], s:f, s:f, s:b, s:b}}", "type", adam->decoupled ? "AdamW" : "Adam",
                     "params", "lr", adam->lr, "betas", adam->beta1, adam->beta2, "eps", adam->eps, "weight_decay",
                     adam->weight_decay, "bias_correction", adam->bias_correction, "adam_w_mode", adam->decoupled);
}

static json_t *aio_json(const struct nvme_aio *aio)
{
    return json_pack("{s:I, s:i, s:i, s:b, s:b}", "block_size", (json_int_t)aio->block_bytes, "queue_depth",
                     aio->queue_depth, "intra_op_parallelism", aio->intra_op_parallelism, "single_submit",
                     aio->single_submit, "overlap_events", aio->overlap_events);
}

static json_t *own_json(const struct config *config)
{
    json_t *json = json_pack("{s:s, s:s, s:{s:s}, s:{s:b, s:s}, s:{s:I}}", "recipe", config->recipe, "clip_form",
                             config->clip_form == CLIP_TORCH ? "torch" : "deepspeed", "offload_gradient", "device",
                             config_device_name(config->gradient_tier), "activation_checkpointing", "enabled",
                             config->activation_checkpointing, "device", config_device_name(config->activation_tier),
                             "tiling", "factor", (json_int_t)config->tiling_factor);
    bool broadcast = config->partitioning == PARTITION_OWNER_BROADCAST;
    if (config->master_dtype != DTYPE_FP32)
        json_object_set_new(json, "master_dtype", json_string(dtype_name(config->master_dtype)));
    if (config->moment_dtype != DTYPE_FP32)
        json_object_set_new(json, "moment_dtype", json_string(dtype_name(config->moment_dtype)));
    if (config->stage == 3)
        json_object_set_new(json, "partitioning", json_string(broadcast ? "owner_broadcast" : "bandwidth_centric"));
    if (config->sequence_parallel)
        json_object_set_new(json, "sequence_parallel", json_true());
    if (config->lora[0])
        json_object_set_new(json, "lora", json_string(config->lora));
    if (config->reduction_group > 0)
        json_object_set_new(json, "reduction_group", json_integer((json_int_t)config->reduction_group));
    if (config->e4m3_weights)
        json_object_set_new(json, "quantized_weights_format", json_string("e4m3"));
    else if (config->quantization_block > 0)
        json_object_set_new(json, "quantization_block", json_integer((json_int_t)config->quantization_block));
    char mesh[MESH_TEXT_BYTES];
    if (config->mesh.replicate > 1 || config->mesh.expert > 1 || mesh_parts(&config->mesh) > 1)
        json_object_set_new(json, "mesh", json_string(mesh_text(&config->mesh, mesh)));
    if (config->mesh.pipeline > 1)
        json_object_set_new(json, "pipeline_schedule", json_string(pipeline_kind_name(config->pipeline_schedule)));
    if (config->delayed_update_start_step > 0)
        json_object_set_new(json, "delayed_update",
                            json_pack("{s:I}", "start_step", (json_int_t)config->delayed_update_start_step));
    if (config->speculative_update)
        json_object_set_new(json, "speculative_update", json_true());
    if (config->async_save)
        json_object_set_new(json, "async_save", json_true());
    if (config_uses_nvme(config))
        json_object_set_new(json, "aio_engine", json_string(config->aio.engine == NVME_LIBAIO ? "libaio" : "io_uring"));
    return json;
}

json_t *config_json(const struct config *config)
{
    json_t *bf16 = json_pack("{s:b}", "enabled", config->precision == DTYPE_BF16);
    if (config->precision == DTYPE_BF16)
        json_object_set_new(bf16, "check_grad_overflow", json_boolean(config->check_overflow));
    json_t *json = json_pack(
        "{s:I, s:I, s:I, s:f, s:s, s:{s:s}, s:o, s:o, s:o, s:o*, s:o, s:o}", "train_batch_size",
        (json_int_t)config->train_batch, "train_micro_batch_size_per_gpu", (json_int_t)config->micro_batch,
        "gradient_accumulation_steps", (json_int_t)config->accumulation, "gradient_clipping", config->gradient_clipping,
        "communication_data_type", dtype_name(config->communication_dtype), "data_types", "grad_accum_dtype",
        dtype_name(config->accumulation_dtype), "fp16", loss_scale_json(config), "bf16", bf16, "optimizer",
        optimizer_json(config), "scheduler", scheduler_json(&config->scheduler), "zero_optimization", zero_json(config),
        "zerogauge", own_json(config));
    if (config_uses_nvme(config))
        json_object_set_new(json, "aio", aio_json(&config->aio));
    return json;
}

// JSON text with the fewest digits, at least 15, that read back as the same numbers. The caller frees it.
static char *shortest_text(const json_t *json, size_t flags)
{
    for (unsigned digits = 15; digits < 17; digits++) {
        char *text = json_dumps(json, flags | JSON_REAL_PRECISION(digits));
        json_t *again = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        bool same = json_equal(json, again);
        json_decref(again);
        if (same)
            return text;
        free(text);
    }
    return json_dumps(json, flags | JSON_REAL_PRECISION(17));
}

void config_print_json(const json_t *json, FILE *out)
{
    char *text = shortest_text(json, JSON_INDENT(4));
    fprintf(out, "%s\n", text ? text : "");
    free(text);
}

void config_print(const struct config *config, FILE *out)
{
    json_t *json = config_json(config);
    config_print_json(json, out);
    json_decref(json);
}

void config_notes_fill(struct config_notes *notes, const struct config *config)
{
    json_t *json = config_json(config);
    for (size_t i = 0; i < notes->count; i++) {
        struct config_note *note = &notes->notes[i];
        if (note->kind != CONFIG_AUTO && note->kind != CONFIG_RAISED)
            continue;
        const json_t *value = config_doc_descend(json, note->key);
        char *text = value ? shortest_text(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
        snprintf(note->value, sizeof note->value, "%s", text ? text : "");
        free(text);
    }
    json_decref(json);
}

// One line for the keys of another program, which follow one another. Returns their number.
static size_t print_foreign(const struct config_note *note, size_t count, FILE *out)
{
    size_t i = 0;
    do {
        fprintf(out, "%s%s", i > 0 ? ", " : "", note[i].value);
    } while (++i < count && note[i].kind == CONFIG_FOREIGN);
    fprintf(out, ": %s of %s without a meaning here\n", i > 1 ? "keys" : "a key", note->key);
    return i;
}

void config_print_notes(const struct config_notes *notes, FILE *out)
{
    for (size_t i = 0; i < notes->count; i++) {
        const struct config_note *note = &notes->notes[i];
        if (note->kind == CONFIG_IGNORED)
            fprintf(out, "%s: accepted, but has no effect here\n", note->key);
        else if (note->kind == CONFIG_RAISED)
            fprintf(out, "%s: fewer than the states that need one here, raised to %s\n", note->key, note->value);
        else if (note->kind == CONFIG_FOREIGN)
            i += print_foreign(note, notes->count - i, out) - 1;
        else if (note->kind == CONFIG_DTYPE)
            fprintf(out, "bf16.enabled, fp16.enabled: \"auto\" is %s\n", note->value);
        else if (note->kind == CONFIG_OLD)
            fprintf(out, "%s: an old name, read as %s\n", note->key, note->value);
        else
            fprintf(out, "%s: \"auto\" is %s\n", note->key, note->value[0] ? note->value : "the default");
    }
}
