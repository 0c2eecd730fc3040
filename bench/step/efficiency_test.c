// SPDX-License-Identifier: Apache-2.0
// Tests of the model against the figures that the ZeRO-Infinity paper prints.
#include "bench/step/efficiency.h"

#include <criterion/criterion.h>

static const double PEAK = 70e12;  // of a V100, in the paper

// A model of 1000 parameters, one sequence of 1024 tokens: 8 operations a token and parameter.
static struct efficiency_step paper_step(double sequences)
{
    return (struct efficiency_step){.flops = 8.0 * sequences * 1024 * 1000, .flops_per_s = PEAK};
}

// Section 4: "with a bandwidth of over 70 GB/s for parameters and gradients ... over 50 % efficiency even for the
// smallest batch size". 8 bytes a parameter: 2 x 4 passes.
Test(efficiency, params_and_gradients_at_70_gb_per_s_allow_half_of_the_peak)
{
    struct efficiency_step step = paper_step(1);
    struct efficiency out;
    step.bytes[LANE_COLLECTIVE] = 8000;
    step.bytes_per_s[LANE_COLLECTIVE] = 70e9;
    efficiency_predict(&step, &out);
    cr_expect_float_eq(out.states[PARAMS_AND_GRADIENTS].efficiency, 0.5059, 1e-4);
    cr_expect_float_eq(out.predicted, 0.5059, 1e-4);
    cr_expect_eq(out.states[OPTIMIZER_STATES].efficiency, 1);
    cr_expect_eq(out.states[ACTIVATIONS].bytes, 0);
}

// "optimizer states require nearly 4x higher bandwidth": 32 bytes a parameter; at 1.5 TB/s and two sequences 92 %.
Test(efficiency, optimizer_states_at_one_and_a_half_tb_per_s_allow_nine_tenths)
{
    struct efficiency_step step = paper_step(2);
    struct efficiency out;
    step.bytes[LANE_NVME_READ] = step.bytes[LANE_NVME_WRITE] = 16000;
    step.optimizer_bytes = 32000;
    step.bytes_per_s[LANE_NVME_READ] = step.bytes_per_s[LANE_NVME_WRITE] = 1.5e12;
    efficiency_predict(&step, &out);
    cr_expect_float_eq(out.states[OPTIMIZER_STATES].efficiency, 0.9165, 1e-4);
    cr_expect_eq(out.states[PARAMS_AND_GRADIENTS].bytes, 0);
    // A slower direction weighs as much as its bytes do.
    step.bytes_per_s[LANE_NVME_WRITE] = 0.5e12;
    efficiency_predict(&step, &out);
    cr_expect_float_eq(out.states[OPTIMIZER_STATES].bytes_per_s, 32000 / (16000 / 1.5e12 + 16000 / 0.5e12), 1e3);
}

Test(efficiency, the_slowest_link_on_its_way_counts_and_kinds_add_up)
{
    struct efficiency_step step = {
        .flops = 1000,
        .flops_per_s = 1000,
        .bytes =
            {[LANE_COLLECTIVE] = 10, [LANE_H2D] = 30, [LANE_D2H] = 20, [LANE_NVME_READ] = 50, [LANE_NVME_WRITE] = 50},
        .optimizer_bytes = 80,
        .activation_bytes = 10,
        .bytes_per_s =
            {[LANE_COLLECTIVE] = 100, [LANE_H2D] = 10, [LANE_D2H] = 20, [LANE_NVME_READ] = 40, [LANE_NVME_WRITE] = 80},
    };
    struct efficiency out;
    efficiency_predict(&step, &out);
    // Parameters and gradients: 0.1 s, 20 / 10 + 10 / 20 = 2.5 s, 10 / 40 + 10 / 80 s; a step computes for 1 s.
    cr_expect_float_eq(out.states[PARAMS_AND_GRADIENTS].bytes, 30, 1e-9);
    cr_expect_float_eq(out.states[PARAMS_AND_GRADIENTS].efficiency, 1 / 3.5, 1e-9);
    cr_expect_float_eq(out.states[OPTIMIZER_STATES].efficiency, 1 / (1 + 1 + 0.5), 1e-9);
    cr_expect_float_eq(out.states[ACTIVATIONS].efficiency, 1 / (1 + 1 + 0.5), 1e-9);
    cr_expect_float_eq(out.predicted, 1 / (1 + 2.5 + 1.5 + 1.5), 1e-9);
    cr_expect_float_eq(efficiency_measured(&step, 4000), 0.25, 1e-9);
    json_t *json = efficiency_json(&step, &out, 4000);
    cr_expect_float_eq(json_real_value(json_object_get(json, "difference")), 0.25 - 1 / 6.5, 1e-9);
    cr_expect_float_eq(json_real_value(json_object_get(json_object_get(json, "activations"), "flops_per_byte")), 50,
                       1e-9);
    json_decref(json);
}

Test(efficiency, a_step_that_moves_nothing_loses_nothing)
{
    const struct efficiency_step step = {.flops = 1, .flops_per_s = 2};
    struct efficiency out;
    efficiency_predict(&step, &out);
    cr_expect_eq(out.predicted, 1);
    json_t *json = efficiency_json(&step, &out, 1000);
    cr_expect_null(json_object_get(json, "activations"));
    json_decref(json);
}
