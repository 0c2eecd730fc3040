// SPDX-License-Identifier: Apache-2.0
// Where the values of a run lie in its memory.
#include "ref/model/gpt_pass.h"

#include "ref/arithmetic/gpt_math.h"

// Reserves the next count floats, beginning at a cache line; returns their offset.
static size_t take(struct gpt_layout *layout, size_t count)
{
    size_t at = layout->total;
    layout->total += (count + 15) / 16 * 16;
    return at;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct attention_shape attention_of(const struct gpt_shape *shape, const struct gpt_widths *own,
                                           size_t sequence_count)
{
    return (struct attention_shape){.sequence_count = sequence_count,
                                    .sequence_length = shape->sequence_length,
                                    .width = own->heads_width,
                                    .head_count = own->heads};
}

// The activations that are kept of one block.
static void layout_block(struct gpt_layout *l, const struct gpt_shape *shape, const struct gpt_widths *own,
                         size_t sequence_count, size_t stream_rows, bool checkpointing)
{
    size_t rows = sequence_count * shape->sequence_length, width = shape->width;
    const struct attention_shape attention = attention_of(shape, own, sequence_count);
    l->input = take(l, stream_rows * width);
    l->stats_1 = take(l, stream_rows * 2);
    l->qkv = take(l, rows * 3 * own->heads_width);
    l->attention = take(l, rows * own->heads_width);
    l->attention_stats = take(l, attention_stats_count(&attention));
    l->middle = take(l, stream_rows * width);
    l->stats_2 = take(l, stream_rows * 2);
    size_t slots = shape->experts.count * gpt_expert_slots(shape, rows);
    l->fc = take(l, (slots > 0 ? slots : rows) * own->tile_width);
    l->probabilities = take(l, rows * shape->experts.count);
    l->gates = take(l, rows * shape->experts.top);
    l->slots = take(l, rows * shape->experts.top);
    l->received = take(l, slots * width);
    l->answers = take(l, slots * width);
    if (!checkpointing) {
        l->fc_tile = l->total - l->fc;
        l->total += (shape->tile_count - 1) * l->fc_tile;
    }
    if (shape->tile_count > 1)
        l->normed = take(l, rows * width);
}

// The memory of experts that no block keeps.
static void layout_experts(struct gpt_layout *l, const struct gpt_shape *shape, const struct gpt_widths *own,
                           size_t rows)
{
    size_t slots = shape->experts.count * gpt_expert_slots(shape, rows), width = shape->width;
    l->sent = take(l, slots * width);
    l->returned = take(l, slots * width);
    l->gate_gradients = take(l, rows * shape->experts.top);
    l->logit_gradients = take(l, rows * shape->experts.count);
    l->expert_sum = take(l, slots > 0 ? (2 * width + 1) * own->tile_width + width : 0);
}

// A partial sum for each level of the tree over this rank's blocks.
static void layout_sums(struct gpt_layout *l, const struct gpt_shape *shape, const struct gpt_widths *own, size_t rows)
{
    size_t width = larger(shape->width, shape->lora.rank);
    size_t levels = 1;
    l->partial = rows * width;
    while ((size_t)1 << (levels - 1) < own->blocks)
        levels++;
    l->partials = take(l, levels * rows * width);
    l->slices = take(l, own->parts > 1 || shape->sequence_parallel ? rows * width + own->parts : 0);
    l->all_rows = take(l, shape->sequence_parallel ? rows * shape->width : 0);
    l->vocabulary_rows = take(l, 2 * rows * (1 + own->parts));
}

struct gpt_layout gpt_layout_of(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    const struct gpt_shape *shape = model->shape;
    size_t rows = sequence_count * shape->sequence_length, width = shape->width;
    const struct gpt_widths own = gpt_widths_of(model);
    size_t stream_rows = gpt_stream_rows(model, sequence_count);
    size_t tile_width = own.tile_width, qkv_width = 3 * own.heads_width;
    size_t largest_param = 0, largest_layer = 0;
    for (int i = 0; i < model->param_count; i++)
        largest_param = larger(largest_param, model->params[i].count);
    for (int i = 0; i < model->layer_count; i++)
        largest_layer = larger(largest_layer, model_layer_elements(model, i));

    struct gpt_layout l = {0};
    layout_block(&l, shape, &own, sequence_count, stream_rows, checkpointing);
    if (!checkpointing) {
        l.block = l.total;
        l.total *= gpt_block_count(model);
        l.output = take(&l, stream_rows * width);
    } else {
        l.output = l.input;
    }
    l.output_stats = take(&l, stream_rows * 2);
    l.gradient = take(&l, stream_rows * width);
    // With experts the gradient of the MLP's input has all rows, before the stream's are taken.
    l.wide_1 = take(&l, larger(rows * tile_width, (shape->experts.count > 0 ? rows : stream_rows) * width));
    l.wide_2 = take(&l, rows * larger(tile_width, qkv_width));
    l.normed_gradient = shape->tile_count == 1 ? l.wide_1 : take(&l, rows * width);
    l.narrow = take(&l, rows * width);
    l.vectors = take(&l, larger(larger(tile_width, qkv_width), 2 * width));
    l.logits_stride = (own.vocabulary + 15) / 16 * 16;
    size_t logits = gpt_has_head(model) ? rows * l.logits_stride : 0;
    if (dtype == DTYPE_FP32) {
        l.logits = l.weight_gradient = take(&l, larger(logits, largest_param));
    } else {
        l.logits = l.rounded = take(&l, larger(logits, rows * width));
        l.weight_gradient = take(&l, largest_param);
    }
    const struct attention_shape attention = attention_of(shape, &own, sequence_count);
    l.attention_scratch = take(&l, attention_scratch_count(&attention));
    layout_experts(&l, shape, &own, rows);
    l.low = take(&l, rows * shape->lora.rank);
    l.low_gradient = take(&l, rows * shape->lora.rank);
    if (dtype != DTYPE_FP32)
        l.weights = take(&l, largest_layer);
    if (shape->product_blocks > 1)
        layout_sums(&l, shape, &own, rows);
    return l;
}
