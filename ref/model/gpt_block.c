// SPDX-License-Identifier: Apache-2.0
// A GPT's blocks. The MLP is a sum over tiles of its hidden channels, out(gelu(fc(x))) = o + the sum of
// gelu(x F_t + f_t) O_t; without tiles the only tile is the whole MLP.
//
// Attention produces x2 in the middle of the residual stream and the MLP's input ln_2(x2). The first tile starts the
// output as x2 + o, and each tile, in order, adds its part. Backward, x2 receives the gradient of the block's output;
// the tiles, in reverse, sum the gradient of the MLP's input, and attention's backward takes it through the layer norm.
#include "ref/model/gpt_pass.h"

#include "base/err.h"
#include "ref/arithmetic/gpt_math.h"

static struct attention_shape attention_of(const struct gpt_pass *pass)
{
    return (struct attention_shape){pass->run->sequence_count,
                                    pass->shape->sequence_length,
                                    pass->heads_width,
                                    pass->heads_width / (pass->width / pass->shape->head_count),
                                    pass->dtype,
                                    0};
}

// The index of an MLP parameter in the layer's list.
static int mlp_index(const struct gpt_pass *pass, int role)
{
    return pass->layer.attention ? role : role - ATTENTION_PARAMS;
}

// The input of the block after this one, or of the head.
static float *block_output(const struct gpt_pass *pass)
{
    bool last = pass->layer.block + 1 == gpt_block_count(pass->run->model);
    return pass->memory + (last ? pass->at.output : (pass->layer.block + 1) * pass->at.block + pass->at.input);
}

static void attention_activations(const struct gpt_pass *pass)
{
    size_t width = pass->width, heads_width = pass->heads_width;
    const struct gpt_layout *at = &pass->at;
    float *memory = pass->memory, *kept = pass->kept, *input = kept + at->input, *qkv = kept + at->qkv;
    float *attention = kept + at->attention, *middle = kept + at->middle, *normed = memory + at->narrow;
    struct attention_shape shape = attention_of(pass);

    const struct norm_biases before = {pass->rows, 3 * heads_width, pass->weights[QKV_BIAS], pass->weights[PROJ_BIAS],
                                       qkv,        middle};
    pass_norm_forward(pass, LN_1_WEIGHT, input, kept + at->stats_1, normed, &before);
    pass_multiply(pass, QKV_WEIGHT, normed, width,
                  (struct gpt_result){.data = qkv, .width = 3 * heads_width, .add = true, .is_operand = true});
    pass_adapt(pass, MODULE_QKV, normed, width,
               (struct gpt_result){.data = qkv, .width = 3 * heads_width, .is_operand = true});
    attention_forward(&shape, qkv, attention, kept + at->attention_stats, memory + at->attention_scratch);
    pass_multiply(pass, PROJ_WEIGHT, attention, heads_width,
                  (struct gpt_result){.data = middle, .width = width, .add = true});
    pass_adapt(pass, MODULE_PROJ, attention, heads_width, (struct gpt_result){.data = middle, .width = width});
    // The MLP's product is added to the stream that forward leaves.
    const bool begins_output = pass->layer.mlp && !pass->gradients && pass->shape->experts.count == 0;
    const struct norm_biases behind = {.bias_of_in = pass->weights[OUT_BIAS],
                                       .sum = begins_output ? block_output(pass) : NULL};
    pass_norm_forward(pass, LN_2_WEIGHT, middle, kept + at->stats_2, pass->normed, &behind);
}

static void attention_gradients(const struct gpt_pass *pass)
{
    size_t width = pass->width, heads_width = pass->heads_width;
    const struct gpt_layout *at = &pass->at;
    float *memory = pass->memory, *kept = pass->kept, *input = kept + at->input;
    float *normed = memory + at->narrow, *wide_1 = memory + at->wide_1, *wide_2 = memory + at->wide_2;
    struct attention_shape shape = attention_of(pass);

    const struct gpt_norm_back norm_2 = {LN_2_WEIGHT, kept + at->middle, kept + at->stats_2,
                                         memory + at->normed_gradient, false};
    const struct norm_rows norm = pass_norm_of(pass, LN_1_WEIGHT, input, kept + at->stats_1, normed);
    const void *stream = pass_stream_gradient(pass, &norm_2, PROJ_BIAS, &norm);
    pass_weight_gradient(pass, PROJ_WEIGHT, kept + at->attention, heads_width, stream, width);
    pass_multiply_back(pass, PROJ_WEIGHT, stream, width,
                       (struct gpt_result){.data = wide_1, .width = heads_width, .is_operand = true});
    pass_adapt_back(pass, MODULE_PROJ, stream, width,
                    (struct gpt_result){.data = wide_1, .width = heads_width, .is_operand = true});
    pass_adapt_gradients(pass, MODULE_PROJ, kept + at->attention, heads_width, stream, width);
    attention_backward(&shape, kept + at->qkv, kept + at->attention, kept + at->attention_stats, wide_1, wide_2,
                       memory + at->attention_scratch);
    pass_weight_gradient(pass, QKV_WEIGHT, normed, width, wide_2, 3 * heads_width);
    const struct gpt_result normed_gradient = {.data = wide_1, .width = width, .is_operand = true};
    pass_multiply_back(pass, QKV_WEIGHT, wide_2, 3 * heads_width, normed_gradient);
    pass_adapt_back(pass, MODULE_QKV, wide_2, 3 * heads_width, normed_gradient);
    pass_adapt_gradients(pass, MODULE_QKV, normed, width, wide_2, 3 * heads_width);
    const struct gpt_norm_back norm_1 = {LN_1_WEIGHT, input, kept + at->stats_1, wide_1, false};
    pass_norm_back(pass, &norm_1, QKV_BIAS, wide_2, 3 * heads_width);
}

// fc is the product alone; GELU adds the bias.
static void tile_activations(const struct gpt_pass *pass)
{
    pass_multiply(pass, mlp_index(pass, FC_WEIGHT), pass->normed, pass->width,
                  (struct gpt_result){.data = pass->fc, .width = pass->tile_width, .is_operand = true});
    pass_adapt(pass, MODULE_FC, pass->normed, pass->width,
               (struct gpt_result){.data = pass->fc, .width = pass->tile_width, .is_operand = true});
}

static void tile_output(const struct gpt_pass *pass)
{
    float *hidden = pass->memory + pass->at.wide_1, *out = block_output(pass);
    gelu_forward(pass->rows, pass->tile_width, pass->fc, pass->dtype, pass->weights[mlp_index(pass, FC_BIAS)], hidden);
    if (pass->layer.tile == 0 && !pass->layer.attention)
        bias_add(pass->stream_rows, pass->width, pass->kept + pass->at.middle, pass->dtype,
                 pass->weights[mlp_index(pass, OUT_BIAS)], out);
    pass_multiply(pass, mlp_index(pass, OUT_WEIGHT), hidden, pass->tile_width,
                  (struct gpt_result){.data = out, .width = pass->width, .add = true});
    pass_adapt(pass, MODULE_OUT, hidden, pass->tile_width, (struct gpt_result){.data = out, .width = pass->width});
}

// norm: of the MLP's input; null: it is there.
static void tile_gradients(const struct gpt_pass *pass, const struct norm_rows *norm)
{
    size_t width = pass->width, tile_width = pass->tile_width;
    int fc_weight = mlp_index(pass, FC_WEIGHT), fc_bias = mlp_index(pass, FC_BIAS),
        out_weight = mlp_index(pass, OUT_WEIGHT);
    bool first = pass->layer.tile + 1 == pass->shape->tile_count;
    float *memory = pass->memory, *hidden = memory + pass->at.wide_1, *gradient = memory + pass->at.wide_2;
    const void *stream = pass_stream_gradient(pass, NULL, pass->layer.tile == 0 ? mlp_index(pass, OUT_BIAS) : -1, norm);

    pass_multiply_back(pass, out_weight, stream, width,
                       (struct gpt_result){.data = gradient, .width = tile_width, .is_operand = true});
    pass_adapt_back(pass, MODULE_OUT, stream, width,
                    (struct gpt_result){.data = gradient, .width = tile_width, .is_operand = true});
    const struct sum_place place = pass_place(pass, fc_bias);
    gelu_backward(pass->rows, tile_width, pass->fc, gradient, pass->dtype, pass->weights[fc_bias], hidden, gradient,
                  pass_wants(pass, fc_bias) ? memory + pass->at.vectors : NULL, &place);
    pass_adapt_gradients(pass, MODULE_OUT, hidden, tile_width, stream, width);
    pass_weight_gradient(pass, out_weight, hidden, tile_width, stream, width);
    pass_weight_gradient(pass, fc_weight, pass->normed, width, gradient, tile_width);
    const struct gpt_result normed_gradient = {
        .data = memory + pass->at.normed_gradient, .width = width, .add = !first, .is_operand = true};
    pass_multiply_back(pass, fc_weight, gradient, tile_width, normed_gradient);
    pass_adapt_back(pass, MODULE_FC, gradient, tile_width, normed_gradient);
    pass_adapt_gradients(pass, MODULE_FC, pass->normed, width, gradient, tile_width);
}

int gpt_block_activations(const struct gpt_pass *pass)
{
    if (pass->layer.attention)
        attention_activations(pass);
    if (pass->shape->experts.count > 0)
        return gpt_experts_activations(pass);
    if (pass->layer.mlp)
        tile_activations(pass);
    return ERR_NONE;
}

int gpt_block_forward(const struct gpt_pass *pass)
{
    TRY(gpt_block_activations(pass));
    if (pass->shape->experts.count > 0)
        gpt_experts_output(pass, block_output(pass));
    else if (pass->layer.mlp)
        tile_output(pass);
    return ERR_NONE;
}

int gpt_block_backward(const struct gpt_pass *pass)
{
    const float *kept = pass->kept;
    const struct norm_rows norm =
        pass_norm_of(pass, LN_2_WEIGHT, kept + pass->at.middle, kept + pass->at.stats_2, pass->normed);
    // Recomputation has left it there.
    bool is_made = pass->layer.attention && pass->layer.mlp && !pass->run->checkpointing;
    if (is_made && pass->shape->experts.count > 0)
        pass_norm(pass, &norm);
    if (pass->shape->experts.count > 0)
        TRY(gpt_experts_gradients(pass));
    else if (pass->layer.mlp)
        tile_gradients(pass, is_made ? &norm : NULL);
    if (pass->layer.attention)
        attention_gradients(pass);
    return ERR_NONE;
}
