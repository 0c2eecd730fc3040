// SPDX-License-Identifier: Apache-2.0
// GPT-2, forward and backward written out. A block is x2 = x + proj(attention(qkv(ln_1(x)))),
// x' = x2 + out(gelu(fc(ln_2(x2)))). Forward keeps x, qkv, the attention's output, x2 and fc of every block; backward
// recomputes the rest. With checkpointing the memory holds these of one block: forward writes x to the checkpoint, and
// backward recomputes all others from it. In 16 bits operands are rounded (gpt_math.h), and so are gradients when
// handed over; the residual stream and its gradient are fp32.
#include "ref/model/gpt_pass.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/matmul.h"

#include <assert.h>

static const struct gpt_shape *shape_of(const struct model *model)
{
    return model->shape;
}

// Parameters have the format of an accelerator's operands. On the host operands are floats, except for the embedding's
// tables, which are read by row.
static void pass_weights(struct gpt_pass *pass, const void *const params[])
{
    float *wide = pass->memory + pass->at.weights;
    bool as_they_are = pass->operand_bytes == dtype_bytes(pass->dtype) || pass->layer.kind == GPT_EMBEDDING;
    for (int i = 0; i < pass->list->param_count; i++) {
        const struct model_param *param = &pass->run->model->params[pass->list->params[i]];
        pass->weights[i] = params[pass->list->params[i]];
        if (as_they_are)
            continue;
        dtype_widen(pass->dtype, pass->weights[i], wide, param->count);
        pass->weights[i] = wide;
        wide += param->count;
    }
}

static struct gpt_pass pass_make(struct model_run *run, int layer, const void *const params[],
                                 const struct model_gradient gradients[])
{
    const struct model *model = run->model;
    const struct gpt_shape *shape = shape_of(model);
    assert(run->sequence_count > 0 && shape->tile_count > 0 && shape->width % shape->head_count == 0);
    const struct gpt_widths own = gpt_widths_of(model);
    struct gpt_pass pass = {.run = run,
                            .shape = shape,
                            .list = &model->layers[layer],
                            .gradients = gradients,
                            .layer = gpt_layer_of(model, layer),
                            .at = gpt_layout_of(model, run->sequence_count, run->dtype, run->checkpointing),
                            .memory = run->memory,
                            .rows = run->sequence_count * model->sequence_length,
                            .width = shape->width,
                            .stream_rows = gpt_stream_rows(model, run->sequence_count),
                            .sequence_parallel = shape->sequence_parallel > 0,
                            .heads_width = own.heads_width,
                            .tile_width = own.tile_width,
                            .vocabulary = own.vocabulary,
                            .blocks = own.blocks,
                            .part = own.part,
                            .parts = own.parts,
                            .dtype = run->dtype,
                            .operand_bytes = operand_bytes(run->dtype, run->memory)};
    pass.kept = pass.memory + pass.layer.block * pass.at.block;
    pass.fc = pass.kept + pass.at.fc + pass.layer.tile * pass.at.fc_tile;
    pass.normed = shape->tile_count == 1 ? pass.memory + pass.at.narrow : pass.kept + pass.at.normed;
    pass_weights(&pass, params);
    return pass;
}

static const struct model_gradient *wanted(const struct gpt_pass *pass, int index)
{
    return &pass->gradients[pass->list->params[index]];
}

bool pass_wants(const struct gpt_pass *pass, int index)
{
    return wanted(pass, index)->data != NULL;
}

struct sum_place pass_place(const struct gpt_pass *pass, int index)
{
    const struct model_gradient *gradient = wanted(pass, index);
    return (struct sum_place){pass->run->dtype, gradient->accumulate, gradient->data};
}

float *pass_gradient(const struct gpt_pass *pass, int index)
{
    const struct model_gradient *gradient = wanted(pass, index);
    if (pass->run->dtype == DTYPE_FP32 && !gradient->accumulate)
        return gradient->data;
    return pass->memory + pass->at.weight_gradient;
}

void pass_hand_over(const struct gpt_pass *pass, int index, const float *value)
{
    const struct model_gradient *gradient = wanted(pass, index);
    size_t count = pass->run->model->params[pass->list->params[index]].count;
    if (!gradient->data || gradient->data == value)
        return;
    if (gradient->accumulate)
        dtype_accumulate(pass->run->dtype, gradient->data, DTYPE_FP32, value, count);
    else
        dtype_narrow(pass->run->dtype, value, gradient->data, count);
}

void pass_scaled_product(const struct gpt_pass *pass, float alpha, size_t m, size_t k, struct matmul_operand a,
                         struct matmul_operand b, struct gpt_result c)
{
    matmul(&(struct matmul_product){.m = m,
                                    .n = c.width,
                                    .k = k,
                                    .alpha = alpha,
                                    .add = c.add,
                                    .dtype = pass->dtype,
                                    .a = a,
                                    .b = b,
                                    .c = c.data,
                                    .c_is_operand = c.is_operand,
                                    .c_stride = c.stride ? c.stride : c.width});
}

void pass_product(const struct gpt_pass *pass, size_t m, size_t k, struct matmul_operand a, struct matmul_operand b,
                  struct gpt_result c)
{
    pass_scaled_product(pass, 1.0f, m, k, a, b, c);
}

// Where operands have the gradient's own format, the product is written there.
void pass_weight_product(const struct gpt_pass *pass, int index, size_t height, struct matmul_operand in_transposed,
                         const void *out_gradient, size_t out_width)
{
    if (!pass_wants(pass, index))
        return;
    bool in_place = pass->operand_bytes < sizeof(float) && !wanted(pass, index)->accumulate;
    void *target = in_place ? wanted(pass, index)->data : pass_gradient(pass, index);
    pass_product(pass, height, pass->rows, in_transposed, (struct matmul_operand){out_gradient, out_width, false},
                 (struct gpt_result){.data = target, .width = out_width, .is_operand = in_place});
    pass_hand_over(pass, index, target);
}

// With sequence parallelism a norm's gradients are sums over blocks, made before the other parts.
static void stream_back(const struct gpt_pass *pass, const struct gpt_norm_back *back, struct stream_parts *parts)
{
    float *gradient = pass->memory + pass->at.gradient;
    if (back && !pass->sequence_parallel)
        parts->norm = (struct norm_back){
            back->in,           back->stats,    pass->weights[back->index],
            back->out_gradient, back->is_first, {pass_place(pass, back->index), pass_place(pass, back->index + 1)}};
    if (back && pass->sequence_parallel && back->is_first)
        (void)bytes_zero(gradient, pass->stream_rows * pass->width * sizeof *gradient);
    if (back && pass->sequence_parallel)
        pass_norm_back_blocks(pass, back->index, back->in, back->stats, back->out_gradient);
    stream_backward(pass->stream_rows, pass->width, pass->dtype, gradient, pass->memory + pass->at.vectors, parts);
}

const void *pass_stream_gradient(const struct gpt_pass *pass, const struct gpt_norm_back *back, int bias,
                                 const struct norm_rows *norm)
{
    float *gradient = pass->memory + pass->at.gradient;
    float *own = pass->dtype == DTYPE_FP32 ? gradient : pass->memory + pass->at.rounded;
    struct stream_parts parts = {.rounded = own};
    if (bias >= 0 && !pass->sequence_parallel)
        parts.place = pass_place(pass, bias);
    if (norm && !pass->sequence_parallel)
        parts.again = *norm;
    stream_back(pass, back, &parts);
    if (pass->sequence_parallel && norm)
        pass_norm(pass, norm);
    const void *stream = pass_all_rows(pass, own, pass->memory + pass->at.all_rows);
    if (pass->sequence_parallel && bias >= 0)
        pass_bias_gradient_blocks(pass, bias, own);
    return stream;
}

void pass_norm_forward(const struct gpt_pass *pass, int index, const float *in, float *stats, void *out,
                       const struct norm_biases *biases)
{
    void *own = pass->sequence_parallel ? pass->memory + pass->at.partials : out;
    layernorm_biases(pass->stream_rows, pass->width, in, stats, pass->dtype, pass->weights[index],
                     pass->weights[index + 1], own, biases);
    pass_all_rows(pass, own, out);
}

struct norm_rows pass_norm_of(const struct gpt_pass *pass, int index, const float *in, const float *stats, void *out)
{
    return (struct norm_rows){in, stats, pass->weights[index], pass->weights[index + 1], out};
}

void pass_norm(const struct gpt_pass *pass, const struct norm_rows *norm)
{
    void *own = pass->sequence_parallel ? pass->memory + pass->at.partials : norm->out;
    layernorm_apply(pass->stream_rows, pass->width, norm->in, norm->stats, pass->dtype, norm->weight, norm->bias, own);
    pass_all_rows(pass, own, norm->out);
}

void pass_norm_back(const struct gpt_pass *pass, const struct gpt_norm_back *back, int bias, const void *out_gradient,
                    size_t width)
{
    struct stream_parts parts = {0};
    const bool wants = bias >= 0 && pass_wants(pass, bias);
    const struct sum_place place = wants ? pass_place(pass, bias) : parts.other_place;
    if (wants && pass->sequence_parallel) {
        rows_sum(pass->rows, width, pass->dtype, out_gradient, pass->memory + pass->at.vectors, &place);
    } else if (wants) {
        parts.other = out_gradient;
        parts.other_width = width;
        parts.other_place = place;
    }
    stream_back(pass, back, &parts);
}

// The memory that a layer's checkpoint copies: the stream, or for tiles the MLP's input.
static float *checkpoint_source(const struct gpt_pass *pass)
{
    if (pass->layer.kind == GPT_HEAD)
        return pass->memory + pass->at.output;
    return pass->layer.attention ? pass->kept + pass->at.input : pass->normed;
}

int gpt_forward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                void *checkpoint)
{
    struct gpt_pass pass = pass_make(run, layer, params, NULL);
    if (checkpoint)
        TRY(bytes_copy(checkpoint, checkpoint_source(&pass), pass.stream_rows * pass.width * sizeof(float)));
    switch (pass.layer.kind) {
    case GPT_EMBEDDING:
        TRY(gpt_embedding_forward(&pass, batch));
        break;
    case GPT_BLOCK:
        TRY(gpt_block_forward(&pass));
        break;
    case GPT_HEAD:
        gpt_head_forward(&pass, batch, run->checkpointing ? 0 : run->expected_scale);
        break;
    }
    return run->code;
}

static int layer_backward(const struct gpt_pass *pass, const struct model_batch *batch)
{
    bool recomputes = pass->run->checkpointing;
    switch (pass->layer.kind) {
    case GPT_EMBEDDING:
        return gpt_embedding_backward(pass, batch);
    case GPT_BLOCK:
        if (recomputes)
            TRY(gpt_block_activations(pass));
        return gpt_block_backward(pass);
    case GPT_HEAD:
        if (recomputes)
            gpt_head_forward(pass, batch, pass->loss_scale);
        return gpt_head_backward(pass, batch, pass->loss_scale);
    }
    return ERR_NONE;
}

int gpt_backward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                 const struct model_gradient gradients[], float loss_scale, const void *checkpoint)
{
    struct gpt_pass pass = pass_make(run, layer, params, gradients);
    pass.loss_scale = loss_scale;
    if (checkpoint)
        TRY(bytes_copy(checkpoint_source(&pass), checkpoint, pass.stream_rows * pass.width * sizeof(float)));
    int code = layer_backward(&pass, batch);
    sums_finish(run->memory);
    return code != ERR_NONE ? code : run->code;
}

size_t gpt_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    return gpt_layout_of(model, sequence_count, dtype, checkpointing).total * sizeof(float);
}

// A block's tiles share one input and one checkpoint, which belongs to the last tile: it runs backward first.
size_t gpt_checkpoint_bytes(const struct model *model, int layer, size_t sequence_count)
{
    const struct gpt_shape *shape = shape_of(model);
    struct gpt_layer u = gpt_layer_of(model, layer);
    bool has = u.kind == GPT_HEAD || (u.kind == GPT_BLOCK && (u.attention || u.tile + 1 == shape->tile_count));
    return has ? gpt_stream_rows(model, sequence_count) * shape->width * sizeof(float) : 0;
}
