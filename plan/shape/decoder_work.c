// SPDX-License-Identifier: Apache-2.0
// Operations and working memory of decoders. The memory follows the reference's layout for a GPT
// (ref/model/gpt_layout.c): x, q, k, v, the attention's output, x2, gate and up of every block stay in fp32; scores
// exist for one head at a time.
#include "plan/shape/decoder_internal.h"
#include "ref/model/part.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static const struct decoder_work *work_of(const struct model *model, int layer)
{
    return &decoder_of(model)->work[decoder_whole_layer(model, layer)];
}

static double layer_flops(const struct model *model, int layer, size_t sequence_count)
{
    const struct decoder_work *work = work_of(model, layer);
    double rows = (double)(sequence_count * model->sequence_length), parts = (double)decoder_tensor_parts(model);
    return rows * (2 * (work->cut_elements / parts + work->whole_elements) + (work->attention + work->state) / parts);
}

static size_t kept_values(const struct model *model, int layer, size_t sequence_count)
{
    const struct decoder_work *work = work_of(model, layer);
    size_t rows = sequence_count * model->sequence_length, width = decoder_of(model)->shape.width;
    return 2 * width * decoder_stream_rows(model, sequence_count) +
           rows * (work->cut_kept / decoder_tensor_parts(model) + work->whole_kept);
}

static size_t run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    const struct decoder_shape *s = &decoder_of(model)->shape;
    size_t rows = sequence_count * s->sequence_length, stream_rows = decoder_stream_rows(model, sequence_count);
    size_t largest_param = 0, largest_layer = 0, largest_block = 0, blocks = 0, widest = 0, widest_used = 0;
    size_t logits = rows * s->vocabulary / decoder_tensor_parts(model);
    for (int layer = 0; layer < model->layer_count; layer++) {
        for (int i = 0; i < model->layers[layer].param_count; i++)
            largest_param = larger(largest_param, model->params[model->layers[layer].params[i]].count);
        largest_layer = larger(largest_layer, model_layer_elements(model, layer));
        widest = larger(widest, work_of(model, layer)->widest / decoder_tensor_parts(model));
        if (!decoder_is_block(decoder_of(model), decoder_whole_layer(model, layer)))
            continue;
        blocks += kept_values(model, layer, sequence_count);
        largest_block = larger(largest_block, kept_values(model, layer, sequence_count));
    }
    widest_used = larger(widest, s->width);
    size_t total = checkpointing ? largest_block : blocks + stream_rows * s->width;
    total += rows * (1 + 2 * widest) + 2 * stream_rows * s->width;
    total += 2 * s->sequence_length * s->sequence_length + widest_used;
    if (dtype == DTYPE_FP32)
        total += larger(logits, largest_param);
    else
        total += logits + largest_param + largest_layer;
    return total * sizeof(float);
}

static size_t checkpoint_bytes(const struct model *model, int layer, size_t sequence_count)
{
    size_t width = decoder_of(model)->shape.width;
    return decoder_whole_layer(model, layer) > 0 ? decoder_stream_rows(model, sequence_count) * width * sizeof(float)
                                                 : 0;
}

const struct model_operations decoder_operations = {
    .layer_flops = layer_flops,
    .run_bytes = run_bytes,
    .checkpoint_bytes = checkpoint_bytes,
    .token_bytes = decoder_token_bytes,
    .place = decoder_place,
    .slice = decoder_slice,
    .border = decoder_border,
    .exchange = decoder_exchange,
};

// Sums over a part's blocks.
struct sums {
    size_t blocks, with_attention, with_state, with_experts, with_mlp;
    double operations;  // of attention in its causal half, and of states
};

static struct sums sum_blocks(const struct model *model)
{
    const struct decoder *decoder = decoder_of(model);
    struct sums sums = {0};
    for (int layer = 0; layer < model->layer_count; layer++) {
        int whole = decoder_whole_layer(model, layer);
        if (!decoder_is_block(decoder, whole))
            continue;
        const struct decoder_block *block = &decoder->shape.block[whole - 1];
        sums.blocks++;
        sums.with_attention += !block->has_no_attention;
        sums.with_state += block->has_state;
        sums.with_experts += block->mlp == DECODER_MLP_EXPERTS;
        sums.with_mlp += block->mlp == DECODER_MLP_DENSE;
        sums.operations += decoder->work[whole].attention / 2 + decoder->work[whole].state;
    }
    return sums;
}

// Everything in a plan is linear in these widths, so that blocks that differ are as their average. State spaces have
// the widths of values and of attention's output.
bool decoder_transformer(const struct model *model, struct transformer *out)
{
    if (!decoder_of(model))
        return false;
    const struct decoder_shape *s = &decoder_of(model)->shape;
    const struct sums sums = sum_blocks(model);
    size_t blocks = sums.blocks, parts = decoder_tensor_parts(model), attention = sums.with_attention;
    size_t own = decoder_expert_ranks(model);
    size_t copies = decoder_key_copies(s, parts);
    size_t value = copies * decoder_value_width(s) + (s->gated_output ? decoder_output_width(s) : 0);
    double mixed = (double)(attention * (decoder_query_width(s) + decoder_output_width(s)) +
                            sums.with_state * s->state.out_columns);
    bool has_experts = sums.with_experts > 0;
    size_t dense = sums.with_mlp * s->hidden / blocks;
    *out = (struct transformer){
        .blocks = blocks,
        .width = s->width,
        .query_width = attention * decoder_query_width(s) / blocks / parts,
        .key_width = attention * decoder_key_width(s) * copies / blocks / parts,
        .value_width = (attention * value + sums.with_state * s->state.in_rows) / blocks / parts,
        .output_width = (attention * decoder_output_width(s) + sums.with_state * s->state.out_columns) / blocks / parts,
        .query_latent = attention * s->query_latent / blocks,
        .key_latent = attention * s->key_latent / blocks,
        .attended_length = mixed > 0 ? sums.operations / mixed : 0,
        .vocabulary = s->vocabulary / parts,
        .sequence_length = s->sequence_length,
        .hidden = has_experts ? sums.with_experts * s->expert_hidden * own / blocks / parts : dense / parts,
        .mlp_matrices = s->mlp_matrices,
        .experts = has_experts ? s->experts / own / (model->part ? (size_t)model->part->place.expert_parts : 1) : 1,
        .expert_ranks = own,
        .experts_used = has_experts ? s->experts_used : 1,
        .shared_hidden = has_experts ? (sums.with_experts * s->shared_hidden / blocks + dense) / parts : 0,
        .sequence_ranks = s->sequence_parallel ? parts : 1,
        .context_ranks = s->context_ranks,
        .is_frozen = s->lora_rank > 0,
    };
    return true;
}
