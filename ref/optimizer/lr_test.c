// SPDX-License-Identifier: Apache-2.0
// The golden rates were printed by DeepSpeed's own schedulers, at commit edaa7221, for the steps 1, 2, 3, ...
#include "ref/optimizer/lr.h"

#include <criterion/criterion.h>

#include <float.h>
#include <math.h>

static struct config with_scheduler(struct config_scheduler scheduler)
{
    return (struct config){.adam = {.lr = 0.003}, .scheduler = scheduler};
}

// Equal but for the last bit of the C library's logarithm and cosine.
static void expect_rates(const struct config *config, size_t count, const double *expected)
{
    for (size_t i = 0; i < count; i++) {
        double rate = lr_at(config, i + 1);
        cr_expect_leq(fabs(rate - expected[i]), 4 * DBL_EPSILON * expected[i], "step %zu: %.17g, expected %.17g", i + 1,
                      rate, expected[i]);
    }
}

Test(lr, without_a_scheduler_the_rate_is_constant)
{
    struct config config = with_scheduler((struct config_scheduler){.type = SCHEDULER_NONE});
    cr_expect_eq(lr_at(&config, 1), 0.003);
    cr_expect_eq(lr_at(&config, 1000000), 0.003);
}

Test(lr, the_default_warm_up_runs_its_first_two_steps_at_zero)
{
    struct config config = with_scheduler(
        (struct config_scheduler){.type = SCHEDULER_WARMUP, .warmup_max_lr = 0.003, .warmup_num_steps = 1000});
    expect_rates(
        &config, 6,
        (double[]){0, 0, 0.0003010299956639812, 0.00047712125471966246, 0.0006020599913279624, 0.0006989700043360188});
    cr_expect_eq(lr_at(&config, 1001), 0.003 * (1.0 / log(1000) * log(1000)));
    cr_expect_eq(lr_at(&config, 1002), 0.003);
    cr_expect_eq(lr_at(&config, 50000), 0.003);
}

Test(lr, logarithmic_warm_up_goes_from_min_to_max)
{
    struct config config = with_scheduler((struct config_scheduler){
        .type = SCHEDULER_WARMUP, .warmup_min_lr = 1e-4, .warmup_max_lr = 2e-3, .warmup_num_steps = 4});
    expect_rates(&config, 8, (double[]){0.0001, 0.0001, 0.00105, 0.0016057143756850985, 0.002, 0.002, 0.002, 0.002});
}

Test(lr, linear_warm_up_has_the_bits_of_deepspeed)
{
    struct config config = with_scheduler((struct config_scheduler){.type = SCHEDULER_WARMUP,
                                                                    .warmup_min_lr = 1e-4,
                                                                    .warmup_max_lr = 2e-3,
                                                                    .warmup_num_steps = 4,
                                                                    .warmup_linear = true});
    static const double EXPECTED[] = {0x1.a36e2eb1c432dp-14, 0x1.a36e2eb1c432dp-14, 0x1.2d77318fc5048p-11,
                                      0x1.13404ea4a8c15p-10, 0x1.8fc504816f007p-10, 0x1.0624dd2f1a9fcp-9};
    for (size_t i = 0; i < 6; i++)
        cr_expect_eq(lr_at(&config, i + 1), EXPECTED[i], "step %zu: %a", i + 1, lr_at(&config, i + 1));
}

Test(lr, a_warm_up_of_one_step_counts_as_two)
{
    struct config config = with_scheduler((struct config_scheduler){
        .type = SCHEDULER_WARMUP, .warmup_max_lr = 0.003, .warmup_num_steps = 1, .warmup_linear = true});
    expect_rates(&config, 5, (double[]){0, 0, 0.0015, 0.003, 0.003});
}

Test(lr, decay_goes_linearly_from_max_to_min_and_stays_there)
{
    struct config config = with_scheduler((struct config_scheduler){.type = SCHEDULER_WARMUP_DECAY,
                                                                    .warmup_min_lr = 1e-4,
                                                                    .warmup_max_lr = 2e-3,
                                                                    .warmup_num_steps = 4,
                                                                    .total_num_steps = 10,
                                                                    .warmup_linear = true});
    expect_rates(&config, 14,
                 (double[]){0.0001, 0.0001, 0.000575, 0.00105, 0.001525, 0.002, 0.0016833333333333333,
                            0.0013666666666666666, 0.00105, 0.0007333333333333333, 0.00041666666666666664, 0.0001,
                            0.0001, 0.0001});
}

Test(lr, decay_after_a_logarithmic_warm_up)
{
    struct config config = with_scheduler((struct config_scheduler){
        .type = SCHEDULER_WARMUP_DECAY, .warmup_max_lr = 0.001, .warmup_num_steps = 3, .total_num_steps = 5});
    expect_rates(&config, 8, (double[]){0, 0, 0.0006309297535714573, 0.001, 0.001, 0.0005, 0, 0});
}

Test(lr, a_total_below_the_warm_up_drops_to_min_after_it)
{
    struct config config = with_scheduler((struct config_scheduler){.type = SCHEDULER_WARMUP_DECAY,
                                                                    .warmup_max_lr = 0.001,
                                                                    .warmup_num_steps = 4,
                                                                    .total_num_steps = 2,
                                                                    .warmup_linear = true});
    expect_rates(&config, 8, (double[]){0, 0, 0.00025, 0.0005, 0.00075, 0, 0, 0});
}

Test(lr, cosine_starts_at_zero_whatever_its_minimum_ratio_and_ends_at_its_floor)
{
    struct config config = with_scheduler((struct config_scheduler){.type = SCHEDULER_WARMUP_COSINE,
                                                                    .warmup_min_ratio = 0.25,
                                                                    .cos_min_ratio = 1e-4,
                                                                    .warmup_num_steps = 4,
                                                                    .total_num_steps = 10,
                                                                    .warmup_linear = true});
    expect_rates(&config, 14,
                 (double[]){0, 0.00075, 0.0013125, 0.001875, 0.0024375, 0.0027990582018660904, 0.002250075, 0.00150015,
                            0.0007502250000000003, 0.0002012417981339096, 3.0000000000000004e-07,
                            3.0000000000000004e-07, 3.0000000000000004e-07, 3.0000000000000004e-07});
}

Test(lr, cosine_after_a_logarithmic_warm_up)
{
    struct config config = with_scheduler((struct config_scheduler){
        .type = SCHEDULER_WARMUP_COSINE, .cos_min_ratio = 0.1, .warmup_num_steps = 3, .total_num_steps = 6});
    expect_rates(&config, 9,
                 (double[]){0, 0, 0.001892789260714372, 0.003, 0.0023250000000000002, 0.0009750000000000004,
                            0.00030000000000000003, 0.00030000000000000003, 0.00030000000000000003});
}
