// SPDX-License-Identifier: Apache-2.0
// The two definitions of a gradient summed over ranks and micro-steps.
#include "ref/oracle/oracle_internal.h"

#include "base/err.h"
#include "ref/oracle/oracle_mesh.h"

// A definition sums these, over these ranks. Expert groups take the place of ranks where a gradient of experts is
// made where their tokens meet.
struct sum {
    enum { ALL_TENSORS, DENSE, EXPERTS } kind;
    int ranks, shard;  // in all, and of a shard group
    int sources;       // ranks that have the tokens of one of these ranks
};

static bool takes(const struct sum *sum, const struct oracle_tensor *a)
{
    return a->trainable && (sum->kind == ALL_TENSORS || a->expert == (sum->kind == EXPERTS));
}

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
        TRY(oracle_array_push(o->tensors[i].quantized ? &o->tensors[i].seen : &o->tensors[i].model_params));
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

// The experts' gradients of one micro-step of an expert group are sums over its ranks, in the model's dtype.
static int fold_sources(struct oracle *o, const struct sum *sum, uint64_t step, int micro, int group)
{
    enum dtype precision = o->setting.config->precision;
    for (int source = 0; source < sum->sources; source++) {
        double loss;
        TRY(make_gradients(o, step, micro, group * sum->sources + source, &loss));
        for (int i = 0; i < o->setting.model->param_count; i++) {
            struct oracle_tensor *a = &o->tensors[i];
            if (takes(sum, a))
                add(a->sources, DTYPE_FP32, a->gradient.here, precision, precision, a->count, source == 0);
        }
    }
    for (int i = 0; i < o->setting.model->param_count; i++)
        for (size_t k = 0; takes(sum, &o->tensors[i]) && k < o->tensors[i].count; k++)
            oracle_set_element(precision, o->tensors[i].gradient.here, k, o->tensors[i].sources[k]);
    return ERR_NONE;
}

// The terms of one rank and micro-step, in tensor->gradient. The dense tensors' ranks give the losses.
static int make_terms(struct oracle *o, const struct sum *sum, uint64_t step, int micro, int rank, double losses[])
{
    double loss;
    if (sum->kind == EXPERTS)
        return fold_sources(o, sum, step, micro, rank);
    TRY(make_gradients(o, step, micro, rank, &loss));
    losses[rank] += loss;
    return ERR_NONE;
}

// Ranks of a group in a hierarchical sum, or of a shard group with replicas; 0: neither.
static int group_size(const struct oracle *o, const struct sum *sum)
{
    const struct config *config = o->setting.config;
    return config->mesh.replicate > 1 ? sum->shard : (int)config->reduction_group;
}

// One rank's term of a sum over ranks, in fp32: all in a row, or those of a group first. Groups that are replicas
// exchange their sums in the communication dtype.
static void add_rank(const struct oracle *o, const struct sum *sum, struct oracle_tensor *a, float *into,
                     const void *from, enum dtype from_dtype, int rank)
{
    const struct config *config = o->setting.config;
    int group = group_size(o, sum);
    bool whole = group == 0;
    add(whole ? into : a->group, DTYPE_FP32, from, from_dtype, config->communication_dtype, a->count,
        whole ? rank == 0 : rank % group == 0);
    if (!whole && (rank + 1) % group == 0)
        add(into, DTYPE_FP32, a->group, DTYPE_FP32,
            config->mesh.replicate > 1 ? config->communication_dtype : DTYPE_FP32, a->count, rank + 1 == group);
}

// One rank's term of qgZ's sum over nodes of `locals` ranks, in fp32: quantized on its way to the node's sum, which is
// quantized on its way to the others. What one rank has by itself goes no way.
static void add_quantized(const struct oracle *o, struct oracle_tensor *a, int rank)
{
    const struct config *config = o->setting.config;
    int locals = config->node_ranks, nodes = o->setting.world / locals, node = rank / locals;
    for (size_t k = 0; k < a->count; k++)
        a->sources[k] = oracle_element(config->precision, a->gradient.here, k);
    if (locals > 1)
        oracle_quantize_gradient(o, a->sources, a->count);
    add(a->group, DTYPE_FP32, a->sources, DTYPE_FP32, DTYPE_FP32, a->count, rank % locals == 0);
    if ((rank + 1) % locals != 0)
        return;
    if (nodes > 1)
        oracle_quantize_gradient(o, a->group, a->count);
    add(a->partial, DTYPE_FP32, a->group, DTYPE_FP32, DTYPE_FP32, a->count, node == 0);
}

// A sum as it is kept: rounded to the communication dtype, in which it arrives, and then to the accumulation dtype.
static void round_sums(struct oracle *o, const struct sum *sum)
{
    const struct config *config = o->setting.config;
    for (int i = 0; i < o->setting.model->param_count; i++)
        for (size_t k = 0; takes(sum, &o->tensors[i]) && k < o->tensors[i].count; k++)
            o->tensors[i].sum[k] =
                rounded(config->accumulation_dtype, rounded(config->communication_dtype, o->tensors[i].sum[k]));
}

static int accumulate_then_reduce(struct oracle *o, const struct sum *sum, uint64_t step, double losses[])
{
    const struct config *config = o->setting.config;
    enum dtype accumulation = config->accumulation_dtype;
    for (int rank = 0; rank < sum->ranks; rank++) {
        for (int micro = 0; micro < (int)config->accumulation; micro++) {
            TRY(make_terms(o, sum, step, micro, rank, losses));
            for (int i = 0; i < o->setting.model->param_count; i++) {
                struct oracle_tensor *a = &o->tensors[i];
                if (takes(sum, a))
                    add(a->partial, accumulation, a->gradient.here, config->precision, config->precision, a->count,
                        micro == 0);
            }
        }
        for (int i = 0; i < o->setting.model->param_count; i++) {
            struct oracle_tensor *a = &o->tensors[i];
            if (takes(sum, a))
                add_rank(o, sum, a, a->sum, a->partial, DTYPE_FP32, rank);
        }
    }
    round_sums(o, sum);
    return ERR_NONE;
}

static int reduce_then_accumulate(struct oracle *o, const struct sum *sum, uint64_t step, double losses[])
{
    const struct config *config = o->setting.config;
    enum dtype communication = config->communication_dtype, accumulation = config->accumulation_dtype;
    for (int micro = 0; micro < (int)config->accumulation; micro++) {
        for (int rank = 0; rank < sum->ranks; rank++) {
            TRY(make_terms(o, sum, step, micro, rank, losses));
            for (int i = 0; i < o->setting.model->param_count; i++) {
                struct oracle_tensor *a = &o->tensors[i];
                if (takes(sum, a) && config->quantized_gradients)
                    add_quantized(o, a, rank);
                else if (takes(sum, a))
                    add_rank(o, sum, a, a->partial, a->gradient.here, config->precision, rank);
            }
        }
        for (int i = 0; i < o->setting.model->param_count; i++) {
            struct oracle_tensor *a = &o->tensors[i];
            if (takes(sum, a))
                add(a->sum, accumulation, a->partial, DTYPE_FP32, communication, a->count, micro == 0);
        }
    }
    return ERR_NONE;
}

// One micro-step of the shard group that begins with rank `first`: adds its sum over ranks to the group's.
static int add_micro_step(struct oracle *o, const struct sum *sum, uint64_t step, int micro, int first, double losses[])
{
    const struct config *config = o->setting.config;
    enum dtype communication = config->communication_dtype;
    // One term is no sum, and is not rounded as one.
    enum dtype accumulation = config->accumulation > 1 ? config->accumulation_dtype : DTYPE_FP32;
    for (int rank = first; rank < first + sum->shard; rank++) {
        TRY(make_terms(o, sum, step, micro, rank, losses));
        for (int i = 0; i < o->setting.model->param_count; i++) {
            struct oracle_tensor *a = &o->tensors[i];
            if (takes(sum, a))
                add(a->partial, DTYPE_FP32, a->gradient.here, config->precision, communication, a->count,
                    rank == first);
        }
    }
    for (int i = 0; i < o->setting.model->param_count; i++) {
        struct oracle_tensor *a = &o->tensors[i];
        if (takes(sum, a))
            add(a->group, accumulation, a->partial, DTYPE_FP32, communication, a->count, micro == 0);
    }
    return ERR_NONE;
}

// Each shard group reduces and accumulates by itself; then the groups' sums are added.
static int reduce_then_accumulate_in_groups(struct oracle *o, const struct sum *sum, uint64_t step, double losses[])
{
    const struct config *config = o->setting.config;
    for (int first = 0; first < sum->ranks; first += sum->shard) {
        for (int micro = 0; micro < (int)config->accumulation; micro++)
            TRY(add_micro_step(o, sum, step, micro, first, losses));
        for (int i = 0; i < o->setting.model->param_count; i++) {
            struct oracle_tensor *a = &o->tensors[i];
            if (takes(sum, a))
                add(a->sum, DTYPE_FP32, a->group, DTYPE_FP32, config->communication_dtype, a->count, first == 0);
        }
    }
    round_sums(o, sum);
    return ERR_NONE;
}

static int make_sum(struct oracle *o, const struct sum *sum, uint64_t step, double losses[])
{
    bool replicas = o->setting.config->mesh.replicate > 1;
    if (!o->setting.reduces_each_micro_step || (replicas && sum->shard == 1))
        return accumulate_then_reduce(o, sum, step, losses);
    return replicas ? reduce_then_accumulate_in_groups(o, sum, step, losses)
                    : reduce_then_accumulate(o, sum, step, losses);
}

int oracle_sum_gradients(struct oracle *o, uint64_t step, double losses[])
{
    const struct mesh *mesh = &o->setting.config->mesh;
    int world = o->setting.world, sources = mesh->expert > 1 ? mesh->expert : 1;
    const struct sum dense = {sources > 1 ? DENSE : ALL_TENSORS, world, mesh->shard, 1};
    const struct sum experts = {EXPERTS, world / sources, mesh->shard / sources, sources};
    TRY(make_sum(o, &dense, step, losses));
    return sources > 1 ? make_sum(o, &experts, step, losses) : ERR_NONE;
}
