// SPDX-License-Identifier: Apache-2.0
// ZeRO++'s quantization as a function of values: what an element becomes on its way to other ranks. Nothing is packed,
// and no arithmetic is shared with ref/recipe/quantize.c. Q(x) is x after the way.
//
// With ZeRO++'s quantized weights (qwZ) forward and backward compute with Q(P) of every parameter that is not
// persistent. With its quantized gradients (qgZ) a sum over ranks, r being in node n = r / S of R nodes, is
//   G_n = ((Q(g_nS) + Q(g_nS+1)) + ...) over the node's ranks; then G = ((Q(G_0) + Q(G_1)) + ...) over nodes
// in fp32, rounded to the communication dtype once. A sum over one rank or one node has no Q, so that S = 1 is R = 1.
#include "ref/oracle/oracle_internal.h"

#include <math.h>

// x[count] becomes what one block of it is after the way: with s = max |x| / c, the whole number nearest to x / s, at
// most c, times s; and NaN where the block is not finite.
static void round_block(float x[], size_t count, float c)
{
    float largest = 0.0f;
    for (size_t i = 0; i < count; i++)
        largest = isnan(x[i]) || isinf(x[i]) ? INFINITY : fmaxf(largest, fabsf(x[i]));
    // 0 x NaN is NaN.
    float s = isinf(largest) ? NAN : largest / c;
    for (size_t i = 0; i < count; i++) {
        int whole = s > 0.0f ? (int)fmaxf(-c, fminf(c, nearbyintf(x[i] / s))) : 0;
        x[i] = (float)whole * s;
    }
}

bool oracle_quantizes(const struct oracle_setting *setting, int param)
{
    const struct config *config = setting->config;
    const struct model_param *params = setting->model->params;
    size_t persistent = 0;  // elements of the persistent parameters before this one
    for (int i = 0; i <= param; i++) {
        bool stays = config->param_persistence_threshold > 0 && params[i].layer_count == 1 &&
                     params[i].count <= config->param_persistence_threshold &&
                     persistent + params[i].count <= config->model_persistence_threshold;
        persistent += stays ? params[i].count : 0;
        if (i == param)
            return config->quantized_weights && !stays;
    }
    return false;
}

// In E4M3 (ref/recipe/e4m3.h): with s = 448 / max |x| of the whole parameter, x s to the nearest multiple of 2^-3 of
// its power of two, of 2^-9 at least, and back.
static void round_e4m3(struct oracle_tensor *a, enum dtype precision)
{
    float largest = 1e-12f;
    for (size_t i = 0; i < a->count; i++) {
        float x = oracle_element(precision, a->model_params.here, i);
        largest = isnan(x) || isinf(x) ? INFINITY : fmaxf(largest, fabsf(x));
    }
    float s = isinf(largest) ? NAN : 448.0f / largest;
    for (size_t i = 0; i < a->count; i++) {
        int exponent;
        float y = oracle_element(precision, a->model_params.here, i) * s;
        frexpf(y, &exponent);
        float unit = ldexpf(1.0f, exponent < -5 ? -9 : exponent - 4);
        float near = fmaxf(-448.0f, fminf(448.0f, nearbyintf(y / unit) * unit));
        oracle_set_element(precision, a->seen.here, i, isnan(y) ? NAN : near / s);
    }
}

void oracle_quantize_parameters(struct oracle *o)
{
    enum dtype precision = o->setting.config->precision;
    size_t block = o->setting.config->quantization_block;
    for (int i = 0; i < o->setting.model->param_count; i++) {
        struct oracle_tensor *a = &o->tensors[i];
        if (a->quantized && o->setting.config->e4m3_weights) {
            round_e4m3(a, precision);
            continue;
        }
        for (size_t from = 0; a->quantized && from < a->count; from += block) {
            float x[block];
            size_t count = a->count - from < block ? a->count - from : block;
            for (size_t k = 0; k < count; k++)
                x[k] = oracle_element(precision, a->model_params.here, from + k);
            round_block(x, count, 127.0f);
            for (size_t k = 0; k < count; k++)
                oracle_set_element(precision, a->seen.here, from + k, x[k]);
        }
    }
}

void oracle_quantize_gradient(const struct oracle *o, float x[], size_t count)
{
    size_t block = o->setting.config->quantization_block;
    for (size_t from = 0; from < count; from += block)
        round_block(x + from, count - from < block ? count - from : block, 7.0f);
}
