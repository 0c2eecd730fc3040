// SPDX-License-Identifier: Apache-2.0
#include "ref/oracle/oracle.h"

#include "ref/arithmetic/accelerator.h"
#include "ref/optimizer/clip.h"
#include "base/err.h"
#include "ref/arithmetic/norm.h"
#include "ref/recipe/recipe.h"
#include "ref/optimizer/scaler.h"
#include "ref/optimizer/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tensor {
    size_t count;
    bool trainable;
    int high_layer;  // backward makes its gradient first there
    float *state[STATE_COUNT];
    void *model_params;                         // the parameter in the model's dtype
    void *gradient;                             // gradient of one micro-batch, in the model's dtype
    void *model_params_there, *gradient_there;  // both where the model runs: the same, or on the accelerator
    float *partial;                             // a rank's sum over micro-steps, or a micro-step's sum over ranks
    float *sum;                                 // over both
    float *group;                               // of the ranks of a group, where sums are hierarchical
};

struct oracle {
    struct oracle_setting setting;
    struct tensor *tensors;
    const void **params;
    struct model_gradient *gradients;
    struct model_run *run;
    struct tier *tier;  // of the accelerator; null: there is none
    const struct recipe *recipe;
    struct recipe_state *states;
    struct scaler scaler;
    uint64_t t;
};

// x rounded to dtype, as fp32.
static float rounded(enum dtype dtype, float x)
{
    switch (dtype) {
    case DTYPE_BF16:
        return bf16_to_f32(f32_to_bf16(x));
    case DTYPE_FP16:
        return fp16_to_f32(f32_to_fp16(x));
    default:
        return x;
    }
}

static float element(enum dtype dtype, const void *array, size_t i)
{
    switch (dtype) {
    case DTYPE_BF16:
        return bf16_to_f32(((const struct bf16 *)array)[i]);
    case DTYPE_FP16:
        return fp16_to_f32(((const struct fp16 *)array)[i]);
    default:
        return ((const float *)array)[i];
    }
}

static void set_element(enum dtype dtype, void *array, size_t i, float x)
{
    if (dtype == DTYPE_BF16)
        ((struct bf16 *)array)[i] = f32_to_bf16(x);
    else if (dtype == DTYPE_FP16)
        ((struct fp16 *)array)[i] = f32_to_fp16(x);
    else
        ((float *)array)[i] = x;
}

static int open_there(struct oracle *o, struct tensor *tensor, size_t bytes)
{
    TRY(tier_allocate(o->tier, TIER_DEVICE, KIND_PARAMETER, "unsharded parameters", bytes, 0,
                      &tensor->model_params_there));
    if (!tensor->trainable)
        return ERR_NONE;
    return tier_allocate(o->tier, TIER_DEVICE, KIND_GRADIENT, "unsharded gradient", bytes, 0, &tensor->gradient_there);
}

static int open_tensor(struct oracle *o, int param)
{
    const struct oracle_setting *setting = &o->setting;
    const struct model_param *p = &setting->model->params[param];
    enum dtype precision = setting->config->precision;
    struct tensor *tensor = &o->tensors[param];
    tensor->count = p->count;
    tensor->trainable = !p->frozen;
    for (int layer = 0; layer < setting->model->layer_count; layer++)
        for (int i = 0; i < setting->model->layers[layer].param_count; i++)
            if (setting->model->layers[layer].params[i] == param)
                tensor->high_layer = layer;
    size_t n = p->count + 1;
    float **floats[] = {&tensor->state[0], &tensor->state[1], &tensor->state[2],
                        &tensor->partial,  &tensor->sum,      &tensor->group};
    for (size_t i = 0; i < (p->frozen ? 1 : setting->config->reduction_group > 0 ? 6 : 5); i++)
        if (!(*floats[i] = calloc(n, sizeof(float))))
            return err_set(ERR_MEMORY, "no memory for the unsharded state of %s", p->name);
    tensor->model_params = calloc(n, dtype_bytes(precision));
    tensor->gradient = p->frozen ? NULL : calloc(n, dtype_bytes(precision));
    if (!tensor->model_params || (!tensor->gradient && !p->frozen))
        return err_set(ERR_MEMORY, "no memory for the unsharded parameters of %s", p->name);
    model_initialise(setting->model, param, setting->seed, tensor->state[STATE_PARAMETER]);
    for (size_t i = 0; i < p->count; i++) {
        set_element(precision, tensor->model_params, i, tensor->state[STATE_PARAMETER][i]);
        tensor->state[STATE_PARAMETER][i] = element(precision, tensor->model_params, i);
    }
    tensor->model_params_there = tensor->model_params;
    tensor->gradient_there = tensor->gradient;
    if (o->tier)
        TRY(open_there(o, tensor, (p->count + 1) * dtype_bytes(precision)));
    o->params[param] = tensor->model_params_there;
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
    const struct tier_setting apart = {.accelerator = setting->accelerator, .device = setting->device};
    if (setting->accelerator)
        TRY(tier_open(NULL, &apart, &o->tier));
    for (int i = 0; i < setting->model->param_count; i++)
        TRY(open_tensor(o, i));
    o->recipe = recipe_find(setting->config->recipe);
    if (!o->recipe)
        return err_set(ERR_USAGE, "no recipe is called \"%s\"", setting->config->recipe);
    scaler_open(&o->scaler, &setting->config->loss_scale);
    return model_run_open(setting->model, setting->config->micro_batch, setting->config->precision, false, o->tier,
                          &o->run);
}

void oracle_close(struct oracle *o)
{
    if (!o)
        return;
    for (int i = 0; o->tensors && i < o->setting.model->param_count; i++) {
        struct tensor *tensor = &o->tensors[i];
        for (int state = 0; state < STATE_COUNT; state++)
            free(tensor->state[state]);
        free(tensor->model_params);
        free(tensor->gradient);
        free(tensor->partial);
        free(tensor->sum);
        free(tensor->group);
    }
    model_run_close(o->run);
    tier_close(o->tier);
    free(o->tensors);
    free(o->params);
    free(o->gradients);
    free(o->states);
    free(o);
}

// Between here and where the model runs.
static int bring_model_params(struct oracle *o)
{
    size_t element_bytes = dtype_bytes(o->setting.config->precision);
    for (int i = 0; o->tier && i < o->setting.model->param_count; i++)
        TRY(bytes_copy(o->tensors[i].model_params_there, o->tensors[i].model_params,
                       o->tensors[i].count * element_bytes));
    return ERR_NONE;
}

static int fetch_gradients(struct oracle *o)
{
    size_t element_bytes = dtype_bytes(o->setting.config->precision);
    for (int i = 0; o->tier && i < o->setting.model->param_count; i++)
        if (o->tensors[i].trainable)
            TRY(bytes_copy(o->tensors[i].gradient, o->tensors[i].gradient_there, o->tensors[i].count * element_bytes));
    return ERR_NONE;
}

// Forward and backward of one micro-batch: its gradients are in tensor->gradient.
static int make_gradients(struct oracle *o, uint64_t step, int micro, int rank, double *loss)
{
    const struct model *model = o->setting.model;
    struct model_batch batch;
    TRY(o->setting.batch(o->setting.batch_context, step, micro, rank, &batch));
    TRY(bring_model_params(o));
    for (int layer = 0; layer < model->layer_count; layer++)
        TRY(model_forward(o->run, layer, &batch, o->params, NULL));
    *loss = model_loss(o->run);
    for (int layer = model->layer_count - 1; layer >= 0; layer--) {
        for (int i = 0; i < model->layers[layer].param_count; i++) {
            int param = model->layers[layer].params[i];
            o->gradients[param].data = o->tensors[param].gradient_there;
            o->gradients[param].accumulate = layer != o->tensors[param].high_layer;
        }
        TRY(model_backward(o->run, layer, &batch, o->params, o->gradients, (float)scaler_scale(&o->scaler), NULL));
    }
    TRY(fetch_gradients(o));
    return accelerator_wait();
}

// into = first ? x : round(into + x), element by element, x being the rounded value of from.
static void add(float *into, enum dtype into_dtype, const void *from, enum dtype from_dtype, enum dtype term_dtype,
                size_t count, bool first)
{
    for (size_t i = 0; i < count; i++) {
        float x = rounded(term_dtype, element(from_dtype, from, i));
        into[i] = rounded(into_dtype, first ? x : into[i] + x);
    }
}

// One rank's term of a sum over ranks, in fp32: all in a row, or, in hierarchical order, those of a group first.
static void add_rank(const struct config *config, struct tensor *a, float *into, const void *from,
                     enum dtype from_dtype, int rank)
{
    int group = (int)config->reduction_group;
    bool whole = group == 0;
    add(whole ? into : a->group, DTYPE_FP32, from, from_dtype, config->communication_dtype, a->count,
        whole ? rank == 0 : rank % group == 0);
    if (!whole && (rank + 1) % group == 0)
        add(into, DTYPE_FP32, a->group, DTYPE_FP32, DTYPE_FP32, a->count, rank + 1 == group);
}

static int accumulate_then_reduce(struct oracle *o, uint64_t step, double losses[])
{
    const struct config *config = o->setting.config;
    enum dtype communication = config->communication_dtype, accumulation = config->accumulation_dtype;
    for (int rank = 0; rank < o->setting.world; rank++) {
        for (int micro = 0; micro < (int)config->accumulation; micro++) {
            double loss;
            TRY(make_gradients(o, step, micro, rank, &loss));
            losses[rank] += loss;
            for (int i = 0; i < o->setting.model->param_count; i++) {
                struct tensor *a = &o->tensors[i];
                if (a->trainable)
                    add(a->partial, accumulation, a->gradient, config->precision, config->precision, a->count,
                        micro == 0);
            }
        }
        for (int i = 0; i < o->setting.model->param_count; i++) {
            struct tensor *a = &o->tensors[i];
            if (a->trainable)
                add_rank(config, a, a->sum, a->partial, DTYPE_FP32, rank);
        }
    }
    for (int i = 0; i < o->setting.model->param_count; i++)
        for (size_t k = 0; o->tensors[i].trainable && k < o->tensors[i].count; k++)
            o->tensors[i].sum[k] = rounded(accumulation, rounded(communication, o->tensors[i].sum[k]));
    return ERR_NONE;
}

static int reduce_then_accumulate(struct oracle *o, uint64_t step, double losses[])
{
    const struct config *config = o->setting.config;
    enum dtype communication = config->communication_dtype, accumulation = config->accumulation_dtype;
    for (int micro = 0; micro < (int)config->accumulation; micro++) {
        for (int rank = 0; rank < o->setting.world; rank++) {
            double loss;
            TRY(make_gradients(o, step, micro, rank, &loss));
            losses[rank] += loss;
            for (int i = 0; i < o->setting.model->param_count; i++) {
                struct tensor *a = &o->tensors[i];
                if (a->trainable)
                    add_rank(config, a, a->partial, a->gradient, config->precision, rank);
            }
        }
        for (int i = 0; i < o->setting.model->param_count; i++) {
            struct tensor *a = &o->tensors[i];
            if (a->trainable)
                add(a->sum, accumulation, a->partial, DTYPE_FP32, communication, a->count, micro == 0);
        }
    }
    return ERR_NONE;
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
    uint32_t max_bits;
    memcpy(&max_bits, &max, sizeof max_bits);
    return norm_finish((struct norm_sum){(uint64_t)sum, (uint64_t)(sum >> 64)}, max_bits);
}

static void update(struct oracle *o, uint64_t step, float divisor, float coefficient)
{
    const struct model *model = o->setting.model;
    const struct config *config = o->setting.config;
    struct adam_scalars scalars[model->group_count];
    for (int group = 0; group < model->group_count; group++) {
        struct adam_hyper hyper = optimizer_group(config, group, step, o->t);
        recipe_begin_step(o->recipe, &hyper, o->t, &o->states[group], &scalars[group]);
    }
    for (int i = 0; i < model->param_count; i++) {
        struct tensor *a = &o->tensors[i];
        for (size_t k = 0; a->trainable && k < a->count; k++) {
            float g = a->sum[k] / divisor;
            if (coefficient != 1.0f)
                g = g * coefficient;
            recipe_element(o->recipe, &scalars[model->params[i].group], k >= recipe_tail_start(o->recipe, a->count), g,
                           &a->state[STATE_PARAMETER][k], &a->state[STATE_EXP_AVG][k], &a->state[STATE_EXP_AVG_SQ][k]);
        }
    }
}

// The parameters that the next forward sees are the rounded master parameters of this moment.
static void publish(struct oracle *o)
{
    for (int i = 0; i < o->setting.model->param_count; i++)
        for (size_t k = 0; o->tensors[i].trainable && k < o->tensors[i].count; k++)
            set_element(o->setting.config->precision, o->tensors[i].model_params, k,
                        o->tensors[i].state[STATE_PARAMETER][k]);
}

int oracle_step(struct oracle *o, uint64_t step, bool *applied, double *loss)
{
    const struct config *config = o->setting.config;
    int world = o->setting.world;
    double losses[world], total = 0.0, scale = scaler_scale(&o->scaler);
    memset(losses, 0, sizeof losses);
    TRY(o->setting.reduces_each_micro_step ? reduce_then_accumulate(o, step, losses)
                                           : accumulate_then_reduce(o, step, losses));
    for (int rank = 0; rank < world; rank++)
        total += losses[rank];
    *loss = total / ((double)world * (double)config->accumulation);
    float max = largest(o);
    bool overflow = config->check_overflow && !isfinite(max);
    bool delays = config->delayed_update_start_step > 0 && step >= config->delayed_update_start_step;
    *applied = !overflow;
    TRY(scaler_update(&o->scaler, overflow));
    if (delays)
        publish(o);  // what the step before has updated, before this step updates it again
    if (overflow)
        return ERR_NONE;
    float divisor = optimizer_divisor(config, world, scale);
    double mean_norm = norm(o, max) / (double)divisor;
    float coefficient = clip_coefficient(config->clip_form, mean_norm, config->gradient_clipping);
    o->t++;
    update(o, step, divisor, coefficient);
    if (!delays)
        publish(o);
    return ERR_NONE;
}

const float *oracle_state(const struct oracle *o, enum state state, int param)
{
    return o->tensors[param].state[state];
}

const void *oracle_model_params(const struct oracle *o, int param)
{
    return o->tensors[param].model_params;
}
