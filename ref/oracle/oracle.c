// SPDX-License-Identifier: Apache-2.0
#include "ref/oracle/oracle_internal.h"

#include "base/err.h"
#include "ref/oracle/oracle_delay.h"
#include "ref/oracle/oracle_mesh.h"
#include "ref/oracle/oracle_muon.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int open_floats(struct oracle_tensor *tensor, const struct config *config, const char *name)
{
    float **const floats[] = {&tensor->parameter, &tensor->exp_avg, &tensor->exp_avg_sq, &tensor->partial,
                              &tensor->sum,       &tensor->group,   &tensor->sources};
    bool hierarchical = config->reduction_group > 0 || config->mesh.replicate > 1;
    bool sources = config->mesh.expert > 1 || config->quantized_gradients;
    size_t count = !tensor->trainable ? 1 : sources ? 7 : hierarchical ? 6 : 5;
    for (size_t i = 0; i < count; i++)
        if (!(*floats[i] = calloc(tensor->count + 1, sizeof(float))))
            return err_set(ERR_MEMORY, "no memory for the unsharded state of %s", name);
    return ERR_NONE;
}

static int open_tensor(struct oracle *o, int param)
{
    const struct oracle_setting *setting = &o->setting;
    const struct model_param *p = &setting->model->params[param];
    enum dtype precision = setting->config->precision;
    size_t model_bytes = p->count * dtype_bytes(precision);
    struct oracle_tensor *tensor = &o->tensors[param];
    tensor->count = p->count;
    tensor->trainable = !p->frozen;
    tensor->expert = p->expert;
    for (int layer = 0; layer < setting->model->layer_count; layer++)
        for (int i = 0; i < setting->model->layers[layer].param_count; i++)
            if (setting->model->layers[layer].params[i] == param)
                tensor->high_layer = layer;
    TRY(open_floats(tensor, setting->config, p->name));
    TRY(oracle_array_open(o->tier, model_bytes, p->name, &tensor->model_params));
    if (tensor->trainable)
        TRY(oracle_array_open(o->tier, model_bytes, p->name, &tensor->gradient));
    // The master begins as the rounded parameter, widened: both hold one value.
    TRY(model_initialise(setting->model, param, setting->seed, tensor->parameter));
    for (size_t i = 0; i < p->count; i++) {
        oracle_set_element(precision, tensor->model_params.here, i, tensor->parameter[i]);
        tensor->parameter[i] = oracle_element(precision, tensor->model_params.here, i);
    }
    tensor->quantized = oracle_quantizes(setting, param);
    if (tensor->quantized)
        TRY(oracle_array_open(o->tier, model_bytes, p->name, &tensor->seen));
    o->params[param] = tensor->quantized ? tensor->seen.there : tensor->model_params.there;
    return ERR_NONE;
}

int oracle_open(const struct oracle_setting *setting, struct oracle **out)
{
    size_t n = (size_t)setting->model->param_count + 1;
    struct oracle *o = *out = calloc(1, sizeof *o);
    if (!o)
        return err_set(ERR_MEMORY, "no memory for the unsharded run");
    o->setting = *setting;
    o->tensors = calloc(n, sizeof *o->tensors);
    o->params = calloc(n, sizeof *o->params);
    o->gradients = calloc(n, sizeof *o->gradients);
    o->states = calloc((size_t)setting->model->group_count, sizeof *o->states);
    if (!o->tensors || !o->params || !o->gradients || !o->states)
        return err_set(ERR_MEMORY, "no memory for the unsharded run");
    TRY(oracle_device_open(setting->accelerator, setting->device, &o->tier));
    for (int i = 0; i < setting->model->param_count; i++)
        TRY(open_tensor(o, i));
    o->recipe = recipe_find(setting->config->recipe);
    if (!o->recipe)
        return err_set(ERR_USAGE, "unknown recipe \"%s\"", setting->config->recipe);
    oracle_loss_scale_open(setting->config, &o->loss_scale);
    return model_run_open(setting->model, setting->config->micro_batch, setting->config->precision, false, o->tier,
                          &o->run);
}

void oracle_close(struct oracle *o)
{
    if (!o)
        return;
    for (int i = 0; o->tensors && i < o->setting.model->param_count; i++) {
        struct oracle_tensor *tensor = &o->tensors[i];
        free(tensor->parameter);
        free(tensor->exp_avg);
        free(tensor->exp_avg_sq);
        oracle_array_close(&tensor->model_params);
        oracle_array_close(&tensor->gradient);
        oracle_array_close(&tensor->seen);
        free(tensor->partial);
        free(tensor->sum);
        free(tensor->group);
        free(tensor->sources);
    }
    model_run_close(o->run);
    tier_close(o->tier);
    free(o->tensors);
    free(o->params);
    free(o->gradients);
    free(o->states);
    free(o);
}

// The largest magnitude of all summed gradients; NaN if there is one.
static float largest(const struct oracle *o)
{
    float max = 0.0f;
    for (int i = 0; i < o->setting.model->param_count; i++)
        for (size_t k = 0; o->tensors[i].trainable && k < o->tensors[i].count; k++) {
            float x = fabsf(o->tensors[i].sum[k]);
            if (isnan(x))
                return x;
            if (x > max)
                max = x;
        }
    return max;
}

// The norm as norm.h defines it: with 2^(k-1) <= max^2 < 2^k, squares as whole multiples of 2^(k-52).
static double norm(const struct oracle *o, float max)
{
    if (max == 0.0f || !isfinite(max))
        return (double)max;
    int k;
    frexp((double)max * (double)max, &k);
    unsigned __int128 sum = 0;
    for (int i = 0; i < o->setting.model->param_count; i++)
        for (size_t j = 0; o->tensors[i].trainable && j < o->tensors[i].count; j++) {
            double x = (double)o->tensors[i].sum[j];
            sum += (unsigned __int128)llrint(ldexp(x * x, 52 - k));
        }
    return sqrt(ldexp((double)sum, k - 52));
}

// Muon's update, of a tensor whose sum becomes the mean, clipped.
static int update_whole(struct oracle *o, int param, uint64_t step, float divisor, float coefficient)
{
    const struct model_param *p = &o->setting.model->params[param];
    struct oracle_tensor *a = &o->tensors[param];
    const struct muon_hyper hyper = oracle_muon_hyper(o->setting.config, p->group, step, o->t);
    for (size_t k = 0; k < a->count; k++) {
        a->sum[k] = a->sum[k] / divisor;
        if (coefficient != 1.0f)
            a->sum[k] = a->sum[k] * coefficient;
    }
    return oracle_muon(&hyper, p->shape[0], p->shape[1], a->sum, a->parameter, a->exp_avg);
}

static int update(struct oracle *o, uint64_t step, float divisor, float coefficient)
{
    const struct model *model = o->setting.model;
    const struct config *config = o->setting.config;
    struct adam_scalars scalars[model->group_count];
    for (int group = 0; group < model->group_count; group++) {
        struct adam_hyper hyper = oracle_hyper(config, group, step, o->t);
        recipe_begin_step(o->recipe, &hyper, o->t, &o->states[group], &scalars[group]);
    }
    for (int i = 0; i < model->param_count; i++) {
        struct oracle_tensor *a = &o->tensors[i];
        if (model->params[i].whole)
            TRY(update_whole(o, i, step, divisor, coefficient));
        for (size_t k = 0; a->trainable && !model->params[i].whole && k < a->count; k++) {
            float g = a->sum[k] / divisor;
            if (coefficient != 1.0f)
                g = g * coefficient;
            recipe_element(o->recipe, &scalars[model->params[i].group], k >= recipe_tail_start(o->recipe, a->count), g,
                           &a->parameter[k], &a->exp_avg[k], &a->exp_avg_sq[k]);
            a->parameter[k] = dtype_kept(config->master_dtype, a->parameter[k]);
            a->exp_avg[k] = dtype_kept(config->moment_dtype, a->exp_avg[k]);
            a->exp_avg_sq[k] = dtype_kept(config->moment_dtype, a->exp_avg_sq[k]);
        }
    }
    return ERR_NONE;
}

// The parameters that the next forward sees are the rounded master parameters of this moment.
static void publish(struct oracle *o)
{
    for (int i = 0; i < o->setting.model->param_count; i++)
        for (size_t k = 0; o->tensors[i].trainable && k < o->tensors[i].count; k++)
            oracle_set_element(o->setting.config->precision, o->tensors[i].model_params.here, k,
                               o->tensors[i].parameter[k]);
}

int oracle_step(struct oracle *o, uint64_t step, struct oracle_decision *out)
{
    const struct config *config = o->setting.config;
    int world = o->setting.world;
    assert(step > o->t);
    double losses[world], total = 0.0, scale = o->loss_scale.scale;
    memset(losses, 0, sizeof losses);
    oracle_quantize_parameters(o);
    TRY(oracle_sum_gradients(o, step, losses));
    for (int rank = 0; rank < world; rank++)
        total += losses[rank];
    *out = (struct oracle_decision){.loss = total / ((double)world * (double)config->accumulation)};
    float max = largest(o);
    bool overflow = config->check_overflow && !isfinite(max);
    bool delays = oracle_delays(config, step);
    out->applied = !overflow;
    TRY(oracle_loss_scale_update(config, overflow, &o->loss_scale));
    out->scale = o->loss_scale.scale;
    if (delays)
        publish(o);  // the step before's update, before this step changes the parameters again
    if (overflow)
        return ERR_NONE;
    float divisor = oracle_divisor(config, world, scale);
    out->norm = norm(o, max) / (double)divisor;
    out->coefficient = oracle_clip(config, out->norm);
    o->t++;
    TRY(update(o, step, divisor, out->coefficient));
    if (!delays)
        publish(o);
    return ERR_NONE;
}

struct oracle_states oracle_states(const struct oracle *o, int param)
{
    const struct oracle_tensor *tensor = &o->tensors[param];
    assert(param >= 0 && param < o->setting.model->param_count);
    return (struct oracle_states){tensor->parameter, tensor->exp_avg, tensor->exp_avg_sq, tensor->model_params.here};
}
