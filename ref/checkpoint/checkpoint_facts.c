// SPDX-License-Identifier: Apache-2.0
// The facts that determine a run's bits, and their comparison with the facts of a checkpoint that the run continues.
#include "ref/checkpoint/checkpoint.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// A fact's value that is not written; null: it has none.
static const char *unwritten(const char *key)
{
    static const char *const rows[][2] = {
        {"master_dtype", "fp32"}, {"moment_dtype", "fp32"}, {"optimizer", "Adam"}, {"muon", "none"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(key, rows[i][0]) == 0)
            return rows[i][1];
    return NULL;
}

static void add(struct facts *facts, enum fact_kind kind, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void add(struct facts *facts, enum fact_kind kind, const char *key, const char *format, ...)
{
    assert(facts->count < FACT_MAX);
    struct fact *row = &facts->rows[facts->count];
    row->key = key;
    row->kind = kind;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->value, sizeof row->value, format, arguments);
    va_end(arguments);
    const char *usual = unwritten(key);
    facts->count += !usual || strcmp(row->value, usual) != 0;
}

static void add_optimizer(const struct config *config, struct facts *facts)
{
    const struct adam_hyper *adam = &config->adam;
    const struct muon_hyper *muon = &config->muon;
    add(facts, FACT_MUST, "optimizer", "%s", config_optimizer_name(config));
    if (config->uses_muon)
        add(facts, FACT_MAY, "muon", "lr %.17g momentum %.17g%s steps %d %s", muon->lr, muon->momentum,
            muon->nesterov ? " nesterov" : "", muon->ns_steps,
            muon->adjust == MUON_ORIGINAL ? "original" : "match_rms_adamw");
    add(facts, FACT_MUST, "recipe", "%s", config->recipe);
    add(facts, FACT_MAY, "lr", "%.17g", adam->lr);
    add(facts, FACT_MAY, "betas", "%.17g, %.17g", adam->beta1, adam->beta2);
    add(facts, FACT_MAY, "eps", "%.17g", adam->eps);
    add(facts, FACT_MAY, "weight_decay", "%.17g%s", adam->weight_decay, adam->decoupled ? " decoupled" : "");
    add(facts, FACT_MAY, "bias_correction", "%s", adam->bias_correction ? "true" : "false");
    add(facts, FACT_MAY, "gradient_clipping", "%.17g %s", config->gradient_clipping,
        config->clip_form == CLIP_TORCH ? "torch" : "deepspeed");
    static const char *const schedulers[] = {"none", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};
    const struct config_scheduler *s = &config->scheduler;
    if (s->type == SCHEDULER_NONE)
        add(facts, FACT_MAY, "scheduler", "none");
    else
        add(facts, FACT_MAY, "scheduler", "%s lr %.17g %.17g ratio %.17g %.17g steps %" PRIu64 " of %" PRIu64 " %s",
            schedulers[s->type], s->warmup_min_lr, s->warmup_max_lr, s->warmup_min_ratio, s->cos_min_ratio,
            s->warmup_num_steps, s->total_num_steps, s->warmup_linear ? "linear" : "log");
}

static void add_loss_scale(const struct config_loss_scale *scale, struct facts *facts)
{
    if (!scale->dynamic)
        add(facts, FACT_MUST, "loss_scale", "static %.17g", scale->static_scale);
    else
        add(facts, FACT_MUST, "loss_scale", "dynamic 2^%u window %" PRIu64 " hysteresis %" PRIu64 "%s min %.17g",
            scale->initial_scale_power, scale->window, scale->hysteresis,
            scale->consecutive_hysteresis ? " consecutive" : "", scale->min_scale);
}

// The order of a gradient's sum (oracle.h), and what is quantized on the way there.
static void add_gradient_sum(const struct config *config, bool reduces_each_micro_step, struct facts *facts)
{
    const struct mesh *mesh = &config->mesh;
    bool replicas = mesh->replicate > 1, each = reduces_each_micro_step && !(replicas && mesh->shard == 1);
    // With one micro-step both orders give the same sum.
    const char *plain = config->accumulation == 1 ? "over ranks"
                        : each                    ? "over ranks, then over micro-steps"
                                                  : "over micro-steps, then over ranks";
    char groups[64] = "", experts[64] = "", weights[64] = "", gradients[96] = "";
    if (replicas && mesh->shard > 1)
        snprintf(groups, sizeof groups, ", in groups of %d; then over groups", mesh->shard);
    if (mesh->expert > 1)
        snprintf(experts, sizeof experts, "; of experts over groups of %d first", mesh->expert);
    if (config->e4m3_weights)
        snprintf(weights, sizeof weights, "; of weights in E4M3");
    else if (config->quantized_weights)
        snprintf(weights, sizeof weights, "; of weights in int8, in blocks of %zu", config->quantization_block);
    if (config->quantized_gradients)
        snprintf(gradients, sizeof gradients, "; in int4, in blocks of %zu, over nodes of %d",
                 config->quantization_block, config->node_ranks);
    add(facts, FACT_MAY, "gradient_sum", "%s%s%s%s%s", plain, groups, experts, weights, gradients);
}

int facts_of(const struct facts_setting *setting, struct facts *out)
{
    const struct config *config = setting->config;
    const struct stage_operations *operations;
    TRY(stage_find(config->stage, &operations));
    *out = (struct facts){0};
    add(out, FACT_MUST, "seed", "%" PRIu64, setting->seed);
    add(out, FACT_MUST, "train_batch_size", "%zu", config->train_batch);
    add(out, FACT_MUST, "precision", "%s", dtype_name(config->precision));
    add(out, FACT_MUST, "master_dtype", "%s", dtype_name(config->master_dtype));
    add(out, FACT_MUST, "moment_dtype", "%s", dtype_name(config->moment_dtype));
    add_loss_scale(&config->loss_scale, out);
    add_optimizer(config, out);
    add(out, FACT_MAY, "world", "%d", setting->world);
    add(out, FACT_MAY, "gradient_accumulation_steps", "%zu", config->accumulation);
    add_gradient_sum(config, operations->reduces_each_micro_step, out);
    add(out, FACT_MAY, "reduction_group", "%zu", config->reduction_group);
    add(out, FACT_MAY, "communication_data_type", "%s", dtype_name(config->communication_dtype));
    add(out, FACT_MAY, "grad_accum_dtype", "%s", dtype_name(config->accumulation_dtype));
    add(out, FACT_MAY, "check_overflow", "%s", config->check_overflow ? "true" : "false");
    add(out, FACT_MUST, "delayed_update", "%" PRIu64, config->delayed_update_start_step);
    char digest[FILE_DIGEST_BYTES] = "none";
    if (setting->text)
        text_digest(setting->text, digest);
    add(out, FACT_MAY, "text", "%s", digest);
    add(out, setting->model->lora ? FACT_MUST : FACT_BEFORE, "initial_weights", "%s",
        setting->weights ? setting->weights : "of the seed");
    return ERR_NONE;
}

static int refuse(const char *path, const char *key, const char *was, const char *is)
{
    char shown[TEXT_MESSAGE_BYTES];
    bool is_batch = strcmp(key, "train_batch_size") == 0;
    return err_set(ERR_USAGE, "%s: was made with %s %s; this run has %s, and cannot continue it with the same bits%s",
                   path, key, text_message(shown, was, FACT_BYTES), is,
                   is_batch ? ": give a world, train_micro_batch_size_per_gpu and gradient_accumulation_steps (--set) "
                              "whose product it is"
                            : "");
}

int facts_compare(const struct facts *facts, const struct manifest *manifest, const char *path, bool *repeatable,
                  char notes[NOTES_BYTES])
{
    *repeatable = manifest->repeatable;
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *row = &facts->rows[i];
        const char *was = manifest_made_with(manifest, row->key);
        was = was ? was : unwritten(row->key);
        if (was && strcmp(was, row->value) == 0)
            continue;
        *repeatable = false;
        char shown[TEXT_MESSAGE_BYTES];
        text_message(shown, was ? was : "unknown", FACT_BYTES);
        if (row->kind == FACT_MUST)
            return refuse(path, row->key, was ? was : "unknown", row->value);
        size_t used = strlen(notes);
        if (row->kind == FACT_MAY)
            snprintf(notes + used, NOTES_BYTES - used, "%s was %s until step %" PRIu64 " and is %s afterwards\n",
                     row->key, shown, manifest->step, row->value);
    }
    // A fact that only another version knows may determine bits, too.
    for (size_t i = 0; i < manifest->fact_count; i++) {
        bool known = false;
        for (size_t k = 0; k < facts->count; k++)
            known |= strcmp(facts->rows[k].key, manifest->facts[i].key) == 0;
        char shown[TEXT_MESSAGE_BYTES];
        const char *usual = unwritten(manifest->facts[i].key);
        if (!known && usual)
            return refuse(path, manifest->facts[i].key, manifest->facts[i].value, usual);
        if (!known)
            return err_set(ERR_USAGE, "%s: \"made_with.%s\" is unknown to this version", path,
                           text_message(shown, manifest->facts[i].key, 100));
    }
    return ERR_NONE;
}
