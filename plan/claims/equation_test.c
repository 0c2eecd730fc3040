// SPDX-License-Identifier: Apache-2.0
// The papers' equations against values worked out by hand.
#include "plan/claims/equation.h"

#include <criterion/criterion.h>

#include <math.h>

static double value(const char *name, const double arguments[])
{
    const struct equation *equation = equation_find(name);
    cr_assert_not_null(equation, "%s", name);
    return equation->value(arguments);
}

Test(equation, every_one_is_found_by_its_name_and_no_two_share_one)
{
    size_t count = 0;
    for (; equation_at(count); count++) {
        cr_assert_eq(equation_find(equation_at(count)->name), equation_at(count), "%s", equation_at(count)->name);
        cr_assert_not_null(equation_at(count)->arguments[0]);
    }
    cr_assert_geq(count, 19);
    cr_assert_null(equation_find("infinity-12"));
    cr_assert_null(equation_find(""));
}

Test(equation, states_are_cut_term_by_term)
{
    const double expected[] = {16, 8.0 / 2 + 6, 2 + 7, 8};
    for (int stage = 0; stage < 4; stage++)
        cr_assert_eq(value("zero-states", (double[]){1, 12, 2, stage}), expected[stage], "stage %d", stage);
    cr_assert_float_eq(value("zero-states", (double[]){8e9, 8, 5, 3}), 19.2e9, 1);
}

Test(equation, zero_infinity_1_to_5_give_a_trillion_parameters_memory)
{
    cr_assert_eq(value("infinity-1", (double[]){128, 25600}), 12.0 * 128 * 25600 * 25600);
    cr_assert_eq(value("infinity-2", (double[]){128, 25600}), 20 * value("infinity-1", (double[]){128, 25600}));
    cr_assert_eq(value("infinity-3", (double[]){2, 3, 5, 7, 2}), 2.0 * 2 * 3 * 5 * 7 / 2);
    cr_assert_eq(value("infinity-4", (double[]){8192}), 1073741824.0);
    cr_assert_eq(value("infinity-5", (double[]){2, 3, 5, 7, 11}), 2.0 * 3 * 5 * (16 * 7 + 2 * 11 * 3));
}

Test(equation, zero_infinity_6_is_a_half_where_transfer_takes_as_long_as_compute)
{
    cr_assert_eq(value("infinity-6", (double[]){1024, 7e10, 1024 * 7e10}), 0.5);
    double bandwidth = value("infinity-6-bandwidth", (double[]){512, 0.9, 70e12});
    cr_assert_float_eq(value("infinity-6", (double[]){512, bandwidth, 70e12}), 0.9, 1e-12);
    cr_assert_float_eq(bandwidth, 9 * 70e12 / 512, 1);
}

Test(equation, zero_infinity_7_to_11_agree_about_operations_a_byte)
{
    double params = value("infinity-1", (double[]){50, 4096});
    double operations = value("infinity-7", (double[]){8, 1024, params});
    cr_assert_eq(operations, value("infinity-8", (double[]){8, 1024, 50, 4096}));
    // Parameters are read twice and gradients written twice, 2 bytes each; optimizer states are 16 bytes, both ways.
    cr_assert_eq(value("infinity-9", (double[]){1024, 8}), operations / (2 * 4 * params));
    cr_assert_eq(value("infinity-10", (double[]){1024, 8}), operations / (2 * 16 * params));
    // A checkpoint is written and read.
    double checkpoints = value("infinity-3", (double[]){8, 1024, 4096, 50, 1});
    cr_assert_eq(value("infinity-11", (double[]){4096, 1}), operations / (2 * checkpoints));
}

Test(equation, fsdp_full_sharding_sends_half_as_much_again_as_replication)
{
    for (double world = 1; world < 8; world++)
        cr_assert_float_eq(value("fsdp-full", (double[]){1, world}),
                           1.5 * value("fsdp-replicated", (double[]){1, world}), 1e-12);
    cr_assert_eq(value("fsdp-hybrid", (double[]){3, 16, 8}), 2 * 3 * 15.0 / (8 * 16));
}

Test(equation, zeropp_cuts_three_to_three_quarters)
{
    cr_assert_eq(value("zeropp-volume", (double[]){1, 0, 0, 0}), 3);
    cr_assert_eq(value("zeropp-volume", (double[]){1, 1, 1, 1}), 0.75);
    cr_assert_eq(value("zeropp-volume", (double[]){1, 1, 0, 1}), 1.25);
}

Test(equation, activations_and_placements_are_counted_in_bytes)
{
    cr_assert_eq(value("zero-activations", (double[]){2, 3, 5, 7}), 2.0 * 12 * 2 * 3 * 5 * 7);
    cr_assert_eq(value("offload-device", (double[]){1, 0, 1}), 14);
    cr_assert_eq(value("offload-device", (double[]){1, 0, 0}), 2);
}
