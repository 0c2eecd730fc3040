// SPDX-License-Identifier: Apache-2.0
// Llama, forward and backward written out: the layout of a run's memory and the steps that layers share. Values between
// layers are fp32; in 16 bits the operands of matrix products are rounded (gpt_math.h), and so are gradients when
// handed over.
#include "ref/model/llama/llama_pass.h"

#include "base/err.h"
#include "ref/arithmetic/matmul.h"

#include <assert.h>
#include <string.h>

// Reserves the next count floats, beginning at a cache line; returns their offset.
static size_t take(struct llama_layout *layout, size_t count)
{
    size_t at = layout->total;
    layout->total += (count + 15) / 16 * 16;
    return at;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void layout_block(struct llama_layout *l, const struct llama_sizes *sizes,
                         const struct attention_shape *attention)
{
    size_t rows = attention->sequence_count * sizes->length;
    l->input = take(l, rows * sizes->width);
    l->stats_1 = take(l, rows);
    l->qkv = take(l, rows * (sizes->width + 2 * llama_kv_width(sizes)));
    l->attention = take(l, rows * sizes->width);
    l->attention_stats = take(l, attention_stats_count(attention));
    l->middle = take(l, rows * sizes->width);
    l->stats_2 = take(l, rows);
    l->gate = take(l, rows * sizes->hidden);
    l->up = take(l, rows * sizes->hidden);
}

// The embedding's table is read as it is.
static void layout_weights(struct llama_layout *l, const struct model *model)
{
    size_t largest_param = 0, largest_layer = 0;
    for (int i = 0; i < model->param_count; i++)
        largest_param = larger(largest_param, model->params[i].count);
    for (int i = 1; i < model->layer_count; i++)
        largest_layer = larger(largest_layer, model_layer_elements(model, i));
    l->weights = take(l, largest_layer);
    l->weight_gradient = take(l, largest_param);
}

static struct llama_layout layout_of(const struct model *model, size_t sequence_count, enum dtype dtype,
                                     bool checkpointing)
{
    const struct llama_sizes *sizes = model->shape;
    const struct attention_shape attention = {sequence_count, sizes->length, sizes->width, sizes->heads, dtype, NULL};
    size_t rows = sequence_count * sizes->length, width = sizes->width;
    struct llama_layout l = {0};
    layout_block(&l, sizes, &attention);
    if (!checkpointing) {
        l.block = l.total;
        l.total *= sizes->layers;
        l.output = take(&l, rows * width);
    } else {
        l.output = l.input;
    }
    l.output_stats = take(&l, rows);
    l.loss_stats = take(&l, 2 * rows);
    l.gradient = take(&l, rows * width);
    l.rounded = dtype == DTYPE_FP32 ? l.gradient : take(&l, rows * width);
    l.normed = take(&l, rows * width);
    l.logits = l.total;
    l.wide = take(&l, rows * larger(sizes->hidden, width));
    l.qkv_gradient = take(&l, rows * (width + 2 * llama_kv_width(sizes)));
    l.attention_scratch = take(&l, attention_scratch_count(&attention));
    l.logits_stride = (sizes->vocabulary + 15) / 16 * 16;
    l.total = larger(l.total, l.logits + rows * l.logits_stride);
    if (dtype != DTYPE_FP32)
        layout_weights(&l, model);
    return l;
}

static struct llama_pass pass_make(struct model_run *run, int layer, const void *const params[],
                                   const struct model_gradient gradients[])
{
    const struct model *model = run->model;
    struct llama_pass pass = {.run = run,
                              .llama = model->shape,
                              .sizes = llama_sizes_of(model),
                              .list = &model->layers[layer],
                              .gradients = gradients,
                              .at = layout_of(model, run->sequence_count, run->dtype, run->checkpointing),
                              .memory = run->memory,
                              .rows = run->sequence_count * model->sequence_length,
                              .dtype = run->dtype};
    pass.kept = pass.memory + (layer > 0 ? (size_t)layer - 1 : 0) * pass.at.block;
    float *wide = pass.memory + pass.at.weights;
    for (int i = 0; i < pass.list->param_count && layer > 0; i++) {
        int param = pass.list->params[i];
        pass.weights[i] = params[param];
        if (run->dtype == DTYPE_FP32)
            continue;
        shared_widen(run->dtype, params[param], wide, model->params[param].count);
        pass.weights[i] = wide;
        wide += model->params[param].count;
    }
    return pass;
}

static const struct model_param *llama_param(const struct llama_pass *pass, int index)
{
    return &pass->run->model->params[pass->list->params[index]];
}

float *llama_gradient(const struct llama_pass *pass, int index)
{
    const struct model_gradient *gradient = &pass->gradients[pass->list->params[index]];
    assert(!gradient->accumulate);  // every parameter belongs to one layer
    if (!gradient->data || pass->dtype == DTYPE_FP32)
        return gradient->data;
    return pass->memory + pass->at.weight_gradient;
}

void llama_hand_over(const struct llama_pass *pass, int index, const float *value)
{
    void *data = pass->gradients[pass->list->params[index]].data;
    if (value && value != data)
        shared_narrow(pass->dtype, value, data, llama_param(pass, index)->count);
}

static void multiply(const struct llama_pass *pass, size_t m, size_t k, struct matmul_operand a,
                     struct matmul_operand b, struct llama_columns c, size_t n, enum llama_result result)
{
    matmul(&(struct matmul_product){.m = m,
                                    .n = n,
                                    .k = k,
                                    .alpha = 1,
                                    .add = result == RESULT_ADDED,
                                    .dtype = pass->dtype,
                                    .a = a,
                                    .b = b,
                                    .c = c.data,
                                    .c_is_operand = result == RESULT_OPERAND,
                                    .c_stride = c.stride});
}

void llama_multiply(const struct llama_pass *pass, int index, const float *in, struct llama_columns out,
                    enum llama_result result)
{
    size_t height = llama_param(pass, index)->shape[0], width = llama_param(pass, index)->shape[1];
    multiply(pass, pass->rows, width, (struct matmul_operand){in, width, false},
             (struct matmul_operand){pass->weights[index], width, true}, out, height, result);
}

void llama_multiply_back(const struct llama_pass *pass, int index, struct llama_columns out_gradient,
                         float *in_gradient, enum llama_result result)
{
    size_t height = llama_param(pass, index)->shape[0], width = llama_param(pass, index)->shape[1];
    multiply(pass, pass->rows, height, (struct matmul_operand){out_gradient.data, out_gradient.stride, false},
             (struct matmul_operand){pass->weights[index], width, false}, (struct llama_columns){in_gradient, width},
             width, result);
}

void llama_weight_gradient(const struct llama_pass *pass, int index, struct llama_columns out_gradient, const float *in)
{
    size_t height = llama_param(pass, index)->shape[0], width = llama_param(pass, index)->shape[1];
    float *target = llama_gradient(pass, index);
    if (target)
        multiply(pass, height, pass->rows, (struct matmul_operand){out_gradient.data, out_gradient.stride, true},
                 (struct matmul_operand){in, width, false}, (struct llama_columns){target, width}, width,
                 RESULT_FLOATS);
    llama_hand_over(pass, index, target);
}

void llama_norm(const struct llama_pass *pass, int index, const float *in, const float *stats)
{
    rmsnorm_apply(pass->rows, pass->sizes->width, in, stats, pass->dtype, pass->weights[index],
                  pass->memory + pass->at.normed);
}

void llama_norm_back(const struct llama_pass *pass, int index, const float *in, const float *stats,
                     const float *out_gradient)
{
    float *target = llama_gradient(pass, index);
    rmsnorm_backward(pass->rows, pass->sizes->width, in, stats, pass->weights[index], out_gradient,
                     pass->memory + pass->at.gradient, target);
    llama_hand_over(pass, index, target);
}

// A layer's checkpoint copies this.
static float *layer_input(const struct llama_pass *pass, int layer)
{
    bool is_head = layer + 1 == pass->run->model->layer_count;
    return is_head ? pass->memory + pass->at.output : pass->kept + pass->at.input;
}

int llama_forward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                  void *checkpoint)
{
    const struct llama_pass pass = pass_make(run, layer, params, NULL);
    if (checkpoint)
        memcpy(checkpoint, layer_input(&pass, layer), llama_checkpoint_bytes(run->model, layer, run->sequence_count));
    if (layer == 0)
        return llama_embedding_forward(&pass, batch, params[pass.list->params[0]]);
    if (layer + 1 == run->model->layer_count)
        llama_head_forward(&pass, batch);
    else
        llama_block_forward(&pass);
    return ERR_NONE;
}

int llama_backward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                   const struct model_gradient gradients[], float loss_scale, const void *checkpoint)
{
    const struct llama_pass pass = pass_make(run, layer, params, gradients);
    if (checkpoint)
        memcpy(layer_input(&pass, layer), checkpoint, llama_checkpoint_bytes(run->model, layer, run->sequence_count));
    if (layer == 0) {
        llama_embedding_backward(&pass, batch);
    } else if (layer + 1 == run->model->layer_count) {
        if (run->checkpointing)
            llama_head_forward(&pass, batch);
        llama_head_backward(&pass, batch, loss_scale);
    } else {
        if (run->checkpointing)
            llama_block_activations(&pass);
        llama_block_backward(&pass);
    }
    return ERR_NONE;
}

size_t llama_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    return layout_of(model, sequence_count, dtype, checkpointing).total * sizeof(float);
}

size_t llama_checkpoint_bytes(const struct model *model, int layer, size_t sequence_count)
{
    const struct llama_sizes *sizes = model->shape;
    return layer == 0 ? 0 : sequence_count * sizes->length * sizes->width * sizeof(float);
}
