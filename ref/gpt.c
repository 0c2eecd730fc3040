// SPDX-License-Identifier: Apache-2.0
// A GPT's description: its parameters, its units, their initial values.
#include "gpt.h"

#include "err.h"
#include "gpt_pass.h"
#include "random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct gpt {
    struct model model;
    struct gpt_shape shape;
    struct model_param *params;
    struct model_unit *units;
    int *unit_params;  // the units' lists, one after the other
    char (*unit_names)[16];
    char name[MODEL_NAME_BYTES];
};

// Forward is 2 operations for each element of a matrix and row, and 4 x length x width a row for attention; backward
// is twice that.
static double gpt_flops(const struct model *model, size_t sequence_count)
{
    const struct gpt_shape *shape = model->shape;
    double rows = (double)(sequence_count * shape->sequence_length), width = (double)shape->width;
    double block = 2.0 * 12.0 * width * width + 4.0 * (double)shape->sequence_length * width;
    return 3.0 * rows * ((double)shape->layer_count * block + 2.0 * (double)shape->vocabulary * width);
}

// GPT-2's: normal with deviation 0.02, less for the matrices that add to the stream; norms 1 and 0, biases 0.
static void gpt_initialise(const struct model *model, int param, uint64_t seed, float *out)
{
    const struct gpt_shape *shape = model->shape;
    int role = (param - FIRST_BLOCK_PARAM) % BLOCK_PARAMS;
    bool block = param >= FIRST_BLOCK_PARAM && param < model->param_count - 2;
    bool matrix = model->params[param].shape_rank == 2;
    bool weight = param == model->param_count - 2 || (block && (role == LN_1_WEIGHT || role == LN_2_WEIGHT));
    float deviation = 0.02f;
    if (block && (role == PROJ_WEIGHT || role == OUT_WEIGHT))
        deviation /= sqrtf(2.0f * (float)shape->layer_count);
    uint64_t key = random_key(seed, (uint64_t)param);
    for (size_t i = 0; i < model->params[param].count; i++)
        out[i] = matrix ? deviation * random_normal(random_at(key, i)) : weight ? 1.0f : 0.0f;
}

static const struct model_operations gpt_operations = {
    .initialise = gpt_initialise,
    .flops = gpt_flops,
    .run_bytes = gpt_run_bytes,
    .checkpoint_bytes = gpt_checkpoint_bytes,
    .forward = gpt_forward,
    .backward = gpt_backward,
};

// rows 0: a vector.
static void param_set(struct model_param *param, const char *name, size_t rows, size_t columns, int unit)
{
    snprintf(param->name, sizeof param->name, "%s", name);
    param->shape_rank = rows ? 2 : 1;
    param->shape[0] = rows ? rows : columns;
    param->shape[1] = rows ? columns : 0;
    param->count = rows ? rows * columns : columns;
    param->used = true;
    param->first_unit = unit;
    param->unit_count = 1;
}

static void params_set(struct gpt *gpt)
{
    size_t width = gpt->shape.width;
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
        [FC_WEIGHT] = {"mlp.c_fc.weight", width, 4 * width},
        [FC_BIAS] = {"mlp.c_fc.bias", 0, 4 * width},
        [OUT_WEIGHT] = {"mlp.c_proj.weight", 4 * width, width},
        [OUT_BIAS] = {"mlp.c_proj.bias", 0, width},
    };
    struct model_param *param = gpt->params;
    param_set(param, "wte.weight", gpt->shape.vocabulary, width, 0);
    param->unit_count = 2;
    param_set(++param, "wpe.weight", gpt->shape.sequence_length, width, 0);
    for (int layer = 0; layer < (int)gpt->shape.layer_count; layer++) {
        for (int i = 0; i < BLOCK_PARAMS; i++) {
            char name[MODEL_NAME_BYTES];
            snprintf(name, sizeof name, "h.%d.%s", layer, block[i].name);
            param_set(++param, name, block[i].rows, block[i].columns, layer + 1);
        }
    }
    int head = gpt->model.unit_count - 1;
    param_set(++param, "ln_f.weight", 0, width, head);
    param_set(++param, "ln_f.bias", 0, width, head);
}

static void units_set(struct gpt *gpt)
{
    int layers = (int)gpt->shape.layer_count, *list = gpt->unit_params, param = FIRST_BLOCK_PARAM;
    list[0] = TOKEN_WEIGHT;
    list[1] = POSITION_WEIGHT;
    gpt->units[0] = (struct model_unit){"embedding", list, 2};
    list += 2;
    for (int layer = 0; layer < layers; layer++, list += BLOCK_PARAMS) {
        for (int i = 0; i < BLOCK_PARAMS; i++)
            list[i] = param++;
        snprintf(gpt->unit_names[layer], sizeof gpt->unit_names[layer], "h.%d", layer);
        gpt->units[layer + 1] = (struct model_unit){gpt->unit_names[layer], list, BLOCK_PARAMS};
    }
    list[0] = param;
    list[1] = param + 1;
    list[HEAD_TOKEN_WEIGHT] = TOKEN_WEIGHT;
    gpt->units[layers + 1] = (struct model_unit){"head", list, 3};
}

int gpt_make(const char *name, const struct gpt_shape *shape, struct model **out)
{
    if (shape->layer_count > 1000 || !shape->head_count || !shape->width || shape->width % shape->head_count ||
        !shape->sequence_length || !shape->vocabulary || shape->vocabulary > UINT16_MAX + 1)
        return err_set(ERR_USAGE, "%s is no GPT: the width must be a multiple of the heads, and no size may be 0",
                       name);
    struct gpt *gpt = calloc(1, sizeof *gpt);
    if (!gpt)
        return err_set(ERR_MEMORY, "no memory for the model %s", name);
    size_t params = 4 + BLOCK_PARAMS * shape->layer_count;
    gpt->shape = *shape;
    snprintf(gpt->name, sizeof gpt->name, "%s", name);
    gpt->params = calloc(params, sizeof *gpt->params);
    gpt->units = calloc(shape->layer_count + 2, sizeof *gpt->units);
    gpt->unit_params = calloc(params + 1, sizeof *gpt->unit_params);
    gpt->unit_names = calloc(shape->layer_count + 1, sizeof *gpt->unit_names);
    gpt->model = (struct model){.name = gpt->name,
                                .params = gpt->params,
                                .param_count = (int)params,
                                .units = gpt->units,
                                .unit_count = (int)shape->layer_count + 2,
                                .group_count = 1,
                                .sequence_length = shape->sequence_length,
                                .wants_text = true,
                                .operations = &gpt_operations,
                                .shape = &gpt->shape};
    if (!gpt->params || !gpt->units || !gpt->unit_params || !gpt->unit_names) {
        gpt_free(&gpt->model);
        return err_set(ERR_MEMORY, "no memory for the model %s", name);
    }
    params_set(gpt);
    units_set(gpt);
    *out = &gpt->model;
    return ERR_NONE;
}

void gpt_free(struct model *model)
{
    struct gpt *gpt = (struct gpt *)model;
    if (!gpt)
        return;
    free(gpt->params);
    free(gpt->units);
    free(gpt->unit_params);
    free(gpt->unit_names);
    free(gpt);
}
