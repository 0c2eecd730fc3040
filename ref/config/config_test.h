// SPDX-License-Identifier: Apache-2.0
// For tests of configurations: load JSON text from C strings.
#pragma once

#include "ref/config/config.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static struct config_notes notes;

// Loads text after replacing ' by ".
static inline int load_with(const char *text, struct config_options options, struct config *out)
{
    char json[8192];
    size_t bytes = strlen(text);
    cr_assert_lt(bytes, sizeof json);
    for (size_t i = 0; i <= bytes; i++)
        json[i] = text[i] == '\'' ? '"' : text[i];
    return config_load_text("x.json", json, bytes, &options, out, &notes);
}

// Loads valid text at a world of 2.
static inline struct config load(const char *text)
{
    struct config config;
    cr_assert_eq(load_with(text, (struct config_options){.world = 2}, &config), ERR_NONE, "%s: %s", text,
                 err_message());
    return config;
}

// Loads an object with a micro-batch of 4 and the formatted body.
static inline struct config load_body(const char *format, ...)
{
    char body[4096], text[4608];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(body, sizeof body, format, arguments);
    va_end(arguments);
    snprintf(text, sizeof text, "{'train_micro_batch_size_per_gpu': 4, %s}", body);
    return load(text);
}

// Expects that loading the body fails with a message that contains this one.
static inline void expect_refused(const char *body, const char *message)
{
    char text[4608];
    struct config config;
    snprintf(text, sizeof text, "{'train_micro_batch_size_per_gpu': 4, %s}", body);
    cr_expect_eq(load_with(text, (struct config_options){.world = 2}, &config), ERR_USAGE, "%s", body);
    cr_expect(strstr(err_message(), message), "%s\nsays     %s\nexpected %s", body, err_message(), message);
}

// The printed configuration; the caller frees it.
static inline char *printed(const struct config *config)
{
    char *text;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    config_print(config, file);
    fclose(file);
    return text;
}

// The note on a key; null if there is none.
static inline const struct config_note *note_on(const char *key)
{
    for (size_t i = 0; i < notes.count; i++)
        if (strcmp(notes.notes[i].key, key) == 0)
            return &notes.notes[i];
    return NULL;
}

// Of these keys, and of no others, there are notes that they have no effect.
static inline void expect_ignored(const char *keys)
{
    char words[1024];
    size_t count = 0;
    snprintf(words, sizeof words, "%s", keys);
    for (char *rest = words, *key; (key = strsep(&rest, " ")); count++)
        cr_expect(note_on(key) && note_on(key)->kind == CONFIG_IGNORED, "%s", key);
    cr_expect_eq(notes.count, count, "%zu", notes.count);
}

// Compares every field.
static inline void expect_same(const struct config *a, const struct config *b)
{
    cr_expect(a->train_batch == b->train_batch && a->micro_batch == b->micro_batch &&
              a->accumulation == b->accumulation);
    cr_expect(a->stage == b->stage && a->precision == b->precision);
    cr_expect_eq(a->communication_dtype, b->communication_dtype);
    cr_expect_eq(a->accumulation_dtype, b->accumulation_dtype);
    cr_expect_eq(a->check_overflow, b->check_overflow);
    cr_expect(a->gradient_clipping == b->gradient_clipping && a->clip_form == b->clip_form);
    const struct config_loss_scale *x = &a->loss_scale, *y = &b->loss_scale;
    cr_expect(x->dynamic == y->dynamic && x->static_scale == y->static_scale &&
              x->initial_scale_power == y->initial_scale_power && x->window == y->window &&
              x->hysteresis == y->hysteresis && x->consecutive_hysteresis == y->consecutive_hysteresis &&
              x->min_scale == y->min_scale);
    cr_expect(a->adam.lr == b->adam.lr && a->adam.beta1 == b->adam.beta1 && a->adam.beta2 == b->adam.beta2 &&
              a->adam.eps == b->adam.eps && a->adam.weight_decay == b->adam.weight_decay);
    cr_expect(a->adam.decoupled == b->adam.decoupled && a->adam.bias_correction == b->adam.bias_correction);
    cr_expect_str_eq(a->recipe, b->recipe);
    const struct config_scheduler *s = &a->scheduler, *t = &b->scheduler;
    cr_expect(s->type == t->type && s->warmup_min_lr == t->warmup_min_lr && s->warmup_max_lr == t->warmup_max_lr &&
              s->warmup_min_ratio == t->warmup_min_ratio && s->cos_min_ratio == t->cos_min_ratio &&
              s->warmup_num_steps == t->warmup_num_steps && s->total_num_steps == t->total_num_steps &&
              s->warmup_linear == t->warmup_linear);
    cr_expect(a->reduce_bucket_size == b->reduce_bucket_size && a->allgather_bucket_size == b->allgather_bucket_size);
    cr_expect(a->overlap_comm == b->overlap_comm && a->contiguous_gradients == b->contiguous_gradients);
    cr_expect(a->prefetch_bucket_size == b->prefetch_bucket_size &&
              a->param_persistence_threshold == b->param_persistence_threshold &&
              a->model_persistence_threshold == b->model_persistence_threshold &&
              a->max_live_parameters == b->max_live_parameters && a->max_reuse_distance == b->max_reuse_distance);
    const struct config_offload_optimizer *o = &a->offload_optimizer, *p = &b->offload_optimizer;
    cr_expect(o->tier == p->tier && o->buffer_count == p->buffer_count && o->pin_memory == p->pin_memory &&
              o->pipeline_read == p->pipeline_read && o->pipeline_write == p->pipeline_write && o->ratio == p->ratio);
    const struct config_offload_param *q = &a->offload_param, *r = &b->offload_param;
    cr_expect(q->tier == r->tier && q->buffer_count == r->buffer_count && q->buffer_size == r->buffer_size &&
              q->max_in_cpu == r->max_in_cpu && q->pin_memory == r->pin_memory);
    cr_expect(a->gradient_tier == b->gradient_tier && a->activation_tier == b->activation_tier &&
              a->activation_checkpointing == b->activation_checkpointing && a->sub_group_size == b->sub_group_size);
    cr_expect_eq(a->nvme_path_count, b->nvme_path_count);
    for (int i = 0; i < a->nvme_path_count; i++)
        cr_expect_str_eq(a->nvme_paths[i], b->nvme_paths[i]);
    cr_expect(a->aio.block_bytes == b->aio.block_bytes && a->aio.queue_depth == b->aio.queue_depth &&
              a->aio.single_submit == b->aio.single_submit && a->aio.overlap_events == b->aio.overlap_events &&
              a->aio.intra_op_parallelism == b->aio.intra_op_parallelism && a->aio.engine == b->aio.engine);
    cr_expect(a->delayed_update_start_step == b->delayed_update_start_step &&
              a->speculative_update == b->speculative_update && a->async_save == b->async_save &&
              a->partitioning == b->partitioning && a->tiling_factor == b->tiling_factor &&
              a->sequence_parallel == b->sequence_parallel && a->reduction_group == b->reduction_group &&
              strcmp(a->lora, b->lora) == 0 && a->secondary_ranks == b->secondary_ranks &&
              a->quantized_weights == b->quantized_weights && a->e4m3_weights == b->e4m3_weights &&
              a->quantized_gradients == b->quantized_gradients && a->node_ranks == b->node_ranks &&
              a->quantization_block == b->quantization_block && memcmp(&a->mesh, &b->mesh, sizeof a->mesh) == 0);
}

// The printed configuration loads to the same, without notes.
static inline void expect_printed_loads(const struct config *config)
{
    char *text = printed(config);
    struct config second = load(text);
    cr_assert_eq(notes.count, 0u, "%s: %s", text, notes.notes[0].key);
    char *again = printed(&second);
    cr_assert_str_eq(again, text);
    expect_same(config, &second);
    free(text);
    free(again);
}
