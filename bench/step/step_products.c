// SPDX-License-Identifier: Apache-2.0
#include "bench/step/step_peak.h"

#include "base/err.h"
#include "ref/model/gpt_find.h"
#include "ref/model/gpt_pass.h"
#include "ref/model/llama/llama.h"

static void add(struct step_products *program, struct step_product product)
{
    program->products[program->product_count++] = product;
}

// Adds a linear layer's products: forward, gradient of the input, gradient of the weights.
static void add_layer(struct step_products *program, size_t rows, size_t in, size_t out, size_t count)
{
    add(program, (struct step_product){rows, out, in, count, false, false});
    add(program, (struct step_product){rows, in, out, count, false, true});
    add(program, (struct step_product){in, out, rows, count, true, false});
}

// Attention: scores and weighted values, each with two gradients, of `heads` heads of this width.
static void add_attention(struct step_products *program, size_t length, size_t width, size_t heads)
{
    add(program, (struct step_product){length, length, width, 2 * heads, false, true});
    add(program, (struct step_product){length, width, length, 4 * heads, false, false});
}

// An expert multiplies all its slots, empty ones as well.
static void add_mlp(struct step_products *program, const struct gpt_shape *shape, size_t rows)
{
    size_t width = shape->width, experts = shape->experts.count, count = shape->block_count;
    if (experts > 0) {
        add_layer(program, rows, width, experts, count);  // the router
        rows = gpt_expert_slots(shape, rows);
        count *= experts;
    }
    add_layer(program, rows, width, 4 * width, count);
    add_layer(program, rows, 4 * width, width, count);
}

static void add_gpt(struct step_products *program, const struct gpt_shape *shape, size_t sequence_count)
{
    size_t rows = sequence_count * shape->sequence_length, width = shape->width, blocks = shape->block_count;
    add_layer(program, rows, width, 3 * width, blocks);
    add_layer(program, rows, width, width, blocks);
    add_mlp(program, shape, rows);
    add_layer(program, rows, width, shape->vocabulary, 1);
    add_attention(program, shape->sequence_length, width / shape->head_count,
                  blocks * sequence_count * shape->head_count);
}

static void add_llama(struct step_products *program, const struct llama_sizes *s, size_t sequence_count)
{
    size_t rows = sequence_count * s->length, head = s->width / s->heads;
    add_layer(program, rows, s->width, s->width, 2 * s->layers);            // queries, attention's output
    add_layer(program, rows, s->width, s->kv_heads * head, 2 * s->layers);  // keys, values
    add_layer(program, rows, s->width, s->hidden, 2 * s->layers);           // gate, up
    add_layer(program, rows, s->hidden, s->width, s->layers);
    add_layer(program, rows, s->width, s->vocabulary, 1);
    add_attention(program, s->length, head, s->layers * sequence_count * s->heads);
}

int step_products_of_model(const struct model *model, size_t sequence_count, struct step_products *out)
{
    const struct llama_sizes *llama = llama_sizes_of(model);
    *out = (struct step_products){.product_count = 0};
    if (llama)
        add_llama(out, llama, sequence_count);
    else if (gpt_is_name(model->name))
        add_gpt(out, model->shape, sequence_count);
    else
        return err_set(ERR_USAGE, "the model %s is no GPT or Llama: its matrix products are unknown", model->name);
    return ERR_NONE;
}
