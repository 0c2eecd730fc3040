// SPDX-License-Identifier: Apache-2.0
#include "ref/oracle/oracle_rules.h"

#include "base/err.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

// The part of the warm-up that iteration i of n has done.
static double warm_up(const struct config_scheduler *s, double i, double n)
{
    if (s->warmup_linear)
        return i / n;
    return 1.0 / log(n) * log(i + 1);
}

static double scheduled_lr(const struct config *config, uint64_t t)
{
    const struct config_scheduler *s = &config->scheduler;
    double i = (double)t - 2, n = fmax(2, (double)s->warmup_num_steps), total = (double)s->total_num_steps;
    double part;
    if (s->type == SCHEDULER_NONE)
        return config->adam.lr;
    if (s->type == SCHEDULER_WARMUP_COSINE) {
        double least = s->warmup_min_ratio, end = s->cos_min_ratio;
        double cosine = (1 + cos(M_PI * fmin(1.0, (i - n + 1) / fmax(1, total - n)))) / 2;
        part = i < 0 ? 0 : i < n ? least + warm_up(s, i, n) * (1.0 - least) : fmax(0.0, end + (1.0 - end) * cosine);
        return config->adam.lr * part;
    }
    if (i < n)
        part = i < 0 ? 0 : warm_up(s, i, n);
    else
        part = s->type == SCHEDULER_WARMUP ? 1 : fmax(0.0, (total - i) / fmax(1.0, total - n));
    return s->warmup_min_lr + (s->warmup_max_lr - s->warmup_min_lr) * part;
}

struct adam_hyper oracle_hyper(const struct config *config, int group, uint64_t step, uint64_t t)
{
    assert(group >= 0 && t >= 1 && step >= t);
    struct adam_hyper hyper = config->adam;
    if (config->groups) {
        const double *lr_by_step = config->groups[group].lr_by_step;
        hyper = config->groups[group].adam;
        hyper.lr = lr_by_step ? lr_by_step[step - 1] : hyper.lr;
        return hyper;
    }
    hyper.lr = ldexp(scheduled_lr(config, t), -group);
    hyper.weight_decay = group == 0 ? hyper.weight_decay : 0.0;
    return hyper;
}

struct muon_hyper oracle_muon_hyper(const struct config *config, int group, uint64_t step, uint64_t t)
{
    const struct config_group *own = config->groups ? &config->groups[group] : NULL;
    struct muon_hyper hyper = own ? own->muon : config->muon;
    if (own && own->lr_by_step)
        hyper.lr = own->lr_by_step[step - 1];
    if (!own && config->scheduler.type != SCHEDULER_NONE)
        hyper.lr = scheduled_lr(config, t);
    return hyper;
}

float oracle_divisor(const struct config *config, int world, double loss_scale)
{
    return (float)((double)world * (double)config->accumulation * loss_scale);
}

float oracle_clip(const struct config *config, double norm)
{
    float norm32 = (float)norm, max_norm = (float)config->gradient_clipping, epsilon = 1e-6f;
    if (config->gradient_clipping <= 0)
        return 1.0f;
    if (config->clip_form == CLIP_TORCH) {
        float factor = 1.0f / (norm32 + epsilon) * max_norm;
        return factor > 1.0f ? 1.0f : factor;
    }
    float excess = (norm32 + epsilon) / max_norm;
    return excess < 1.0f ? 1.0f : 1.0f / excess;
}

void oracle_loss_scale_open(const struct config *config, struct oracle_loss_scale *out)
{
    const struct config_loss_scale *rules = &config->loss_scale;
    *out = (struct oracle_loss_scale){
        .scale = rules->dynamic ? ldexp(1, (int)rules->initial_scale_power) : rules->static_scale,
        .overflows_left = rules->hysteresis,
    };
}

int oracle_loss_scale_update(const struct config *config, bool overflow, struct oracle_loss_scale *s)
{
    const struct config_loss_scale *rules = &config->loss_scale;
    if (!rules->dynamic)
        return ERR_NONE;
    if (!overflow) {
        bool doubles = s->clean_steps > 0 && s->clean_steps % rules->window == 0;
        if (doubles)
            s->scale *= 2;
        if (doubles || rules->consecutive_hysteresis)
            s->overflows_left = rules->hysteresis;
        s->clean_steps++;
        return ERR_NONE;
    }
    s->clean_steps = 0;
    if (s->overflows_left > 1) {
        s->overflows_left--;
        return ERR_NONE;
    }
    if (s->scale == rules->min_scale)
        return err_set(ERR_CHECK, "the unsharded gradients overflow at the minimum loss scale, %g", s->scale);
    s->scale = fmax(s->scale / 2, rules->min_scale);
    return ERR_NONE;
}
