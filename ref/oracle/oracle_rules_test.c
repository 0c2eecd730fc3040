// SPDX-License-Identifier: Apache-2.0
// The oracle's scalars and the optimizer's are two programs for one definition: equal in every bit.
#include "ref/oracle/oracle_rules.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"
#include "ref/optimizer/clip.h"
#include "ref/optimizer/optimizer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { TRIALS = 2000, TRIAL_STEPS = 40 };

struct draw {
    uint64_t key, at;
};

static uint64_t below(struct draw *d, uint64_t count)
{
    return random_below(random_at(d->key, d->at++), count);
}

static double part(struct draw *d)
{
    return (double)below(d, 1 << 20) / (1 << 20);
}

static void demand_equal(double expected, double actual, const char *name, int trial)
{
    cr_assert_eq(memcmp(&expected, &actual, sizeof expected), 0, "%s of trial %d: %a, %a", name, trial, expected,
                 actual);
}

Test(oracle_rules, learning_rates_and_weight_decay_of_all_schedulers_equal_the_optimizers)
{
    for (int trial = 0; trial < TRIALS; trial++) {
        struct draw d = {random_key(1, (uint64_t)trial), 0};
        struct config config = {
            .adam = {.lr = part(&d), .weight_decay = part(&d)},
            .scheduler = {.type = (enum schedule_type)(trial % (SCHEDULER_WARMUP_COSINE + 1)),
                          .warmup_min_lr = part(&d) / 100,
                          .warmup_max_lr = part(&d),
                          .warmup_min_ratio = part(&d),
                          .cos_min_ratio = part(&d),
                          .warmup_num_steps = below(&d, 12),
                          .total_num_steps = below(&d, 30),
                          .warmup_linear = below(&d, 2)},
        };
        double lr_by_step[TRIAL_STEPS];
        struct config_group groups[3] = {{.adam = config.adam}, {.lr_by_step = lr_by_step}, {.adam = config.adam}};
        for (int i = 0; i < TRIAL_STEPS; i++)
            lr_by_step[i] = part(&d);
        config.groups = below(&d, 4) ? NULL : groups;
        for (uint64_t step = 1, t = 1; step <= TRIAL_STEPS; t += below(&d, 3) > 0, step++)
            for (int group = 0; group < 3; group++) {
                struct adam_hyper expected = optimizer_group(&config, group, step, t);
                struct adam_hyper actual = oracle_hyper(&config, group, step, t);
                demand_equal(expected.lr, actual.lr, "rate", trial);
                demand_equal(expected.weight_decay, actual.weight_decay, "decay", trial);
            }
    }
}

Test(oracle_rules, divisors_and_clip_factors_equal_the_optimizers)
{
    static const double norms[] = {0, 1, 1e-30, 1e30, 1e300, INFINITY};
    for (int trial = 0; trial < TRIALS; trial++) {
        struct draw d = {random_key(2, (uint64_t)trial), 0};
        const struct config config = {
            .accumulation = 1 + below(&d, 9),
            .gradient_clipping = below(&d, 4) ? part(&d) * 2 : 0,
            .clip_form = below(&d, 2) ? CLIP_TORCH : CLIP_DEEPSPEED,
        };
        int world = 1 + (int)below(&d, 100);
        double scale = ldexp(1, (int)below(&d, 20)) * (below(&d, 2) ? 1 : part(&d)), norm = part(&d) * 3;
        demand_equal(optimizer_divisor(&config, world, scale), oracle_divisor(&config, world, scale), "divisor", trial);
        for (size_t i = 0; i <= sizeof norms / sizeof norms[0]; i++) {
            demand_equal(clip_coefficient(config.clip_form, norm, config.gradient_clipping), oracle_clip(&config, norm),
                         "factor", trial);
            norm = norms[i % (sizeof norms / sizeof norms[0])];
        }
        cr_assert_eq(isnan(clip_coefficient(config.clip_form, NAN, config.gradient_clipping)),
                     isnan(oracle_clip(&config, NAN)));
    }
}

Test(oracle_rules, loss_scales_equal_the_optimizers)
{
    for (int trial = 0; trial < TRIALS; trial++) {
        struct draw d = {random_key(3, (uint64_t)trial), 0};
        const struct config config = {.loss_scale = {.dynamic = below(&d, 5) > 0,
                                                     .static_scale = part(&d) * 100,
                                                     .initial_scale_power = (unsigned)below(&d, 16),
                                                     .window = 1 + below(&d, 4),
                                                     .hysteresis = 1 + below(&d, 3),
                                                     .consecutive_hysteresis = below(&d, 2),
                                                     .min_scale = 1}};
        struct scaler scaler;
        struct oracle_loss_scale actual;
        scaler_open(&scaler, &config.loss_scale);
        oracle_loss_scale_open(&config, &actual);
        int code = ERR_NONE;
        for (int step = 0; step < TRIAL_STEPS && code == ERR_NONE; step++) {
            bool overflow = below(&d, 3) == 0;
            demand_equal(scaler_scale(&scaler), actual.scale, "scale", trial);
            code = scaler_update(&scaler, overflow);
            cr_assert_eq(oracle_loss_scale_update(&config, overflow, &actual), code, "trial %d, step %d", trial, step);
        }
    }
}
