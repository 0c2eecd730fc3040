// SPDX-License-Identifier: Apache-2.0
// Operations and working memory of the Llama family. The memory follows the reference's layout for a GPT
// (ref/model/gpt_pass.c): x, q, k, v, the attention's output, x2, gate and up of every block stay in fp32; scores exist
// for one head at a time.
#include "plan/planner/plan_llama.h"

#include "ref/model/llama/llama.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

// A token of a window of w attends to w - w^2 / 2L keys on average over a sequence of L, and to L/2 without a window.
static double attended_length(const struct llama_shape *s, size_t block)
{
    double length = (double)s->sequence_length, window = (double)s->window;
    bool is_whole = s->window_period > 0 && (block + 1) % s->window_period == 0;
    return s->window == 0 || is_whole || window >= length ? length : window * (2 - window / length);
}

// Elements of the matrices of one block's attention.
static double attention_elements(const struct llama_shape *s)
{
    double width = (double)s->width, query = (double)llama_query_width(s), output = (double)llama_output_width(s);
    double key = (double)llama_key_width(s), value = (double)llama_value_width(s), latent = (double)s->key_latent;
    if (s->key_latent == 0)
        return width * (query + key + value + output);
    double projected = (double)s->heads * (double)(s->head_width + s->value_width);
    double queries = s->query_latent > 0 ? (double)s->query_latent * (width + query) : width * query;
    return queries + width * (latent + (double)s->rope_width) + latent * projected + output * width;
}

static double llama_layer_flops(const struct model *model, int layer, size_t sequence_count)
{
    const struct llama_shape *s = model->shape;
    double rows = (double)(sequence_count * s->sequence_length), width = (double)s->width;
    if (layer == 0)
        return 0;
    if (layer == model->layer_count - 1)
        return rows * 2.0 * (double)s->vocabulary * width;
    size_t block = (size_t)layer - 1;
    double attention = 2.0 * attention_elements(s) +
                       2.0 * attended_length(s, block) * (double)(llama_query_width(s) + llama_output_width(s));
    double router = llama_is_dense(s, block) ? 0 : 2.0 * width * (double)s->experts;
    return rows * (attention + 2.0 * 3.0 * width * (double)llama_used_width(s, block) + router);
}

static size_t llama_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    const struct llama_shape *s = model->shape;
    size_t rows = sequence_count * s->sequence_length, largest_param = 0, largest_layer = 0;
    size_t hidden = larger(llama_used_width(s, 0), llama_used_width(s, s->blocks - 1));
    size_t attention = llama_query_width(s) + llama_key_width(s) + llama_value_width(s);
    for (int layer = 0; layer < model->layer_count; layer++) {
        size_t count = 0;
        for (int i = 0; i < model->layers[layer].param_count; i++) {
            size_t param_count = model->params[model->layers[layer].params[i]].count;
            largest_param = larger(largest_param, param_count);
            count += param_count;
        }
        largest_layer = larger(largest_layer, count);
    }
    size_t block = rows * (2 * s->width + attention + llama_output_width(s) + s->query_latent + s->key_latent +
                           2 * hidden + s->experts + 2);
    size_t total = checkpointing ? block : block * s->blocks + rows * s->width;
    total += rows * (1 + 2 * s->width + 2 * larger(hidden, attention));
    total += 2 * s->sequence_length * s->sequence_length + larger(hidden, s->width);
    if (dtype == DTYPE_FP32)
        total += larger(rows * s->vocabulary, largest_param);
    else
        total += rows * s->vocabulary + largest_param + largest_layer;
    return total * sizeof(float);
}

static size_t llama_checkpoint_bytes(const struct model *model, int layer, size_t sequence_count)
{
    const struct llama_shape *s = model->shape;
    return layer > 0 ? sequence_count * s->sequence_length * s->width * sizeof(float) : 0;
}

const struct model_operations llama_operations = {
    .layer_flops = llama_layer_flops,
    .run_bytes = llama_run_bytes,
    .checkpoint_bytes = llama_checkpoint_bytes,
};

static struct transformer transformer_of(const struct llama_shape *s)
{
    size_t last = s->blocks - 1;
    struct transformer t = {
        .blocks = s->blocks,
        .width = s->width,
        .query_width = llama_query_width(s),
        .key_width = llama_key_width(s),
        .value_width = llama_value_width(s),
        .output_width = llama_output_width(s),
        .query_latent = s->query_latent,
        .key_latent = s->key_latent,
        .vocabulary = s->vocabulary,
        .sequence_length = s->sequence_length,
        .hidden = s->hidden,
        .mlp_matrices = LLAMA_MLP_MATRICES,
        .experts = llama_is_dense(s, last) ? 1 : s->experts,
        .experts_used = llama_is_dense(s, last) ? 1 : s->experts_used,
        .shared_hidden = s->shared_hidden,
        .is_frozen = s->lora_rank > 0,
    };
    for (size_t block = 0; block < s->blocks; block++)
        t.attended_length += attended_length(s, block) / (double)s->blocks;
    return t;
}

bool plan_llama_transformer(const struct model *model, struct transformer *out)
{
    const struct llama_sizes *s = llama_sizes_of(model);
    if (s)
        *out = transformer_of(&(struct llama_shape){.blocks = s->layers,
                                                    .width = s->width,
                                                    .heads = s->heads,
                                                    .head_width = s->width / s->heads,
                                                    .key_heads = s->kv_heads,
                                                    .hidden = s->hidden,
                                                    .vocabulary = s->vocabulary,
                                                    .sequence_length = s->length});
    else if (model->operations == &llama_operations)
        *out = transformer_of(model->shape);
    else
        return false;
    return true;
}
