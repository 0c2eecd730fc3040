// SPDX-License-Identifier: Apache-2.0
#include "update.h"

#include "adam.h"
#include "clip.h"
#include "err.h"
#include "lr.h"

#include <stdlib.h>

struct adam_hyper optimizer_group(const struct config *config, int group, double lr)
{
    struct adam_hyper hyper = config->adam;
    hyper.lr = lr;
    for (int i = 0; i < group; i++) {
        hyper.lr *= 0.5;
        hyper.weight_decay = 0.0;
    }
    return hyper;
}

float optimizer_divisor(const struct config *config, int world, double loss_scale)
{
    return (float)((double)world * (double)config->accumulation * loss_scale);
}

int optimizer_open(struct optimizer *o)
{
    o->recipe = recipe_find(o->config->recipe);
    if (!o->recipe)
        return err_set(ERR_USAGE, "no recipe is called \"%s\"", o->config->recipe);
    size_t groups = (size_t)o->model->group_count, bundles = (size_t)o->layout->bundle_count + 1;
    o->states = calloc(groups, sizeof *o->states);
    o->scalars = calloc(groups, sizeof *o->scalars);
    o->max_bits = calloc(bundles, sizeof *o->max_bits);
    o->sums = calloc(bundles, sizeof *o->sums);
    if (!o->states || !o->scalars || !o->max_bits || !o->sums)
        return err_set(ERR_MEMORY, "no memory for the optimizer's tables");
    scaler_open(&o->scaler, &o->config->loss_scale);
    return ERR_NONE;
}

void optimizer_close(struct optimizer *o)
{
    free(o->states);
    free(o->scalars);
    free(o->max_bits);
    free(o->sums);
    o->states = NULL;
    o->scalars = NULL;
    o->max_bits = NULL;
    o->sums = NULL;
}

// Both passes over a gradient share: the largest magnitude, and the sum of squares relative to the largest of all.
struct look_arguments {
    const void *gradient;
    size_t count;
    enum dtype dtype;
    uint32_t max_bits;
    uint32_t *max_out;
    struct norm_sum *sum_out;
};

static int run_look_for_maximum(void *arguments)
{
    struct look_arguments *a = arguments;
    *a->max_out = norm_max(a->dtype, a->gradient, a->count);
    return ERR_NONE;
}

static int run_add_squares(void *arguments)
{
    struct look_arguments *a = arguments;
    *a->sum_out = (struct norm_sum){0};
    norm_accumulate(a->sum_out, a->dtype, a->gradient, a->count, a->max_bits);
    return ERR_NONE;
}

static int look_at_gradients(struct optimizer *o, const char *name, int (*run)(void *), uint32_t max_bits)
{
    enum dtype dtype = o->config->accumulation_dtype;
    for (int i = 0; i < o->layout->trainable_count; i++) {
        struct look_arguments a = {
            .gradient = o->places[i].gradient,
            .count = bundle_share_real(&o->layout->bundles[i], o->share),
            .dtype = dtype,
            .max_bits = max_bits,
            .max_out = &o->max_bits[i],
            .sum_out = &o->sums[i],
        };
        struct flow_span span = {a.gradient, a.count * dtype_bytes(dtype), FLOW_READ};
        TRY(flow_issue(o->flow, &(struct flow_operation){name, LANE_COMPUTE, run, &a, sizeof a, &span, 1}));
    }
    return flow_wait(o->flow);
}

// Every rank's `bytes` at mine, into all[world]. Replicated gradients are complete on each rank as they are.
static int gather_small(struct optimizer *o, const void *mine, void *all, size_t bytes)
{
    size_t counts[comm_world(o->comm)], offsets[comm_world(o->comm)];
    for (int rank = 0; rank < comm_world(o->comm); rank++) {
        counts[rank] = bytes;
        offsets[rank] = (size_t)rank * bytes;
    }
    return comm_all_gather(o->comm, mine, all, counts, offsets, DTYPE_BYTE);
}

static int global_maximum(struct optimizer *o, uint32_t *out)
{
    TRY(look_at_gradients(o, "largest gradient", run_look_for_maximum, 0));
    uint32_t mine = 0;
    for (int i = 0; i < o->layout->trainable_count; i++)
        if (o->max_bits[i] > mine)
            mine = o->max_bits[i];
    *out = mine;
    if (o->replicated)
        return ERR_NONE;
    uint32_t all[comm_world(o->comm)];
    TRY(gather_small(o, &mine, all, sizeof mine));
    for (int rank = 0; rank < comm_world(o->comm); rank++)
        if (all[rank] > *out)
            *out = all[rank];
    return ERR_NONE;
}

static int global_sum(struct optimizer *o, uint32_t max_bits, struct norm_sum *out)
{
    TRY(look_at_gradients(o, "sum of squares", run_add_squares, max_bits));
    struct norm_sum mine = {0};
    for (int i = 0; i < o->layout->trainable_count; i++)
        norm_add(&mine, o->sums[i]);
    *out = mine;
    if (o->replicated)
        return ERR_NONE;
    struct norm_sum all[comm_world(o->comm)];
    TRY(gather_small(o, &mine, all, sizeof mine));
    *out = (struct norm_sum){0};
    for (int rank = 0; rank < comm_world(o->comm); rank++)
        norm_add(out, all[rank]);
    return ERR_NONE;
}

int optimizer_begin(struct optimizer *o, bool *apply)
{
    const struct config *config = o->config;
    double scale = scaler_scale(&o->scaler);
    uint32_t max_bits;
    TRY(global_maximum(o, &max_bits));
    bool overflow = config->check_overflow && max_bits >= 0x7f800000u;
    *apply = !overflow;
    TRY(scaler_update(&o->scaler, overflow));
    if (overflow) {
        o->skipped++;
        return ERR_NONE;
    }
    struct norm_sum sum;
    TRY(global_sum(o, max_bits, &sum));
    // The gradient was made with the scale from before this step's scaler_update, so that one divides it.
    o->divisor = optimizer_divisor(config, comm_world(o->comm), scale);
    o->norm = norm_finish(sum, max_bits) / (double)o->divisor;
    o->coefficient = clip_coefficient(config->clip_form, o->norm, config->gradient_clipping);
    o->step++;
    o->lr = lr_at(config, o->step);
    for (int group = 0; group < o->model->group_count; group++) {
        struct adam_hyper hyper = optimizer_group(config, group, o->lr);
        TRY(recipe_begin_step(o->recipe, &hyper, o->step, &o->states[group], &o->scalars[group]));
    }
    return ERR_NONE;
}

struct update_arguments {
    struct optimizer *optimizer;
    int bundle;
};

static int run_update(void *arguments)
{
    struct update_arguments *a = arguments;
    struct optimizer *o = a->optimizer;
    const struct place *place = &o->places[a->bundle];
    const struct config *config = o->config;
    bool sixteen_bit = config->precision != DTYPE_FP32;
    struct piece piece;
    for (int next = 0; bundle_next_piece(o->layout, o->model, a->bundle, o->share, &next, &piece);) {
        size_t at = piece.share_index;
        struct adam_step step = {
            .recipe = o->recipe,
            .scalars = o->scalars[o->model->params[piece.param].group],
            .grad = (const char *)place->gradient + at * dtype_bytes(config->accumulation_dtype),
            .grad_dtype = config->accumulation_dtype,
            .grad_divisor = o->divisor,
            .grad_coefficient = o->coefficient,
            .param = place->master + at,
            .exp_avg = place->exp_avg + at,
            .exp_avg_sq = place->exp_avg_sq + at,
            .copy = sixteen_bit ? (char *)place->parameter + at * dtype_bytes(config->precision) : NULL,
            .copy_dtype = config->precision,
            .count = piece.count,
            .tensor_index = piece.param_index,
            .tensor_count = o->model->params[piece.param].count,
        };
        adam_update_parallel(&step, o->threads);
    }
    return ERR_NONE;
}

int optimizer_update(struct optimizer *o, int bundle)
{
    const struct place *place = &o->places[bundle];
    size_t count = bundle_share_real(&o->layout->bundles[bundle], o->share);
    if (count == 0)
        return ERR_NONE;
    bool sixteen_bit = o->config->precision != DTYPE_FP32;
    const struct flow_span spans[] = {
        {place->gradient, count * dtype_bytes(o->config->accumulation_dtype), FLOW_READ},
        {place->master, count * sizeof(float), FLOW_READ_WRITE},
        {place->exp_avg, count * sizeof(float), FLOW_READ_WRITE},
        {place->exp_avg_sq, count * sizeof(float), FLOW_READ_WRITE},
        {place->parameter, sixteen_bit ? count * dtype_bytes(o->config->precision) : 0, FLOW_WRITE},
    };
    struct update_arguments a = {o, bundle};
    return flow_issue(o->flow, &(struct flow_operation){"Adam", LANE_COMPUTE, run_update, &a, sizeof a, spans, 5});
}
