// SPDX-License-Identifier: Apache-2.0
#include "ref/optimizer/lr.h"

#include <assert.h>
#include <math.h>

// The factors have DeepSpeed's order, since each product rounds.
static double warm_up(const struct config_scheduler *s, double iteration, double n)
{
    return s->warmup_linear ? iteration / n : 1.0 / log(n) * log(iteration + 1);
}

static double cosine_ratio(const struct config_scheduler *s, double iteration, double n)
{
    if (iteration < 0)
        return 0;
    if (iteration < n)
        return s->warmup_min_ratio + warm_up(s, iteration, n) * (1.0 - s->warmup_min_ratio);
    double progress = fmin(1.0, (iteration - n + 1) / fmax(1, (double)s->total_num_steps - n));
    double ratio = (1 + cos(M_PI * progress)) / 2;
    return fmax(0.0, s->cos_min_ratio + (1.0 - s->cos_min_ratio) * ratio);
}

static double linear_ratio(const struct config_scheduler *s, double iteration, double n)
{
    if (iteration < 0)
        return 0;
    if (iteration < n)
        return warm_up(s, iteration, n);
    if (s->type == SCHEDULER_WARMUP)
        return 1;
    double total = (double)s->total_num_steps;
    return fmax(0.0, (total - iteration) / fmax(1.0, total - n));
}

double lr_at(const struct config *config, uint64_t applied_step)
{
    assert(applied_step >= 1);
    const struct config_scheduler *s = &config->scheduler;
    double iteration = (double)applied_step - 2;
    double n = fmax(2, (double)s->warmup_num_steps);
    switch (s->type) {
    case SCHEDULER_WARMUP:
    case SCHEDULER_WARMUP_DECAY:
        return s->warmup_min_lr + (s->warmup_max_lr - s->warmup_min_lr) * linear_ratio(s, iteration, n);
    case SCHEDULER_WARMUP_COSINE:
        return config->adam.lr * cosine_ratio(s, iteration, n);
    case SCHEDULER_NONE:
        break;
    }
    return config->adam.lr;
}
