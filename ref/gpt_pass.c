// SPDX-License-Identifier: Apache-2.0
// GPT-2, forward and backward written out. A block is x2 = x + proj(attention(qkv(ln_1(x)))),
// x' = x2 + out(gelu(fc(ln_2(x2)))). Forward keeps x, qkv, the attention's output, x2 and fc of every block; backward
// makes the rest again. With checkpointing there is room for these of one block: x goes to the checkpoint, and backward
// makes all the others again from there. 16-bit parameters are widened before use, gradients are rounded when they are
// handed over; everything between is fp32.
#include "gpt_pass.h"

#include "err.h"
#include "gpt.h"
#include "gpt_math.h"

#include <string.h>

static const struct gpt_shape *shape_of(const struct model *model)
{
    return model->shape;
}

// Where things lie in a run's memory, in floats. Per block, `block` apart: input to fc. With checkpointing, block is 0,
// and a block's output takes the place of its input, which is not needed by then.
struct layout {
    size_t input, stats_1, qkv, attention, middle, stats_2, fc, block;
    size_t output, output_stats;  // of the last block
    size_t gradient;              // with respect to the block's output, then to its input
    size_t wide_1, wide_2, narrow;
    size_t scores, scores_gradient;
    size_t vectors;  // gradients of biases and layer norms
    size_t logits;
    size_t weights;          // a unit's parameters, widened (16-bit only)
    size_t weight_gradient;  // a gradient that is not written in place; in fp32 it shares the place of the logits
    size_t total;
};

// The next count floats, on a cache line of their own.
static size_t take(struct layout *layout, size_t count)
{
    size_t at = layout->total;
    layout->total += (count + 15) / 16 * 16;
    return at;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t unit_elements(const struct model *model, int unit)
{
    size_t count = 0;
    for (int i = 0; i < model->units[unit].param_count; i++)
        count += model->params[model->units[unit].params[i]].count;
    return count;
}

static struct layout layout_make(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    const struct gpt_shape *shape = shape_of(model);
    size_t rows = sequence_count * shape->sequence_length, width = shape->width;
    size_t scores = shape->sequence_length * shape->sequence_length;
    size_t largest_param = 0, largest_unit = 0;
    for (int i = 0; i < model->param_count; i++)
        largest_param = larger(largest_param, model->params[i].count);
    for (int i = 0; i < model->unit_count; i++)
        largest_unit = larger(largest_unit, unit_elements(model, i));

    struct layout l = {0};
    l.input = take(&l, rows * width);
    l.stats_1 = take(&l, rows * 2);
    l.qkv = take(&l, rows * 3 * width);
    l.attention = take(&l, rows * width);
    l.middle = take(&l, rows * width);
    l.stats_2 = take(&l, rows * 2);
    l.fc = take(&l, rows * 4 * width);
    if (!checkpointing) {
        l.block = l.total;
        l.total *= shape->layer_count;
        l.output = take(&l, rows * width);
    } else {
        l.output = l.input;
    }
    l.output_stats = take(&l, rows * 2);
    l.gradient = take(&l, rows * width);
    l.wide_1 = take(&l, rows * 4 * width);
    l.wide_2 = take(&l, rows * 4 * width);
    l.narrow = take(&l, rows * width);
    l.scores = take(&l, scores);
    l.scores_gradient = take(&l, scores);
    l.vectors = take(&l, 4 * width);
    if (dtype == DTYPE_FP32) {
        l.logits = l.weight_gradient = take(&l, larger(rows * shape->vocabulary, largest_param));
    } else {
        l.logits = take(&l, rows * shape->vocabulary);
        l.weight_gradient = take(&l, largest_param);
        l.weights = take(&l, largest_unit);
    }
    return l;
}

// One call of forward or backward.
struct pass {
    struct model_run *run;
    const struct gpt_shape *shape;
    const struct model_unit *unit;
    const struct model_gradient *gradients;  // backward only
    const float *weights[BLOCK_PARAMS];      // the unit's parameters in fp32
    struct layout at;
    float *memory;
    size_t rows, width;
};

static struct pass pass_make(struct model_run *run, int unit, const void *const params[],
                             const struct model_gradient gradients[])
{
    const struct model *model = run->model;
    struct pass pass = {.run = run,
                        .shape = shape_of(model),
                        .unit = &model->units[unit],
                        .gradients = gradients,
                        .at = layout_make(model, run->sequence_count, run->dtype, run->checkpointing),
                        .memory = run->memory,
                        .rows = run->sequence_count * model->sequence_length,
                        .width = shape_of(model)->width};
    float *wide = pass.memory + pass.at.weights;
    for (int i = 0; i < pass.unit->param_count; i++) {
        int param = pass.unit->params[i];
        pass.weights[i] = params[param];
        if (run->dtype != DTYPE_FP32) {
            dtype_widen(run->dtype, params[param], wide, model->params[param].count);
            pass.weights[i] = wide;
            wide += model->params[param].count;
        }
    }
    return pass;
}

static const struct model_gradient *wanted(const struct pass *pass, int index)
{
    return &pass->gradients[pass->unit->params[index]];
}

// Hands over a finished fp32 gradient of the unit's index-th parameter, unless it already is where it belongs.
static void hand_over(const struct pass *pass, int index, const float *value)
{
    const struct model_gradient *gradient = wanted(pass, index);
    size_t count = pass->run->model->params[pass->unit->params[index]].count;
    if (!gradient->data || gradient->data == value)
        return;
    if (gradient->accumulate)
        dtype_accumulate(pass->run->dtype, gradient->data, DTYPE_FP32, value, count);
    else
        dtype_narrow(pass->run->dtype, value, gradient->data, count);
}

// Where the gradient of a matrix is computed: in its own place if it is fp32, in scratch otherwise.
static float *gradient_place(const struct pass *pass, int index)
{
    const struct model_gradient *gradient = wanted(pass, index);
    if (pass->run->dtype == DTYPE_FP32 && !gradient->accumulate)
        return gradient->data;
    return pass->memory + pass->at.weight_gradient;
}

static void bias_gradient(const struct pass *pass, int index, const float *out_gradient, size_t width)
{
    float *sum = pass->memory + pass->at.vectors;
    if (!wanted(pass, index)->data)
        return;
    rows_sum(pass->rows, width, out_gradient, sum);
    hand_over(pass, index, sum);
}

// out = in W + b, or out = base + b + in W.
static void linear_forward(const struct pass *pass, int index, const float *base, const float *in, size_t in_width,
                           float *out, size_t out_width)
{
    bias_add(pass->rows, out_width, base, pass->weights[index + 1], out);
    matmul(pass->rows, out_width, in_width, 1.0f, (struct matmul_operand){in, in_width, false},
           (struct matmul_operand){pass->weights[index], out_width, false}, 1.0f, out, out_width);
}

// dW = in^T dout, db = the sum of dout's rows.
static void linear_gradients(const struct pass *pass, int index, const float *in, size_t in_width,
                             const float *out_gradient, size_t out_width)
{
    if (wanted(pass, index)->data) {
        float *place = gradient_place(pass, index);
        matmul(in_width, out_width, pass->rows, 1.0f, (struct matmul_operand){in, in_width, true},
               (struct matmul_operand){out_gradient, out_width, false}, 0.0f, place, out_width);
        hand_over(pass, index, place);
    }
    bias_gradient(pass, index + 1, out_gradient, out_width);
}

// din = dout W^T.
static void linear_backward(const struct pass *pass, int index, const float *out_gradient, size_t out_width,
                            float *in_gradient, size_t in_width)
{
    matmul(pass->rows, in_width, out_width, 1.0f, (struct matmul_operand){out_gradient, out_width, false},
           (struct matmul_operand){pass->weights[index], out_width, true}, 0.0f, in_gradient, in_width);
}

// The stream's gradient += what comes through the layer norm; hands over the norm's own gradients.
static void norm_backward(const struct pass *pass, int index, const float *in, const float *stats,
                          const float *out_gradient)
{
    float *vectors = pass->memory + pass->at.vectors;
    layernorm_backward(pass->rows, pass->width, in, stats, pass->weights[index], out_gradient,
                       pass->memory + pass->at.gradient, vectors, vectors + pass->width);
    hand_over(pass, index, vectors);
    hand_over(pass, index + 1, vectors + pass->width);
}

static void norm_apply(const struct pass *pass, int index, const float *in, const float *stats, float *out)
{
    layernorm_apply(pass->rows, pass->width, in, stats, pass->weights[index], pass->weights[index + 1], out);
}

static int tokens_check(const struct pass *pass, const struct model_batch *batch)
{
    size_t count = pass->run->sequence_count * (pass->shape->sequence_length + 1);
    for (size_t i = 0; i < count; i++) {
        if (batch->tokens[i] >= pass->shape->vocabulary)
            return err_set(ERR_USAGE, "token %u is not in %s's vocabulary of %zu", (unsigned)batch->tokens[i],
                           pass->run->model->name, pass->shape->vocabulary);
    }
    return ERR_NONE;
}

// A row's token; the next one is its target.
static const uint16_t *token_of(const struct pass *pass, const struct model_batch *batch, size_t row)
{
    size_t length = pass->shape->sequence_length;
    return batch->tokens + row / length * (length + 1) + row % length;
}

static void embedding_forward(const struct pass *pass, const struct model_batch *batch)
{
    size_t width = pass->width;
    float *out = pass->memory + pass->at.input;
    for (size_t row = 0; row < pass->rows; row++) {
        const float *token = pass->weights[0] + *token_of(pass, batch, row) * width;
        const float *position = pass->weights[1] + row % pass->shape->sequence_length * width;
        for (size_t j = 0; j < width; j++)
            out[row * width + j] = token[j] + position[j];
    }
}

// Rows are added in token order to a gradient that begins as zero; a tied head's part, if there is one, is added to
// the finished sum, element by element.
static void embedding_backward(const struct pass *pass, const struct model_batch *batch)
{
    size_t width = pass->width;
    const float *in = pass->memory + pass->at.gradient;
    for (int index = 0; index < 2; index++) {
        if (!wanted(pass, index)->data)
            continue;
        float *place = gradient_place(pass, index);
        memset(place, 0, pass->run->model->params[pass->unit->params[index]].count * sizeof *place);
        for (size_t row = 0; row < pass->rows; row++) {
            size_t to = index == 0 ? *token_of(pass, batch, row) : row % pass->shape->sequence_length;
            for (size_t j = 0; j < width; j++)
                place[to * width + j] += in[row * width + j];
        }
        hand_over(pass, index, place);
    }
}

static struct attention_shape attention_of(const struct pass *pass)
{
    return (struct attention_shape){pass->run->sequence_count, pass->shape->sequence_length, pass->width,
                                    pass->shape->head_count};
}

// The input of the block after `block`, or of the head.
static float *block_output(const struct pass *pass, size_t block)
{
    bool last = block + 1 == pass->shape->layer_count;
    return pass->memory + (last ? pass->at.output : (block + 1) * pass->at.block + pass->at.input);
}

// All that backward needs of a block, from its input.
static void block_activations(const struct pass *pass, size_t block)
{
    size_t rows = pass->rows, width = pass->width;
    const struct layout *at = &pass->at;
    float *memory = pass->memory, *kept = memory + block * at->block;
    float *input = kept + at->input, *qkv = kept + at->qkv, *attention = kept + at->attention;
    float *middle = kept + at->middle, *fc = kept + at->fc;
    float *normed = memory + at->narrow;
    struct attention_shape shape = attention_of(pass);

    layernorm_stats(rows, width, input, kept + at->stats_1);
    norm_apply(pass, LN_1_WEIGHT, input, kept + at->stats_1, normed);
    linear_forward(pass, QKV_WEIGHT, NULL, normed, width, qkv, 3 * width);
    attention_forward(&shape, qkv, attention, memory + at->scores);
    linear_forward(pass, PROJ_WEIGHT, input, attention, width, middle, width);

    layernorm_stats(rows, width, middle, kept + at->stats_2);
    norm_apply(pass, LN_2_WEIGHT, middle, kept + at->stats_2, normed);
    linear_forward(pass, FC_WEIGHT, NULL, normed, width, fc, 4 * width);
}

static void block_forward(const struct pass *pass, size_t block)
{
    float *memory = pass->memory, *kept = memory + block * pass->at.block, *hidden = memory + pass->at.wide_1;
    block_activations(pass, block);
    gelu_forward(pass->rows * 4 * pass->width, kept + pass->at.fc, hidden);
    linear_forward(pass, OUT_WEIGHT, kept + pass->at.middle, hidden, 4 * pass->width, block_output(pass, block),
                   pass->width);
}

static void block_backward(const struct pass *pass, size_t block)
{
    size_t rows = pass->rows, width = pass->width;
    const struct layout *at = &pass->at;
    float *memory = pass->memory, *kept = memory + block * at->block;
    float *input = kept + at->input, *qkv = kept + at->qkv, *attention = kept + at->attention;
    float *middle = kept + at->middle, *fc = kept + at->fc;
    float *stream = memory + at->gradient, *normed = memory + at->narrow;
    float *wide_1 = memory + at->wide_1, *wide_2 = memory + at->wide_2;
    struct attention_shape shape = attention_of(pass);

    linear_backward(pass, OUT_WEIGHT, stream, width, wide_2, 4 * width);
    gelu_backward(rows * 4 * width, fc, wide_1, wide_2);
    linear_gradients(pass, OUT_WEIGHT, wide_1, 4 * width, stream, width);
    norm_apply(pass, LN_2_WEIGHT, middle, kept + at->stats_2, normed);
    linear_gradients(pass, FC_WEIGHT, normed, width, wide_2, 4 * width);
    linear_backward(pass, FC_WEIGHT, wide_2, 4 * width, wide_1, width);
    norm_backward(pass, LN_2_WEIGHT, middle, kept + at->stats_2, wide_1);

    linear_gradients(pass, PROJ_WEIGHT, attention, width, stream, width);
    linear_backward(pass, PROJ_WEIGHT, stream, width, wide_1, width);
    attention_backward(&shape, qkv, wide_1, wide_2, memory + at->scores, memory + at->scores_gradient);
    norm_apply(pass, LN_1_WEIGHT, input, kept + at->stats_1, normed);
    linear_gradients(pass, QKV_WEIGHT, normed, width, wide_2, 3 * width);
    linear_backward(pass, QKV_WEIGHT, wide_2, 3 * width, wide_1, width);
    norm_backward(pass, LN_1_WEIGHT, input, kept + at->stats_1, wide_1);
}

static void head_forward(const struct pass *pass, const struct model_batch *batch)
{
    size_t rows = pass->rows, width = pass->width, vocabulary = pass->shape->vocabulary;
    size_t length = pass->shape->sequence_length;
    float *memory = pass->memory, *logits = memory + pass->at.logits, *normed = memory + pass->at.narrow;
    float *input = memory + pass->at.output, *stats = memory + pass->at.output_stats;
    layernorm_stats(rows, width, input, stats);
    norm_apply(pass, 0, input, stats, normed);
    matmul(rows, vocabulary, width, 1.0f, (struct matmul_operand){normed, width, false},
           (struct matmul_operand){pass->weights[HEAD_TOKEN_WEIGHT], width, true}, 0.0f, logits, vocabulary);
    double loss = 0.0;
    for (size_t row = 0; row < rows; row += length)
        loss += crossentropy_forward(length, vocabulary, logits + row * vocabulary, token_of(pass, batch, row) + 1);
    pass->run->loss = loss / (double)rows;
}

static void head_backward(const struct pass *pass, const struct model_batch *batch, float loss_scale)
{
    size_t rows = pass->rows, width = pass->width, vocabulary = pass->shape->vocabulary;
    size_t length = pass->shape->sequence_length;
    float *memory = pass->memory, *logits = memory + pass->at.logits, *normed = memory + pass->at.narrow;
    float *input = memory + pass->at.output, *stats = memory + pass->at.output_stats;
    for (size_t row = 0; row < rows; row += length)
        crossentropy_backward(length, vocabulary, logits + row * vocabulary, token_of(pass, batch, row) + 1,
                              loss_scale / (float)rows);
    if (wanted(pass, HEAD_TOKEN_WEIGHT)->data) {
        float *place = gradient_place(pass, HEAD_TOKEN_WEIGHT);
        norm_apply(pass, 0, input, stats, normed);
        matmul(vocabulary, width, rows, 1.0f, (struct matmul_operand){logits, vocabulary, true},
               (struct matmul_operand){normed, width, false}, 0.0f, place, width);
        hand_over(pass, HEAD_TOKEN_WEIGHT, place);
    }
    matmul(rows, width, vocabulary, 1.0f, (struct matmul_operand){logits, vocabulary, false},
           (struct matmul_operand){pass->weights[HEAD_TOKEN_WEIGHT], width, false}, 0.0f, normed, width);
    memset(memory + pass->at.gradient, 0, rows * width * sizeof *memory);
    norm_backward(pass, 0, input, stats, normed);
}

// Where a unit finds its input.
static float *unit_input(const struct pass *pass, int unit)
{
    return unit == 1 ? pass->memory + pass->at.input : block_output(pass, (size_t)unit - 2);
}

int gpt_forward(struct model_run *run, int unit, const struct model_batch *batch, const void *const params[],
                void *checkpoint)
{
    struct pass pass = pass_make(run, unit, params, NULL);
    if (checkpoint)
        memcpy(checkpoint, unit_input(&pass, unit), pass.rows * pass.width * sizeof(float));
    if (unit == 0) {
        TRY(tokens_check(&pass, batch));
        embedding_forward(&pass, batch);
    } else if (unit == run->model->unit_count - 1) {
        head_forward(&pass, batch);
    } else {
        block_forward(&pass, (size_t)unit - 1);
    }
    return ERR_NONE;
}

int gpt_backward(struct model_run *run, int unit, const struct model_batch *batch, const void *const params[],
                 const struct model_gradient gradients[], float loss_scale, const void *checkpoint)
{
    struct pass pass = pass_make(run, unit, params, gradients);
    bool head = unit == run->model->unit_count - 1;
    if (checkpoint) {
        memcpy(unit_input(&pass, unit), checkpoint, pass.rows * pass.width * sizeof(float));
        if (head)
            head_forward(&pass, batch);
        else
            block_activations(&pass, (size_t)unit - 1);
    }
    if (unit == 0)
        embedding_backward(&pass, batch);
    else if (head)
        head_backward(&pass, batch, loss_scale);
    else
        block_backward(&pass, (size_t)unit - 1);
    return ERR_NONE;
}

size_t gpt_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    return layout_make(model, sequence_count, dtype, checkpointing).total * sizeof(float);
}

size_t gpt_checkpoint_bytes(const struct model *model, int unit, size_t sequence_count)
{
    return unit == 0 ? 0 : sequence_count * model->sequence_length * shape_of(model)->width * sizeof(float);
}
