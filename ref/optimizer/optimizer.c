// SPDX-License-Identifier: Apache-2.0
// The decision about a step: overflow and skip, loss scale, norm and clip (optimizer_begin).
#include "ref/optimizer/gradient_scan.h"
#include "ref/optimizer/optimizer_internal.h"

#include "base/err.h"
#include "ref/optimizer/clip.h"
#include "ref/optimizer/lr.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Of fp32, without the sign: those of NaN are larger.
static const uint32_t INFINITY_BITS = 0x7f800000u;

struct adam_hyper optimizer_group(const struct config *config, int group, uint64_t step, uint64_t t)
{
    assert(group >= 0 && t >= 1 && step >= 1);
    struct adam_hyper hyper = config->adam;
    if (config->groups) {
        hyper = config->groups[group].adam;
        if (config->groups[group].lr_by_step)
            hyper.lr = config->groups[group].lr_by_step[step - 1];
        return hyper;
    }
    hyper.lr = lr_at(config, t);
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
        return err_set(ERR_USAGE, "unknown recipe \"%s\"", o->config->recipe);
    size_t groups = (size_t)o->model->group_count, buckets = (size_t)o->layout->bucket_count + 1;
    size_t ranges = buckets + (size_t)o->model->param_count;  // a bucket has at most one more than parameters
    o->states = calloc(groups, sizeof *o->states);
    o->states_before = calloc(groups, sizeof *o->states_before);
    o->scalars = calloc(groups, sizeof *o->scalars);
    o->scanned = calloc(buckets, sizeof *o->scanned);
    o->scan = calloc(1, sizeof *o->scan + ranges * sizeof *o->scan->ranges);
    o->scan_spans = calloc(ranges + OPTIMIZER_SCAN_RESULTS, sizeof *o->scan_spans);
    o->updated = calloc(buckets, sizeof *o->updated);
    o->speculated = calloc(buckets, sizeof *o->speculated);
    if (!o->states || !o->states_before || !o->scalars || !o->scanned || !o->scan || !o->scan_spans || !o->updated ||
        !o->speculated)
        return err_set(ERR_MEMORY, "no memory for the optimizer's tables");
    scaler_open(&o->scaler, &o->config->loss_scale);
    TRY(tier_share(o->tier, "largest gradients", buckets * sizeof *o->max_bits, (void **)&o->max_bits));
    TRY(tier_share(o->tier, "sums of squares", buckets * sizeof *o->sums, (void **)&o->sums));
    TRY(tier_share(o->tier, "sums at guessed exponents", buckets * OPTIMIZER_GUESSES * sizeof *o->guesses,
                   (void **)&o->guesses));
    return tier_share(o->tier, "numbers of all ranks", optimizer_gathered_bytes(o), &o->gathered);
}

void optimizer_close(struct optimizer *o)
{
    void **tables[] = {(void **)&o->states, (void **)&o->states_before, (void **)&o->scalars, (void **)&o->scanned,
                       (void **)&o->scan,   (void **)&o->scan_spans,    (void **)&o->updated, (void **)&o->speculated};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        free(*tables[i]);
        *tables[i] = NULL;
    }
}

int optimizer_advance(struct optimizer *o, double scale)
{
    const struct config *config = o->config;
    size_t states_bytes = (size_t)o->model->group_count * sizeof *o->states;
    memcpy(o->states_before, o->states, states_bytes);
    o->lr_before = o->lr;
    o->divisor = optimizer_divisor(config, o->ranks, scale);
    if (o->mean_count > 0)
        o->divisor = (float)(o->mean_count * scale);
    o->step++;
    for (int group = 0; group < o->model->group_count; group++) {
        struct adam_hyper hyper = optimizer_group(config, group, o->step + o->skipped, o->step);
        o->lr = group == 0 ? hyper.lr : o->lr;
        TRY(recipe_begin_step(o->recipe, &hyper, o->step, &o->states[group], &o->scalars[group]));
    }
    return ERR_NONE;
}

// Takes back optimizer_advance.
static void retreat(struct optimizer *o)
{
    memcpy(o->states, o->states_before, (size_t)o->model->group_count * sizeof *o->states);
    o->lr = o->lr_before;
    o->step--;
}

bool optimizer_delays(const struct optimizer *o)
{
    uint64_t start = o->config->delayed_update_start_step;
    return start > 0 && o->step + o->skipped + 1 >= start;
}

int optimizer_begin(struct optimizer *o, bool *apply)
{
    const struct config *config = o->config;
    double scale = scaler_scale(&o->scaler);
    o->delays = optimizer_delays(o);
    uint32_t max_bits;
    TRY(optimizer_global_maximum(o, &max_bits));
    bool overflow = config->check_overflow && max_bits >= INFINITY_BITS;
    *apply = !overflow;
    TRY(scaler_update(&o->scaler, overflow));
    if (overflow) {
        optimizer_drop(o);
        optimizer_drop_ahead(o);
        if (o->began)
            retreat(o);
        o->began = false;
        o->skipped++;
        return ERR_NONE;
    }
    struct norm_sum sum;
    TRY(optimizer_global_sum(o, max_bits, &sum));
    // The gradient was made with the scale before this step's scaler_update, so that scale divides it.
    if (!o->began)
        TRY(optimizer_advance(o, scale));
    o->began = false;
    o->norm = norm_finish(sum, max_bits) / (double)o->divisor;
    o->coefficient = clip_coefficient(config->clip_form, o->norm, config->gradient_clipping);
    if (o->coefficient != 1.0f)
        o->redone += optimizer_drop(o);
    return ERR_NONE;
}
