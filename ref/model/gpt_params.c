// SPDX-License-Identifier: Apache-2.0
// A GPT's parameters: their names and shapes, and their initial values.
#include "ref/model/gpt_pass.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <math.h>
#include <stdio.h>

// Those of a block without its adapters.
static int base_params(const struct gpt_shape *shape)
{
    if (shape->experts.count > 0)
        return ROUTER_WEIGHT + 1 + (int)shape->experts.count * EXPERT_PARAMS;
    return BLOCK_PARAMS + ((int)shape->tile_count - 1) * FURTHER_TILE_PARAMS;
}

int gpt_block_params(const struct gpt_shape *shape)
{
    int count = base_params(shape);
    for (int i = 0; i < MODULE_COUNT; i++)
        count += lora_adapts(&shape->lora, gpt_modules[i]) ? 2 : 0;
    return count;
}

struct gpt_block_param gpt_block_param_of(const struct gpt_shape *shape, int param)
{
    int at = (param - FIRST_BLOCK_PARAM) % gpt_block_params(shape), base = base_params(shape);
    struct gpt_block_param b = {.block_index = (param - FIRST_BLOCK_PARAM) / gpt_block_params(shape), .role = at};
    if (at >= base) {
        int module = 0;
        for (int before = base; module < MODULE_COUNT; module++) {
            before += lora_adapts(&shape->lora, gpt_modules[module]) ? 2 : 0;
            if (at < before)
                break;
        }
        b.role = BLOCK_PARAMS + 2 * module + (at - base) % 2;
    } else if (shape->experts.count > 0 && at >= ROUTER_WEIGHT) {
        int behind = at - ROUTER_WEIGHT - 1;
        b.role = behind < 0 ? ROUTER_ROLE : FC_WEIGHT + behind % EXPERT_PARAMS;
        b.expert = behind < 0 ? 0 : 1 + behind / EXPERT_PARAMS;
    } else if (at >= BLOCK_PARAMS) {
        b.role = FC_WEIGHT + (at - BLOCK_PARAMS) % FURTHER_TILE_PARAMS;
        b.tile = 1 + (at - BLOCK_PARAMS) / FURTHER_TILE_PARAMS;
    }
    return b;
}

// GPT-2's initial values: normal with deviation 0.02, less for the matrices that add to the stream; norms 1 and 0,
// biases 0. A tile's elements equal those of the whole matrix.
int gpt_initialise(const struct model *model, int param, uint64_t seed, float *out)
{
    const struct gpt_shape *shape = model->shape;
    const struct model_param *p = &model->params[param];
    bool in_block = param >= FIRST_BLOCK_PARAM && param < model->param_count - 2;
    bool norm = param == model->param_count - 2;
    size_t columns = p->shape[1], stride = columns, first = 0;  // of the whole matrix, and this tile's offset in it
    uint64_t whole_param = (uint64_t)param, own_key = 0;
    float deviation = 0.02f;
    if (in_block) {
        struct gpt_block_param b = gpt_block_param_of(shape, param);
        // A key of its own for each block, expert and role, other than those of the base.
        uint64_t own = random_key(random_key(seed, UINT64_MAX - (uint64_t)b.block_index),
                                  (uint64_t)(b.role + ROUTER_ROLE * b.expert));
        if (b.role >= BLOCK_PARAMS && b.role != ROUTER_ROLE) {
            lora_initialise(b.role % 2 != BLOCK_PARAMS % 2, columns, p->count, own, out);
            return ERR_NONE;
        }
        own_key = b.role == ROUTER_ROLE || b.expert > 0 ? own : 0;
        norm = b.role == LN_1_WEIGHT || b.role == LN_2_WEIGHT;
        whole_param = (uint64_t)(FIRST_BLOCK_PARAM + b.block_index * BLOCK_PARAMS + b.role);
        if (b.role == PROJ_WEIGHT || b.role == OUT_WEIGHT)
            deviation /= sqrtf(2.0f * (float)shape->block_count);
        if (b.role == FC_WEIGHT)
            stride = 4 * shape->width;
        first = (size_t)b.tile * (b.role == FC_WEIGHT ? columns : p->count);
    }
    uint64_t key = own_key ? own_key : random_key(seed, whole_param);
    for (size_t i = 0; i < p->count; i++) {
        if (p->shape_rank == 2)
            out[i] = deviation * random_normal(random_at(key, first + i / columns * stride + i % columns));
        else
            out[i] = norm ? 1.0f : 0.0f;
    }
    return ERR_NONE;
}

struct model_param *gpt_block_params_set(const struct gpt_shape *shape, int block_index, int layer,
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
    for (int i = 0; i < gpt_block_params(shape); i++) {
        struct gpt_block_param b = gpt_block_param_of(shape, FIRST_BLOCK_PARAM + i);
        char name[MODEL_NAME_BYTES];
        if (b.role == ROUTER_ROLE) {
            snprintf(name, sizeof name, "h.%d.mlp.router.weight", block_index);
            model_param_set(param, name, width, shape->experts.count, layer);
            param++->frozen = shape->lora.rank > 0;
            continue;
        }
        if (b.role >= BLOCK_PARAMS) {
            int module = (b.role - BLOCK_PARAMS) / 2;
            bool is_b = (b.role - BLOCK_PARAMS) % 2 != 0;
            size_t in_width, out_width, rank = shape->lora.rank;
            char adapter[MODEL_NAME_BYTES];
            gpt_module_widths(shape, (enum gpt_module)module, &in_width, &out_width);
            snprintf(name, sizeof name, "h.%d.%s", block_index, gpt_modules[module]);
            lora_param_name(name, is_b, adapter);
            model_param_set(param++, adapter, is_b ? out_width : rank, is_b ? rank : in_width, layer);
            continue;
        }
        if (b.role < ATTENTION_PARAMS)
            snprintf(name, sizeof name, "h.%d.%s", block_index, block[b.role].name);
        else if (b.expert > 0)
            snprintf(name, sizeof name, "h.%d.mlp.experts.%d.%s", block_index, b.expert - 1, block[b.role].name);
        else if (shape->tile_count == 1 || b.role == OUT_BIAS)
            snprintf(name, sizeof name, "h.%d.mlp.%s", block_index, block[b.role].name);
        else
            snprintf(name, sizeof name, "h.%d.mlp.tile.%d.%s", block_index, b.tile, block[b.role].name);
        bool own_layer = shape->tile_count > 1 && b.role >= ATTENTION_PARAMS;
        model_param_set(param, name, block[b.role].rows, block[b.role].columns, own_layer ? layer + 1 + b.tile : layer);
        param->expert = b.expert > 0;
        param++->frozen = shape->lora.rank > 0;
    }
    return param;
}
