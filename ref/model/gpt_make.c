// SPDX-License-Identifier: Apache-2.0
// A GPT's description: its parameters, its layers, their initial values.
#include "ref/model/gpt.h"

#include "base/err.h"
#include "ref/model/gpt_pass.h"
#include "ref/arithmetic/random.h"

#include <math.h>
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
    if (part.kind == GPT_BLOCK && part.mlp)
        row += 2.0 * 8.0 * width * width / (double)shape->tile_count;
    for (int i = 0; i < MODULE_COUNT && part.kind == GPT_BLOCK; i++) {
        size_t in_width, out_width;
        gpt_module_widths(shape, (enum gpt_module)i, &in_width, &out_width);
        if (lora_adapts(&shape->lora, gpt_modules[i]))
            row += 2.0 * (double)(shape->lora.rank * (in_width + out_width));
    }
    return rows * row / (double)gpt_widths_of(model).parts;
}

static int block_params(const struct gpt_shape *shape)
{
    int count = BLOCK_PARAMS + ((int)shape->tile_count - 1) * FURTHER_TILE_PARAMS;
    for (int i = 0; i < MODULE_COUNT; i++)
        count += lora_adapts(&shape->lora, gpt_modules[i]) ? 2 : 0;
    return count;
}

// A block's parameter: its role in the block without tiles, and its tile. The roles of A and B of module i are
// BLOCK_PARAMS + 2 i and the next.
struct block_param {
    int block_index, role, tile;
};

static struct block_param block_param_of(const struct gpt_shape *shape, int param)
{
    int at = (param - FIRST_BLOCK_PARAM) % block_params(shape);
    struct block_param b = {.block_index = (param - FIRST_BLOCK_PARAM) / block_params(shape), .role = at};
    if (at >= BLOCK_PARAMS && shape->lora.rank > 0) {
        int module = 0;
        for (int before = BLOCK_PARAMS; module < MODULE_COUNT; module++) {
            before += lora_adapts(&shape->lora, gpt_modules[module]) ? 2 : 0;
            if (at < before)
                break;
        }
        b.role = BLOCK_PARAMS + 2 * module + (at - BLOCK_PARAMS) % 2;
    } else if (at >= BLOCK_PARAMS) {
        b.role = FC_WEIGHT + (at - BLOCK_PARAMS) % FURTHER_TILE_PARAMS;
        b.tile = 1 + (at - BLOCK_PARAMS) / FURTHER_TILE_PARAMS;
    }
    return b;
}

// GPT-2's initial values: normal with deviation 0.02, less for the matrices that add to the stream; norms 1 and 0,
// biases 0. A tile's elements equal those of the whole matrix.
static void gpt_initialise(const struct model *model, int param, uint64_t seed, float *out)
{
    const struct gpt_shape *shape = model->shape;
    const struct model_param *p = &model->params[param];
    bool in_block = param >= FIRST_BLOCK_PARAM && param < model->param_count - 2;
    bool norm = param == model->param_count - 2;
    size_t columns = p->shape[1], stride = columns, first = 0;  // of the whole matrix, and this tile's offset in it
    uint64_t whole_param = (uint64_t)param;
    float deviation = 0.02f;
    if (in_block) {
        struct block_param b = block_param_of(shape, param);
        if (b.role >= BLOCK_PARAMS) {
            // A key of its own for each block and role, beside those of the base.
            uint64_t key = random_key(random_key(seed, UINT64_MAX - (uint64_t)b.block_index), (uint64_t)b.role);
            lora_initialise(p, b.role % 2 != BLOCK_PARAMS % 2, key, out);
            return;
        }
        norm = b.role == LN_1_WEIGHT || b.role == LN_2_WEIGHT;
        whole_param = (uint64_t)(FIRST_BLOCK_PARAM + b.block_index * BLOCK_PARAMS + b.role);
        if (b.role == PROJ_WEIGHT || b.role == OUT_WEIGHT)
            deviation /= sqrtf(2.0f * (float)shape->block_count);
        if (b.role == FC_WEIGHT)
            stride = 4 * shape->width;
        first = (size_t)b.tile * (b.role == FC_WEIGHT ? columns : p->count);
    }
    uint64_t key = random_key(seed, whole_param);
    for (size_t i = 0; i < p->count; i++) {
        if (p->shape_rank == 2)
            out[i] = deviation * random_normal(random_at(key, first + i / columns * stride + i % columns));
        else
            out[i] = norm ? 1.0f : 0.0f;
    }
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
    .multiplies_matrices = true,
};

// rows 0: a vector.
static void param_set(struct model_param *param, const char *name, size_t rows, size_t columns, int layer)
{
    snprintf(param->name, sizeof param->name, "%s", name);
    param->shape_rank = rows ? 2 : 1;
    param->shape[0] = rows ? rows : columns;
    param->shape[1] = rows ? columns : 0;
    param->count = rows ? rows * columns : columns;
    param->used = true;
    param->first_layer = layer;
    param->layer_count = 1;
}

// Describes the parameters of one block; returns the entry after the last.
static struct model_param *block_params_set(const struct gpt_shape *shape, int block_index, int layer,
                                            struct model_param *param)
{
    size_t width = shape->width, tile_width = 4 * width / shape->tile_count;
    const struct {
        const char *name;
        size_t rows, columns;
    } block[BLOCK_PARAMS] = {
        [LN_1_WEIGHT] = {"ln_1.weight", 0, width},
        [LN_1_BIAS] = {"ln_1.bias", 0, width},
        [QKV_WEIGHT] = {"attn.c_attn.weight", width, 3 * width},
        [QKV_BIAS] = {"attn.c_attn.bias", 0, 3 * width},
        [PROJ_WEIGHT] = {"attn.c_proj.weight", width, width},
        [PROJ_BIAS] = {"attn.c_proj.bias", 0, width},
        [LN_2_WEIGHT] = {"ln_2.weight", 0, width},
        [LN_2_BIAS] = {"ln_2.bias", 0, width},
        [FC_WEIGHT] = {"c_fc.weight", width, tile_width},
        [FC_BIAS] = {"c_fc.bias", 0, tile_width},
        [OUT_WEIGHT] = {"c_proj.weight", tile_width, width},
        [OUT_BIAS] = {"c_proj.bias", 0, width},
    };
    for (int i = 0; i < block_params(shape); i++) {
        struct block_param b = block_param_of(shape, FIRST_BLOCK_PARAM + i);
        char name[MODEL_NAME_BYTES];
        if (b.role >= BLOCK_PARAMS) {
            int module = (b.role - BLOCK_PARAMS) / 2;
            size_t in_width, out_width;
            gpt_module_widths(shape, (enum gpt_module)module, &in_width, &out_width);
            snprintf(name, sizeof name, "h.%d.%s", block_index, gpt_modules[module]);
            lora_param(&shape->lora, name, (b.role - BLOCK_PARAMS) % 2 != 0, in_width, out_width, layer, param++);
            continue;
        }
        if (b.role < ATTENTION_PARAMS)
            snprintf(name, sizeof name, "h.%d.%s", block_index, block[b.role].name);
        else if (shape->tile_count == 1 || b.role == OUT_BIAS)
            snprintf(name, sizeof name, "h.%d.mlp.%s", block_index, block[b.role].name);
        else
            snprintf(name, sizeof name, "h.%d.mlp.tile.%d.%s", block_index, b.tile, block[b.role].name);
        bool own_layer = shape->tile_count > 1 && b.role >= ATTENTION_PARAMS;
        param_set(param, name, block[b.role].rows, block[b.role].columns, own_layer ? layer + 1 + b.tile : layer);
        param++->frozen = shape->lora.rank > 0;
    }
    return param;
}

static void params_set(struct gpt *gpt)
{
    const struct gpt_shape *shape = &gpt->shape;
    struct model_param *param = gpt->params;
    int head = gpt->model.layer_count - 1;
    param_set(param, "wte.weight", shape->vocabulary, shape->width, 0);
    param->layer_count = 2;
    param_set(++param, "wpe.weight", shape->sequence_length, shape->width, 0);
    param++;
    for (int block_index = 0; block_index < (int)shape->block_count; block_index++)
        param = block_params_set(shape, block_index, 1 + block_index * gpt_layers_a_block(shape), param);
    param_set(param++, "ln_f.weight", 0, shape->width, head);
    param_set(param, "ln_f.bias", 0, shape->width, head);
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
    TRY(shape_check(name, &complete));
    shape = &complete;
    struct gpt *gpt = calloc(1, sizeof *gpt);
    if (!gpt)
        return err_set(ERR_MEMORY, "no memory for the model %s", name);
    size_t params = 4 + (size_t)block_params(shape) * shape->block_count;
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
