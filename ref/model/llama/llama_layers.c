// SPDX-License-Identifier: Apache-2.0
// A Llama's layers: the embedding, tokens to stream; the blocks; the head, stream to loss.
//
// A block is x2 = x + o(attention(q(n), k(n), v(n))) with n = norm_1(x), x' = x2 + down(silu(gate(m)) * up(m)) with
// m = norm_2(x2). Forward keeps x, the turned q and k, v, the attention's output, x2, gate(m) and up(m); backward
// recomputes the rest, and writes the gradients of gate(m) and up(m) in their place.
#include "ref/model/llama/llama_pass.h"

#include "base/err.h"

#include <string.h>

static struct attention_rows attention_rows_for(const struct llama_sizes *sizes)
{
    size_t width = sizes->width, kv_width = llama_kv_width(sizes);
    return (struct attention_rows){.out_stride = width,
                                   .qkv_stride = width + 2 * kv_width,
                                   .key_at = width,
                                   .value_at = width + kv_width,
                                   .group = sizes->heads / sizes->kv_heads};
}

static struct attention_shape attention_of(const struct llama_pass *pass, const struct attention_rows *rows)
{
    return (struct attention_shape){pass->run->sequence_count, pass->sizes->length, pass->sizes->width,
                                    pass->sizes->heads,        pass->dtype,         rows};
}

// Of q and k, which follow each other in a row.
static struct rotary rotary_of(const struct llama_pass *pass)
{
    const struct llama_sizes *sizes = pass->sizes;
    return (struct rotary){.length = sizes->length,
                           .heads = sizes->heads + sizes->kv_heads,
                           .width = llama_head_width(sizes),
                           .stride = sizes->width + 2 * llama_kv_width(sizes),
                           .cosines = pass->llama->cosines,
                           .sines = pass->llama->sines,
                           .dtype = pass->dtype};
}

// The queries (part 0), keys (1) or values (2) of rows of q, k and v.
static struct llama_columns part_of(const struct llama_pass *pass, float *qkv, int part)
{
    size_t width = pass->sizes->width, kv_width = llama_kv_width(pass->sizes);
    size_t column = part == 0 ? 0 : width + (size_t)(part - 1) * kv_width;
    return (struct llama_columns){qkv + column, width + 2 * kv_width};
}

// out = stream + in W^T
static void add_to_stream(const struct llama_pass *pass, int index, const float *stream, const float *in, float *out)
{
    memcpy(out, stream, pass->rows * pass->sizes->width * sizeof *out);
    llama_multiply(pass, index, in, (struct llama_columns){out, pass->sizes->width}, RESULT_ADDED);
}

void llama_block_activations(const struct llama_pass *pass)
{
    const struct llama_layout *at = &pass->at;
    const struct attention_rows attention_rows = attention_rows_for(pass->sizes);
    const struct attention_shape shape = attention_of(pass, &attention_rows);
    const struct rotary rotary = rotary_of(pass);
    size_t rows = pass->rows, width = pass->sizes->width, hidden = pass->sizes->hidden;
    float *memory = pass->memory, *kept = pass->kept, *qkv = kept + at->qkv, *normed = memory + at->normed;

    rmsnorm_stats(rows, width, kept + at->input, kept + at->stats_1);
    llama_norm(pass, NORM_1_WEIGHT, kept + at->input, kept + at->stats_1);
    // The rotation rounds queries and keys.
    llama_multiply(pass, Q_WEIGHT, normed, part_of(pass, qkv, 0), RESULT_FLOATS);
    llama_multiply(pass, K_WEIGHT, normed, part_of(pass, qkv, 1), RESULT_FLOATS);
    llama_multiply(pass, V_WEIGHT, normed, part_of(pass, qkv, 2), RESULT_OPERAND);
    rotary_turn(&rotary, false, rows, qkv);
    attention_forward(&shape, qkv, kept + at->attention, kept + at->attention_stats, memory + at->attention_scratch);
    add_to_stream(pass, O_WEIGHT, kept + at->input, kept + at->attention, kept + at->middle);
    rmsnorm_stats(rows, width, kept + at->middle, kept + at->stats_2);
    llama_norm(pass, NORM_2_WEIGHT, kept + at->middle, kept + at->stats_2);
    llama_multiply(pass, GATE_WEIGHT, normed, (struct llama_columns){kept + at->gate, hidden}, RESULT_FLOATS);
    llama_multiply(pass, UP_WEIGHT, normed, (struct llama_columns){kept + at->up, hidden}, RESULT_FLOATS);
}

void llama_block_forward(const struct llama_pass *pass)
{
    const struct llama_layout *at = &pass->at;
    float *kept = pass->kept, *hidden = pass->memory + at->wide;
    size_t block = (size_t)(pass->list - pass->run->model->layers) - 1;
    bool last = block + 1 == pass->sizes->layers;
    llama_block_activations(pass);
    swiglu_forward(pass->rows, pass->sizes->hidden, kept + at->gate, kept + at->up, pass->dtype, hidden);
    add_to_stream(pass, DOWN_WEIGHT, kept + at->middle, hidden,
                  pass->memory + (last ? at->output : (block + 1) * at->block + at->input));
}

// The gradient of the block's output as an operand.
static struct llama_columns stream_gradient(const struct llama_pass *pass)
{
    size_t width = pass->sizes->width;
    float *rounded = pass->memory + pass->at.rounded;
    if (pass->dtype != DTYPE_FP32)
        operand_round(pass->dtype, pass->rows * width, pass->memory + pass->at.gradient, rounded);
    return (struct llama_columns){rounded, width};
}

static void mlp_backward(const struct llama_pass *pass)
{
    const struct llama_layout *at = &pass->at;
    float *kept = pass->kept, *wide = pass->memory + at->wide, *normed = pass->memory + at->normed;
    size_t hidden = pass->sizes->hidden;
    const struct llama_columns stream = stream_gradient(pass);
    const struct llama_columns gate = {kept + at->gate, hidden}, up = {kept + at->up, hidden};
    llama_multiply_back(pass, DOWN_WEIGHT, stream, wide, RESULT_FLOATS);
    swiglu_backward(pass->rows, hidden, pass->dtype, gate.data, up.data, wide);
    llama_weight_gradient(pass, DOWN_WEIGHT, stream, wide);
    // Recomputation has left it there.
    if (!pass->run->checkpointing)
        llama_norm(pass, NORM_2_WEIGHT, kept + at->middle, kept + at->stats_2);
    llama_weight_gradient(pass, GATE_WEIGHT, gate, normed);
    llama_weight_gradient(pass, UP_WEIGHT, up, normed);
    llama_multiply_back(pass, GATE_WEIGHT, gate, wide, RESULT_FLOATS);
    llama_multiply_back(pass, UP_WEIGHT, up, wide, RESULT_ADDED);
    llama_norm_back(pass, NORM_2_WEIGHT, kept + at->middle, kept + at->stats_2, wide);
}

static void attention_gradients(const struct llama_pass *pass)
{
    const struct llama_layout *at = &pass->at;
    const struct attention_rows attention_rows = attention_rows_for(pass->sizes);
    const struct attention_shape shape = attention_of(pass, &attention_rows);
    const struct rotary rotary = rotary_of(pass);
    float *memory = pass->memory, *kept = pass->kept, *wide = memory + at->wide;
    float *gradient = memory + at->qkv_gradient, *normed = memory + at->normed;
    const struct llama_columns stream = stream_gradient(pass);
    llama_weight_gradient(pass, O_WEIGHT, stream, kept + at->attention);
    llama_multiply_back(pass, O_WEIGHT, stream, wide, RESULT_OPERAND);
    attention_backward(&shape, kept + at->qkv, kept + at->attention, kept + at->attention_stats, wide, gradient,
                       memory + at->attention_scratch);
    rotary_turn(&rotary, true, pass->rows, gradient);
    llama_norm(pass, NORM_1_WEIGHT, kept + at->input, kept + at->stats_1);
    for (int part = 0; part < 3; part++) {
        const struct llama_columns columns = part_of(pass, gradient, part);
        llama_weight_gradient(pass, Q_WEIGHT + part, columns, normed);
        llama_multiply_back(pass, Q_WEIGHT + part, columns, wide, part == 0 ? RESULT_FLOATS : RESULT_ADDED);
    }
    llama_norm_back(pass, NORM_1_WEIGHT, kept + at->input, kept + at->stats_1, wide);
}

void llama_block_backward(const struct llama_pass *pass)
{
    mlp_backward(pass);
    attention_gradients(pass);
}

static struct token_rows tokens_of(const struct llama_pass *pass, const struct model_batch *batch)
{
    return (struct token_rows){batch->tokens, pass->run->sequence_count, pass->sizes->length};
}

int llama_embedding_forward(const struct llama_pass *pass, const struct model_batch *batch, const char *table)
{
    const struct token_rows rows = tokens_of(pass, batch);
    size_t width = pass->sizes->width;
    for (size_t i = 0; i < rows.sequence_count * (rows.length + 1); i++)
        if (batch->tokens[i] >= pass->sizes->vocabulary)
            return err_set(ERR_USAGE, "token %u is not in %s's vocabulary of %zu", (unsigned)batch->tokens[i],
                           pass->run->model->name, pass->sizes->vocabulary);
    for (size_t r = 0; r < pass->rows; r++)
        dtype_widen(pass->dtype, table + batch->tokens[token_index(&rows, r)] * width * dtype_bytes(pass->dtype),
                    pass->memory + pass->at.input + r * width, width);
    return ERR_NONE;
}

void llama_embedding_backward(const struct llama_pass *pass, const struct model_batch *batch)
{
    const struct token_rows rows = tokens_of(pass, batch);
    float *target = llama_gradient(pass, 0);
    if (!target)
        return;
    const struct sum_place places[] = {{DTYPE_FP32, false, target}, {0}};
    embedding_backward(&rows, pass->sizes->width, 0, pass->sizes->vocabulary, pass->memory + pass->at.gradient, NULL,
                       places);
    llama_hand_over(pass, 0, target);
}

// The logits and the statistics of their rows are kept for the head's backward, which is next.
void llama_head_forward(const struct llama_pass *pass, const struct model_batch *batch)
{
    const struct token_rows rows = tokens_of(pass, batch);
    float *memory = pass->memory, *input = memory + pass->at.output, *stats = memory + pass->at.output_stats;
    const struct llama_columns logits = {memory + pass->at.logits, pass->at.logits_stride};
    rmsnorm_stats(pass->rows, pass->sizes->width, input, stats);
    llama_norm(pass, HEAD_NORM_WEIGHT, input, stats);
    llama_multiply(pass, HEAD_WEIGHT, memory + pass->at.normed, logits, RESULT_FLOATS);
    pass->run->loss = crossentropy_forward(&rows, pass->sizes->vocabulary, logits.stride, logits.data,
                                           memory + pass->at.loss_stats, 0, pass->dtype) /
                      (double)pass->rows;
}

void llama_head_backward(const struct llama_pass *pass, const struct model_batch *batch, float loss_scale)
{
    const struct token_rows rows = tokens_of(pass, batch);
    float *memory = pass->memory, *input = memory + pass->at.output, *stats = memory + pass->at.output_stats;
    float *normed = memory + pass->at.normed;
    const struct llama_columns logits = {memory + pass->at.logits, pass->at.logits_stride};
    crossentropy_backward(&rows, pass->sizes->vocabulary, logits.stride, memory + pass->at.loss_stats,
                          loss_scale / (float)pass->rows, pass->dtype, logits.data);
    // The norm's output is still there.
    llama_weight_gradient(pass, HEAD_WEIGHT, logits, normed);
    // And its gradient takes its place.
    llama_multiply_back(pass, HEAD_WEIGHT, logits, normed, RESULT_FLOATS);
    memset(memory + pass->at.gradient, 0, pass->rows * pass->sizes->width * sizeof *memory);
    llama_norm_back(pass, HEAD_NORM_WEIGHT, input, stats, normed);
}
