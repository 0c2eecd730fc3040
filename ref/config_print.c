// SPDX-License-Identifier: Apache-2.0
// The effective configuration as JSON.
#include "config_doc.h"

#include <stdlib.h>
#include <string.h>

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

static json_t *zero_json(const struct config *config)
{
    json_t *zero = json_pack("{s:i, s:b, s:b, s:I, s:I}", "stage", config->stage, "overlap_comm", config->overlap_comm,
                             "contiguous_gradients", config->contiguous_gradients, "reduce_bucket_size",
                             (json_int_t)config->reduce_bucket_size, "allgather_bucket_size",
                             (json_int_t)config->allgather_bucket_size);
    if (config->stage != 3)
        return zero;
    json_t *stage3 = json_pack("{s:I, s:I, s:I, s:I, s:I}", "stage3_prefetch_bucket_size",
                               (json_int_t)config->prefetch_bucket_size, "stage3_param_persistence_threshold",
                               (json_int_t)config->param_persistence_threshold, "stage3_model_persistence_threshold",
                               (json_int_t)config->model_persistence_threshold, "stage3_max_live_parameters",
                               (json_int_t)config->max_live_parameters, "stage3_max_reuse_distance",
                               (json_int_t)config->max_reuse_distance);
    json_object_update(zero, stage3);
    json_decref(stage3);
    return zero;
}

static json_t *scheduler_json(const struct config_scheduler *s)
{
    const char *warmup_type = s->warmup_linear ? "linear" : "log";
    json_int_t warmup = (json_int_t)s->warmup_num_steps, total = (json_int_t)s->total_num_steps;
    switch (s->type) {
    case SCHEDULER_NONE:
        break;
    case SCHEDULER_WARMUP:
        return json_pack("{s:s, s:{s:f, s:f, s:I, s:s}}", "type", "WarmupLR", "params", "warmup_min_lr",
                         s->warmup_min_lr, "warmup_max_lr", s->warmup_max_lr, "warmup_num_steps", warmup,
                         "warmup_type", warmup_type);
    case SCHEDULER_WARMUP_DECAY:
        return json_pack("{s:s, s:{s:f, s:f, s:I, s:s, s:I}}", "type", "WarmupDecayLR", "params", "warmup_min_lr",
                         s->warmup_min_lr, "warmup_max_lr", s->warmup_max_lr, "warmup_num_steps", warmup,
                         "warmup_type", warmup_type, "total_num_steps", total);
    case SCHEDULER_WARMUP_COSINE:
        return json_pack("{s:s, s:{s:f, s:f, s:I, s:s, s:I}}", "type", "WarmupCosineLR", "params", "warmup_min_ratio",
                         s->warmup_min_ratio, "cos_min_ratio", s->cos_min_ratio, "warmup_num_steps", warmup,
                         "warmup_type", warmup_type, "total_num_steps", total);
    }
    return json_null();
}

static json_t *optimizer_json(const struct adam_hyper *adam)
{
    return json_pack("{s:s, s:{s:f, s:[f, f], s:f, s:f, s:b, s:b}}", "type", adam->decoupled ? "AdamW" : "Adam",
                     "params", "lr", adam->lr, "betas", adam->beta1, adam->beta2, "eps", adam->eps, "weight_decay",
                     adam->weight_decay, "bias_correction", adam->bias_correction, "adam_w_mode", adam->decoupled);
}

static json_t *config_json(const struct config *config)
{
    json_t *bf16 = json_pack("{s:b}", "enabled", config->precision == DTYPE_BF16);
    if (config->precision == DTYPE_BF16)
        json_object_set_new(bf16, "check_grad_overflow", json_boolean(config->check_overflow));
    return json_pack("{s:I, s:I, s:I, s:f, s:s, s:{s:s}, s:o, s:o, s:o, s:o, s:o, s:{s:s, s:s}}", "train_batch_size",
                     (json_int_t)config->train_batch, "train_micro_batch_size_per_gpu", (json_int_t)config->micro_batch,
                     "gradient_accumulation_steps", (json_int_t)config->accumulation, "gradient_clipping",
                     config->gradient_clipping, "communication_data_type", dtype_name(config->communication_dtype),
                     "data_types", "grad_accum_dtype", dtype_name(config->accumulation_dtype), "fp16",
                     loss_scale_json(config), "bf16", bf16, "optimizer", optimizer_json(&config->adam), "scheduler",
                     scheduler_json(&config->scheduler), "zero_optimization", zero_json(config), "zerogauge", "recipe",
                     config->recipe, "clip_form", config->clip_form == CLIP_TORCH ? "torch" : "deepspeed");
}

// The text of JSON with the fewest digits from 15 on that read back as the same numbers. To be freed.
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

void config_print(const struct config *config, FILE *out)
{
    json_t *json = config_json(config);
    char *text = shortest_text(json, JSON_INDENT(4));
    fprintf(out, "%s\n", text ? text : "");
    free(text);
    json_decref(json);
}

void config_notes_fill(struct config_notes *notes, const struct config *config)
{
    json_t *json = config_json(config);
    for (size_t i = 0; i < notes->count; i++) {
        struct config_note *note = &notes->notes[i];
        const json_t *value = note->kind == CONFIG_AUTO ? config_doc_descend(json, note->key) : NULL;
        char *text = value ? shortest_text(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
        snprintf(note->value, sizeof note->value, "%s", text ? text : "");
        free(text);
    }
    json_decref(json);
}

void config_print_notes(const struct config_notes *notes, FILE *out)
{
    for (size_t i = 0; i < notes->count; i++) {
        const struct config_note *note = &notes->notes[i];
        if (note->kind == CONFIG_IGNORED)
            fprintf(out, "%s: accepted, without meaning here\n", note->key);
        else
            fprintf(out, "%s: \"auto\" is %s\n", note->key, note->value[0] ? note->value : "the default");
    }
}
