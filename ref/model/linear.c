// SPDX-License-Identifier: Apache-2.0
// Models with given gradients: the generator, and passes that copy its values.
#include "ref/model/linear.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { CHUNK = 1024 };  // elements worked on at a time

enum {
    A_TIED,
    A_SCALE,
    A_WEIGHT,
    B_WEIGHT,
    B_BIAS,
    B_EMPTY,
    B_FROZEN,
    VOID_EMPTY,
    C_WEIGHT,
    C_BIAS,
    C_UNUSED,
    D_WEIGHT,
    D_BIAS,
    E_WEIGHT,
    E_BIAS,
    PARAM_COUNT
};

static const struct model_param awkward_params[PARAM_COUNT] = {
    [A_TIED] = {"tied.weight", {40, 25}, 2, 1000, 0, false, true, 0, .layer_count = 2},
    [A_SCALE] = {"a.scale", {0}, 0, 1, 0, false, true, 0, .layer_count = 1},
    [A_WEIGHT] = {"a.weight", {7}, 1, 7, 1, false, true, 0, .layer_count = 1},
    [B_WEIGHT] = {"b.weight", {4, 2, 2}, 3, 16, 0, false, true, 1, .layer_count = 1},
    [B_BIAS] = {"b.bias", {17}, 1, 17, 0, false, true, 1, .layer_count = 1},
    [B_EMPTY] = {"b.empty", {0, 5}, 2, 0, 1, false, true, 1, .layer_count = 1},
    [B_FROZEN] = {"b.frozen", {8, 8}, 2, 64, 0, true, true, 1, .layer_count = 1},
    [VOID_EMPTY] = {"void.empty", {0}, 1, 0, 0, false, true, 2, .layer_count = 1},
    [C_WEIGHT] = {"c.weight", {100, 50}, 2, 5000, 1, false, true, 3, .layer_count = 1},
    [C_BIAS] = {"c.bias", {2}, 1, 2, 0, false, true, 3, .layer_count = 1},
    [C_UNUSED] = {"c.unused", {101}, 1, 101, 0, false, false, 3, .layer_count = 1},
    [D_WEIGHT] = {"d.weight", {997}, 1, 997, 1, false, true, 4, .layer_count = 1},
    [D_BIAS] = {"d.bias", {64}, 1, 64, 0, false, true, 4, .layer_count = 1},
    [E_WEIGHT] = {"e.weight", {10, 10}, 2, 100, 0, false, true, 5, .layer_count = 1},
    [E_BIAS] = {"e.bias", {1}, 1, 1, 1, false, true, 5, .layer_count = 1},
};
static const struct model_layer awkward_layers[] = {
    {"a", (const int[]){A_TIED, A_SCALE, A_WEIGHT}, 3},
    {"b", (const int[]){B_WEIGHT, B_BIAS, B_EMPTY, B_FROZEN}, 4},
    {"void", (const int[]){VOID_EMPTY}, 1},
    {"c", (const int[]){C_WEIGHT, C_BIAS, C_UNUSED}, 3},
    {"d", (const int[]){D_WEIGHT, D_BIAS}, 2},
    {"e", (const int[]){E_WEIGHT, E_BIAS, A_TIED}, 3},
};
enum { LAYER_COUNT = sizeof awkward_layers / sizeof *awkward_layers };

static const struct model_param few_params[] = {
    {"a.weight", {1}, 1, 1, 0, false, true, 0, .layer_count = 1},
    {"b.weight", {2}, 1, 2, 0, false, true, 1, .layer_count = 1},
};
static const struct model_layer few_layers[] = {{"a", (const int[]){0}, 1}, {"b", (const int[]){1}, 1}};

static const struct linear_shape *shape_of(const struct model *model)
{
    return model->shape;
}

// Magnitudes 2^-26 to 2^-6, any mantissa.
static float wide_value(uint64_t bits)
{
    uint32_t sign = (uint32_t)(bits >> 63) << 31, mantissa = bits & 0x7fffff;
    uint32_t exponent = 127 - 7 - (uint32_t)(random_below(bits << 8, 20));
    if ((bits >> 23 & 0xff) < 13)
        exponent = mantissa = 0;
    uint32_t pattern = sign | exponent << 23 | mantissa;
    float value;
    memcpy(&value, &pattern, sizeof value);
    return value;
}

// place_bits are the same for every rank and micro-step of a step: all choose the same grid. In 16 bits only one use of
// a tied weight is nonzero, and in bf16 only one pair of rank and micro-step in 8, so that no sum has more significant
// bits than the format.
static float exact_value(uint64_t bits, uint64_t place_bits, const struct model_batch *batch, int use, int use_count,
                         enum dtype dtype)
{
    bool half = dtype != DTYPE_FP32;
    uint64_t slot = (uint64_t)batch->rank + 11 * (uint64_t)batch->micro;
    if ((bits & 0xff) < 13 || (half && use_count > 1 && (int)(place_bits & 1) != use))
        return 0.0f;
    if (dtype == DTYPE_BF16 && slot != 0 && ((place_bits >> 8) + slot) % 8 != 0)
        return 0.0f;
    int integer = half ? 33 : 33 * (1 + (int)(bits >> 8 & 7));
    return ldexpf(bits >> 63 ? -(float)integer : (float)integer, -11 - (int)(place_bits >> 1 & 3));
}

static float overflow_value(float value, const struct model_batch *batch)
{
    if (batch->micro != 0 || batch->step % 3 != 0 || batch->rank != (batch->step % 6 == 0))
        return value;
    return batch->rank == 0 ? INFINITY : NAN;
}

static float rounded(enum dtype dtype, float value)
{
    if (dtype == DTYPE_BF16)
        return bf16_to_f32(f32_to_bf16(value));
    return dtype == DTYPE_FP16 ? fp16_to_f32(f32_to_fp16(value)) : value;
}

void linear_draw(const struct model *model, const struct model_batch *batch, int layer, int param, enum dtype dtype,
                 size_t first, size_t count, float *out)
{
    assert(param >= 0 && param < model->param_count);
    const struct model_param *p = &model->params[param];
    assert(first <= p->count && count <= p->count - first);
    int use = layer == p->first_layer ? 0 : 1;
    uint64_t place_key = random_key(random_key(batch->seed, batch->step), (uint64_t)param);
    uint64_t key = random_key(random_key(place_key, (uint64_t)batch->micro), (uint64_t)batch->rank);
    key = random_key(key, (uint64_t)use);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_at(key, first + i);
        float value = 0.0f;
        if (p->used && shape_of(model)->family == LINEAR_EXACT)
            value = exact_value(bits, random_at(place_key, first + i), batch, use, p->layer_count, dtype);
        else if (p->used)
            value = wide_value(bits);
        if (shape_of(model)->family == LINEAR_OVERFLOW && param == shape_of(model)->overflow_param &&
            first + i == p->count - 1)
            value = overflow_value(value, batch);
        out[i] = rounded(dtype, value);
    }
}

// A run's memory: a chunk in fp32 on the tier of the parameters and gradients. The host draws the values and sums the
// loss, so that its sum has one order on every tier.
static size_t linear_run_bytes(const struct model *model, size_t sequence_count, enum dtype dtype, bool checkpointing)
{
    (void)model, (void)sequence_count, (void)dtype, (void)checkpointing;
    return CHUNK * sizeof(float);
}

// No values pass from layer to layer.
static size_t linear_checkpoint_bytes(const struct model *model, int layer, size_t sequence_count)
{
    (void)model, (void)layer, (void)sequence_count;
    return 0;
}

static int linear_forward(struct model_run *run, int layer, const struct model_batch *batch, const void *const params[],
                          void *checkpoint)
{
    (void)checkpoint;
    const struct model *model = run->model;
    float g[CHUNK], p[CHUNK];
    if (layer == 0)
        run->loss = 0.0;
    for (int i = 0; i < model->layers[layer].param_count; i++) {
        int param = model->layers[layer].params[i];
        const char *data = params[param];
        size_t count = model->params[param].count, piece;
        for (size_t first = 0; first < count; first += piece) {
            piece = count - first < CHUNK ? count - first : CHUNK;
            linear_draw(model, batch, layer, param, run->dtype, first, piece, g);
            dtype_widen(run->dtype, data + first * dtype_bytes(run->dtype), run->memory, piece);
            TRY(bytes_copy(p, run->memory, piece * sizeof *p));
            for (size_t j = 0; j < piece; j++)
                run->loss += isfinite(g[j]) ? (double)p[j] * (double)g[j] : 0.0;
        }
    }
    return ERR_NONE;
}

static int linear_backward(struct model_run *run, int layer, const struct model_batch *batch,
                           const void *const params[], const struct model_gradient gradients[], float loss_scale,
                           const void *checkpoint)
{
    const struct model *model = run->model;
    float g[CHUNK];
    (void)params, (void)checkpoint;
    for (int i = 0; i < model->layers[layer].param_count; i++) {
        int param = model->layers[layer].params[i];
        char *data = gradients[param].data;
        size_t count = model->params[param].count, piece;
        for (size_t first = 0; data && first < count; first += piece) {
            piece = count - first < CHUNK ? count - first : CHUNK;
            linear_draw(model, batch, layer, param, run->dtype, first, piece, g);
            for (size_t j = 0; j < piece; j++)
                g[j] *= loss_scale;
            TRY(bytes_copy(run->memory, g, piece * sizeof *g));
            void *out = data + first * dtype_bytes(run->dtype);
            if (gradients[param].accumulate)
                dtype_accumulate(run->dtype, out, DTYPE_FP32, run->memory, piece);
            else
                dtype_narrow(run->dtype, run->memory, out, piece);
        }
    }
    return ERR_NONE;
}

// A product and a sum for each element.
static double linear_layer_flops(const struct model *model, int layer, size_t sequence_count)
{
    (void)sequence_count;
    double flops = 0;
    for (int i = 0; i < model->layers[layer].param_count; i++)
        flops += 2.0 * (double)model->params[model->layers[layer].params[i]].count;
    return flops;
}

// Normal values over 8 octaves; the gradients do not depend on them.
static int linear_initialise(const struct model *model, int param, uint64_t seed, float *out)
{
    uint64_t key = random_key(seed, (uint64_t)param);
    for (size_t i = 0; i < model->params[param].count; i++) {
        uint64_t bits = random_at(key, i);
        out[i] = ldexpf(random_normal(bits), -(int)(random_mix(bits) & 7));
    }
    return ERR_NONE;
}

static const struct model_operations linear_operations = {
    .initialise = linear_initialise,
    .layer_flops = linear_layer_flops,
    .run_bytes = linear_run_bytes,
    .checkpoint_bytes = linear_checkpoint_bytes,
    .forward = linear_forward,
    .backward = linear_backward,
};

static const struct linear_shape wide = {LINEAR_WIDE, -1}, exact = {LINEAR_EXACT, -1};
static const struct linear_shape overflow = {LINEAR_OVERFLOW, E_WEIGHT};

#define AWKWARD(model_name, model_family)                                                                              \
    {                                                                                                                  \
        .name = model_name, .params = awkward_params, .param_count = PARAM_COUNT, .layers = awkward_layers,            \
        .layer_count = LAYER_COUNT, .group_count = 2, .sequence_length = 1, .operations = &linear_operations,          \
        .shape = &model_family                                                                                         \
    }

static const struct model models[] = {
    AWKWARD("linear", wide),
    AWKWARD("linear-exact", exact),
    AWKWARD("linear-overflow", overflow),
    {.name = "linear-few",
     .params = few_params,
     .param_count = 2,
     .layers = few_layers,
     .layer_count = 2,
     .group_count = 1,
     .sequence_length = 1,
     .operations = &linear_operations,
     .shape = &wide},
};

const struct model *linear_model(int index)
{
    return index >= 0 && index < (int)(sizeof models / sizeof *models) ? &models[index] : NULL;
}
