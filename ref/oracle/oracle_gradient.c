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

// Ranks of a group in a hierarchical sum, or of a shard group beside replicas; 0: neither.
static int group_size(const struct oracle *o)
{
    const struct config *config = o->setting.config;
    return config->mesh.replicate > 1 ? config->mesh.shard : (int)config->reduction_group;
}

// One rank's term of a sum over ranks, in fp32: all in a row, or those of a group first. Groups that are replicas
// exchange their sums in the communication dtype.
static void add_rank(const struct oracle *o, struct oracle_tensor *a, float *into, const void *from,
                     enum dtype from_dtype, int rank)
{
    const struct config *config = o->setting.config;
    int group = group_size(o);
    bool whole = group == 0;
    add(whole ? into : a->group, DTYPE_FP32, from, from_dtype, config->communication_dtype, a->count,
        whole ? rank == 0 : rank % group == 0);
    if (!whole && (rank + 1) % group == 0)
        add(into, DTYPE_FP32, a->group, DTYPE_FP32,
            config->mesh.replicate > 1 ? config->communication_dtype : DTYPE_FP32, a->count, rank + 1 == group);
}

// A sum as it is kept: rounded to the communication dtype, in which it arrives, and then to the accumulation dtype.
static void round_sums(struct oracle *o, bool experts_alone)
{
    const struct config *config = o->setting.config;
    for (int i = 0; i < o->setting.model->param_count; i++)
        for (size_t k = 0;
             o->tensors[i].trainable && (o->tensors[i].expert || !experts_alone) && k < o->tensors[i].count; k++)
            o->tensors[i].sum[k] =
                rounded(config->accumulation_dtype, rounded(config->communication_dtype, o->tensors[i].sum[k]));
}

static int accumulate_then_reduce(struct oracle *o, uint64_t step, double losses[])
{
    const struct config *config = o->setting.config;
    enum dtype accumulation = config->accumulation_dtype;
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
                add_rank(o, a, a->sum, a->partial, DTYPE_FP32, rank);
        }
    }
    round_sums(o, false);
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
                    add_rank(o, a, a->partial, a->gradient.here, config->precision, rank);
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

// One micro-step of the shard group that begins with rank `first`: adds its sum over ranks to the group's.
static int add_micro_step(struct oracle *o, uint64_t step, int micro, int first, double losses[])
{
    const struct config *config = o->setting.config;
    enum dtype communication = config->communication_dtype;
    // One term is no sum, and is not rounded as one.
    enum dtype accumulation = config->accumulation > 1 ? config->accumulation_dtype : DTYPE_FP32;
    for (int rank = first; rank < first + config->mesh.shard; rank++) {
        double loss;
        TRY(make_gradients(o, step, micro, rank, &loss));
        losses[rank] += loss;
        for (int i = 0; i < o->setting.model->param_count; i++) {
            struct oracle_tensor *a = &o->tensors[i];
            if (a->trainable)
                add(a->partial, DTYPE_FP32, a->gradient.here, config->precision, communication, a->count,
                    rank == first);
        }
    }
    for (int i = 0; i < o->setting.model->param_count; i++) {
        struct oracle_tensor *a = &o->tensors[i];
        if (a->trainable)
            add(a->group, accumulation, a->partial, DTYPE_FP32, communication, a->count, micro == 0);
    }
    return ERR_NONE;
}

// Each shard group reduces and accumulates by itself; then the groups' sums are added.
static int reduce_then_accumulate_in_groups(struct oracle *o, uint64_t step, double losses[])
{
    const struct config *config = o->setting.config;
    for (int first = 0; first < o->setting.world; first += config->mesh.shard) {
        for (int micro = 0; micro < (int)config->accumulation; micro++)
            TRY(add_micro_step(o, step, micro, first, losses));
        for (int i = 0; i < o->setting.model->param_count; i++) {
            struct oracle_tensor *a = &o->tensors[i];
            if (a->trainable)
                add(a->sum, DTYPE_FP32, a->group, DTYPE_FP32, config->communication_dtype, a->count, first == 0);
        }
    }
    round_sums(o, false);
    return ERR_NONE;
}

static bool is_expert(const struct oracle_tensor *a)
{
    return a->trainable && a->expert;
}

// One micro-step of the expert group that begins with rank `first`: the experts' gradients are sums over its ranks.
static int fold_sources(struct oracle *o, uint64_t step, int micro, int first)
{
    const struct config *config = o->setting.config;
    for (int rank = first; rank < first + config->mesh.expert; rank++) {
        double loss;
        TRY(make_gradients(o, step, micro, rank, &loss));
        for (int i = 0; i < o->setting.model->param_count; i++) {
            struct oracle_tensor *a = &o->tensors[i];
            if (is_expert(a))
                add(a->group, DTYPE_FP32, a->gradient.here, config->precision, config->precision, a->count,
                    rank == first);
        }
    }
    for (int i = 0; i < o->setting.model->param_count; i++)
        for (size_t k = 0; is_expert(&o->tensors[i]) && k < o->tensors[i].count; k++)
            o->tensors[i].group[k] = rounded(config->precision, o->tensors[i].group[k]);
    return ERR_NONE;
}

// Adds what a group of sources has folded to a larger sum: over micro-steps, or over groups.
static void add_sources(struct oracle *o, enum dtype into, enum dtype term, bool first)
{
    for (int i = 0; i < o->setting.model->param_count; i++) {
        struct oracle_tensor *a = &o->tensors[i];
        if (is_expert(a))
            add(a->partial, into, a->group, DTYPE_FP32, term, a->count, first);
    }
}

static void add_partials(struct oracle *o, enum dtype into, bool first)
{
    for (int i = 0; i < o->setting.model->param_count; i++) {
        struct oracle_tensor *a = &o->tensors[i];
        if (is_expert(a))
            add(a->sum, into, a->partial, DTYPE_FP32, o->setting.config->communication_dtype, a->count, first);
    }
}

// The experts' sums take the place of those in the plain order.
static int sum_experts(struct oracle *o, uint64_t step)
{
    const struct config *config = o->setting.config;
    bool each = o->setting.reduces_each_micro_step;
    int groups = o->setting.world / config->mesh.expert, micro_steps = (int)config->accumulation;
    for (int outer = 0; outer < (each ? micro_steps : groups); outer++) {
        for (int inner = 0; inner < (each ? groups : micro_steps); inner++) {
            int group = each ? inner : outer, micro = each ? outer : inner;
            TRY(fold_sources(o, step, micro, group * config->mesh.expert));
            add_sources(o, each ? DTYPE_FP32 : config->accumulation_dtype,
                        each ? config->communication_dtype : DTYPE_FP32, inner == 0);
        }
        add_partials(o, each ? config->accumulation_dtype : DTYPE_FP32, outer == 0);
    }
    return ERR_NONE;
}

static int sum_dense(struct oracle *o, uint64_t step, double losses[])
{
    const struct mesh *mesh = &o->setting.config->mesh;
    bool replicas = mesh->replicate > 1;
    if (!o->setting.reduces_each_micro_step || (replicas && mesh->shard == 1))
        return accumulate_then_reduce(o, step, losses);
    return replicas ? reduce_then_accumulate_in_groups(o, step, losses) : reduce_then_accumulate(o, step, losses);
}

int oracle_sum_gradients(struct oracle *o, uint64_t step, double losses[])
{
    TRY(sum_dense(o, step, losses));
    if (o->setting.config->mesh.expert <= 1)
        return ERR_NONE;
    TRY(sum_experts(o, step));
    if (!o->setting.reduces_each_micro_step)
        round_sums(o, true);
    return ERR_NONE;
}
