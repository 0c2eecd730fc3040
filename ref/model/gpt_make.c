// SPDX-License-Identifier: Apache-2.0
// A GPT's description: its parameters (gpt_params.c) and its layers; and the part of it that one rank holds.
#include "ref/model/gpt.h"

#include "base/err.h"
#include "ref/model/gpt_pass.h"
#include "ref/model/gpt_route.h"

#include <stdio.h>
#include <stdlib.h>

struct gpt {
    struct model model;
    struct gpt_shape shape;
    struct model_param *params;
    struct model_layer *layers;
    int *layer_params;  // the layers' lists in sequence
    char (*layer_names)[32];
    char name[GPT_NAME_BYTES];
};

// 2 operations for each element of a matrix and each row, and 4 x length x width per row for attention.
static double gpt_layer_flops(const struct model *model, int layer, size_t sequence_count)
{
    const struct gpt_shape *shape = model->shape;
    double rows = (double)(sequence_count * shape->sequence_length), width = (double)shape->width, row = 0;
    struct gpt_layer part = gpt_layer_of(model, layer);
    if (part.kind == GPT_HEAD)
        row = 2.0 * (double)shape->vocabulary * width;
    if (part.kind == GPT_BLOCK && part.attention)
        row = 2.0 * 4.0 * width * width + 4.0 * (double)shape->sequence_length * width;
    if (part.kind == GPT_BLOCK && shape->experts.count > 0) {
        double slots = (double)(shape->experts.count * gpt_expert_slots(shape, (size_t)rows)) / rows;
        row += 2.0 * 8.0 * width * width * slots + 2.0 * width * (double)shape->experts.count;
    } else if (part.kind == GPT_BLOCK && part.mlp)
        row += 2.0 * 8.0 * width * width / (double)shape->tile_count;
    for (int i = 0; i < MODULE_COUNT && part.kind == GPT_BLOCK; i++) {
        size_t in_width, out_width;
        gpt_module_widths(shape, (enum gpt_module)i, &in_width, &out_width);
        if (lora_adapts(&shape->lora, gpt_modules[i]))
            row += 2.0 * (double)(shape->lora.rank * (in_width + out_width));
    }
    return rows * row / (double)gpt_widths_of(model).parts;
}

static const struct model_operations gpt_operations = {
    .initialise = gpt_initialise,
    .layer_flops = gpt_layer_flops,
    .run_bytes = gpt_run_bytes,
    .checkpoint_bytes = gpt_checkpoint_bytes,
    .forward = gpt_forward,
    .backward = gpt_backward,
    .place = gpt_place,
    .slice = gpt_slice,
    .border = gpt_border,
    .exchange = gpt_exchange,
    .token_bytes = gpt_token_bytes,
    .multiplies_matrices = true,
};

static void params_set(struct gpt *gpt)
{
    const struct gpt_shape *shape = &gpt->shape;
    struct model_param *param = gpt->params;
    int head = gpt->model.layer_count - 1;
    model_param_set(param, "wte.weight", shape->vocabulary, shape->width, 0);
    param->layer_count = 2;
    model_param_set(++param, "wpe.weight", shape->sequence_length, shape->width, 0);
    param++;
    for (int block_index = 0; block_index < (int)shape->block_count; block_index++)
        param = gpt_block_params_set(shape, block_index, 1 + block_index * gpt_layers_a_block(shape), param);
    model_param_set(param++, "ln_f.weight", 0, shape->width, head);
    model_param_set(param, "ln_f.bias", 0, shape->width, head);
    for (int i = 0; i < FIRST_BLOCK_PARAM && shape->lora.rank > 0; i++)
        gpt->params[i].frozen = param[-i].frozen = true;
}

// Parameters are in the order of the layers that use them; the head uses the token embedding in addition.
static void layers_set(struct gpt *gpt)
{
    int *list = gpt->layer_params, param = 0, head = gpt->model.layer_count - 1;
    for (int layer = 0; layer <= head; layer++) {
        struct model_layer *u = &gpt->layers[layer];
        char *name = gpt->layer_names[layer];
        struct gpt_layer part = gpt_layer_of(&gpt->model, layer);
        if (part.kind != GPT_BLOCK)
            snprintf(name, sizeof *gpt->layer_names, "%s", part.kind == GPT_HEAD ? "head" : "embedding");
        else if (part.attention)
            snprintf(name, sizeof *gpt->layer_names, part.mlp ? "h.%zu" : "h.%zu.attn", part.block);
        else
            snprintf(name, sizeof *gpt->layer_names, "h.%zu.mlp.tile.%zu", part.block, part.tile);
        *u = (struct model_layer){.name = name, .params = list};
        while (param < gpt->model.param_count && gpt->params[param].first_layer == layer)
            list[u->param_count++] = param++;
        if (layer == head)
            list[u->param_count++] = TOKEN_WEIGHT;
        list += u->param_count;
    }
}

static int experts_complete(const char *name, struct gpt_shape *shape)
{
    struct gpt_experts *experts = &shape->experts;
    if (experts->count == 0 &&
        (experts->top > 0 || experts->capacity_thousandths > 0 || experts->aux_loss_thousandths > 0))
        return err_set(ERR_USAGE, "%s has no experts that top, capacity and aux_loss could belong to: add experts=N",
                       name);
    if (experts->count == 0)
        return ERR_NONE;
    if (experts->top == 0)
        experts->top = 1;
    if (experts->capacity_thousandths == 0)
        experts->capacity_thousandths = 1000;
    if (experts->count > GPT_EXPERTS_MAX || experts->top > ROUTE_TOP_MAX || experts->top > experts->count)
        return err_set(ERR_USAGE, "%s: expected at most %d experts, and top=1 or top=2 of them", name, GPT_EXPERTS_MAX);
    if (shape->tile_count > 1)
        return err_set(ERR_USAGE, "%s has both experts and tiles: leave out one of them", name);
    for (int i = MODULE_FC; i < MODULE_COUNT; i++)
        if (lora_adapts(&shape->lora, gpt_modules[i]))
            return err_set(
                ERR_USAGE,
                "%s: the targets name %s, in whose place there are experts, which have no adapters: expected "
                "%s or %s",
                name, gpt_modules[i], gpt_modules[MODULE_QKV], gpt_modules[MODULE_PROJ]);
    return ERR_NONE;
}

static int shape_check(const char *name, const struct gpt_shape *shape)
{
    if (!shape->head_count || !shape->width || shape->width % shape->head_count || !shape->block_count ||
        !shape->sequence_length || !shape->vocabulary)
        return err_set(ERR_USAGE,
                       "%s is not a valid GPT: the width must be a multiple of the heads, and no size may be 0", name);
    if (shape->block_count > GPT_LAYERS_MAX || shape->width > GPT_SIZE_MAX || shape->sequence_length > GPT_SIZE_MAX ||
        shape->vocabulary > UINT16_MAX + 1)
        return err_set(ERR_USAGE,
                       "%s is too large: expected at most %d layers, a width and length of at most %d, "
                       "and a vocabulary of at most %d",
                       name, GPT_LAYERS_MAX, GPT_SIZE_MAX, UINT16_MAX + 1);
    if (!shape->tile_count || shape->tile_count > GPT_TILES_MAX || 4 * shape->width % shape->tile_count)
        return err_set(ERR_USAGE, "%s cannot have %zu tiles: expected a divisor of 4 x width = %zu, at most %d", name,
                       shape->tile_count, 4 * shape->width, GPT_TILES_MAX);
    if (shape->tile_count > 1 && shape->lora.rank > 0)
        return err_set(ERR_USAGE,
                       "%s has tiles and adapters: an adapter belongs to a whole matrix; leave out the tiles", name);
    return gpt_check_blocks(name, shape);
}

int gpt_make(const char *name, const struct gpt_shape *shape, struct model **out)
{
    struct gpt_shape complete = *shape;
    TRY(lora_complete(name, gpt_modules[MODULE_QKV], gpt_modules, &complete.lora));
    TRY(experts_complete(name, &complete));
    TRY(shape_check(name, &complete));
    shape = &complete;
    struct gpt *gpt = calloc(1, sizeof *gpt);
    if (!gpt)
        return err_set(ERR_MEMORY, "no memory for the model %s", name);
    size_t params = 4 + (size_t)gpt_block_params(shape) * shape->block_count;
    size_t layers = 2 + (size_t)gpt_layers_a_block(shape) * shape->block_count;
    gpt->shape = *shape;
    snprintf(gpt->name, sizeof gpt->name, "%s", name);
    gpt->params = calloc(params, sizeof *gpt->params);
    gpt->layers = calloc(layers, sizeof *gpt->layers);
    gpt->layer_params = calloc(params + 1, sizeof *gpt->layer_params);
    gpt->layer_names = calloc(layers, sizeof *gpt->layer_names);
    gpt->model = (struct model){.name = gpt->name,
                                .params = gpt->params,
                                .param_count = (int)params,
                                .layers = gpt->layers,
                                .layer_count = (int)layers,
                                .group_count = 1,
                                .lora = shape->lora.rank > 0 ? &gpt->shape.lora : NULL,
                                .sequence_length = shape->sequence_length,
                                .wants_text = true,
                                .sequence_parallel = shape->sequence_parallel > 0,
                                .expert_count = (int)shape->experts.count,
                                .on_host = shape->product_blocks > 1 || shape->experts.count > 0,
                                .operations = &gpt_operations,
                                .shape = &gpt->shape};
    if (!gpt->params || !gpt->layers || !gpt->layer_params || !gpt->layer_names) {
        gpt_free(&gpt->model);
        return err_set(ERR_MEMORY, "no memory for the model %s", name);
    }
    params_set(gpt);
    layers_set(gpt);
    *out = &gpt->model;
    return ERR_NONE;
}

void gpt_free(struct model *model)
{
    struct gpt *gpt = (struct gpt *)model;
    if (!gpt)
        return;
    free(gpt->params);
    free(gpt->layers);
    free(gpt->layer_params);
    free(gpt->layer_names);
    free(gpt);
}
