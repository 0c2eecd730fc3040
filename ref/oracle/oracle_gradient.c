// SPDX-License-Identifier: Apache-2.0
// The two definitions of a gradient summed over ranks and micro-steps.
#include "ref/oracle/oracle_internal.h"

#include "base/err.h"

// x rounded to dtype, as fp32.
static inline float rounded(enum dtype dtype, float x)
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

// Forward and backward of one micro-batch leave its gradients in tensor->gradient.
static int make_gradients(struct oracle *o, uint64_t step, int micro, int rank, double *loss)
{
    const struct model *model = o->setting.model;
    struct model_batch batch;
    TRY(o->setting.batch(o->setting.batch_context, step, micro, rank, &batch));
    for (int i = 0; i < model->param_count; i++)
        TRY(oracle_array_push(&o->tensors[i].model_params));
    for (int layer = 0; layer < model->layer_count; layer++)
        TRY(model_forward(o->run, layer, &batch, o->params, NULL));
    *loss = model_loss(o->run);
    for (int layer = model->layer_count - 1; layer >= 0; layer--) {
        for (int i = 0; i < model->layers[layer].param_count; i++) {
            int param = model->layers[layer].params[i];
            o->gradients[param].data = o->tensors[param].gradient.there;
            o->gradients[param].accumulate = layer != o->tensors[param].high_layer;
        }
        TRY(model_backward(o->run, layer, &batch, o->params, o->gradients, (float)o->loss_scale.scale, NULL));
    }
    for (int i = 0; i < model->param_count; i++)
        TRY(oracle_array_pull(&o->tensors[i].gradient));
    return ERR_NONE;
}

// into = first ? x : round(into + x), element by element, x being the rounded value of from.
static void add(float *into, enum dtype into_dtype, const void *from, enum dtype from_dtype, enum dtype term_dtype,
                size_t count, bool first)
{
    for (size_t i = 0; i < count; i++) {
        float x = rounded(term_dtype, oracle_element(from_dtype, from, i));
        into[i] = rounded(into_dtype, first ? x : into[i] + x);
    }
}

// One rank's term of a sum over ranks, in fp32: all in a row, or, in hierarchical order, those of a group first.
static void add_rank(const struct config *config, struct oracle_tensor *a, float *into, const void *from,
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
                struct oracle_tensor *a = &o->tensors[i];
                if (a->trainable)
                    add(a->partial, accumulation, a->gradient.here, config->precision, config->precision, a->count,
                        micro == 0);
            }
        }
        for (int i = 0; i < o->setting.model->param_count; i++) {
            struct oracle_tensor *a = &o->tensors[i];
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
                struct oracle_tensor *a = &o->tensors[i];
                if (a->trainable)
                    add_rank(config, a, a->partial, a->gradient.here, config->precision, rank);
            }
        }
        for (int i = 0; i < o->setting.model->param_count; i++) {
            struct oracle_tensor *a = &o->tensors[i];
            if (a->trainable)
                add(a->sum, accumulation, a->partial, DTYPE_FP32, communication, a->count, micro == 0);
        }
    }
    return ERR_NONE;
}

int oracle_sum_gradients(struct oracle *o, uint64_t step, double losses[])
{
    return o->setting.reduces_each_micro_step ? reduce_then_accumulate(o, step, losses)
                                              : accumulate_then_reduce(o, step, losses);
}
