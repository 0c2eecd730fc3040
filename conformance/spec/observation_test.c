// SPDX-License-Identifier: Apache-2.0
#include "conformance/spec/observation.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { MIB = 1 << 20 };

// Stage 3 on 4 ranks, of which the formulas promise 48 MiB each.
static struct observation saving(uint64_t saved_bytes)
{
    return (struct observation){.stage = 3,
                                .world = 4,
                                .peak_bytes = 500u * MIB - saved_bytes,
                                .unsharded_peak_bytes = 500u * MIB,
                                .formula_saved_bytes = 4u * 48 * MIB};
}

Test(observation, half_of_what_the_formulas_promise_is_evidence)
{
    char text[OBSERVATION_TEXT_BYTES];
    struct observation half = saving(96u * MIB), less = saving(96u * MIB - 1);
    cr_assert(observation_shows(&half));
    cr_assert_str_eq(observation_text(&half, text),
                     "stage 3, 4 ranks: 24 MiB a rank less than stage 0 (formula 48 MiB)");
    cr_assert_not(observation_shows(&less));
    cr_assert_str_eq(observation_text(&less, text),
                     "stage 3, 4 ranks: 24 MiB a rank less than stage 0 (formula 48 MiB): no evidence that states are "
                     "sharded");
}

Test(observation, a_stage_may_take_more_than_stage_0)
{
    char text[OBSERVATION_TEXT_BYTES];
    struct observation more = saving(0);
    more.peak_bytes += 8u * MIB;
    cr_assert_eq(observation_saved_bytes(&more), -8 * MIB);
    cr_assert_not(observation_shows(&more));
    cr_assert_str_eq(observation_text(&more, text),
                     "stage 3, 4 ranks: 2 MiB a rank more than stage 0 (formula 48 MiB): no evidence that states are "
                     "sharded");
}

Test(observation, what_was_not_measured_shows_and_lacks_nothing)
{
    char text[OBSERVATION_TEXT_BYTES];
    struct observations all = {.list = {saving(192u * MIB), saving(192u * MIB)}, .count = 2};
    snprintf(all.list[1].why, sizeof all.list[1].why, "declined: no stage 3");
    cr_assert_str_eq(observation_text(&all.list[1], text), "stage 3, 4 ranks: not observed: declined: no stage 3");
    cr_assert_not(observation_shows(&all.list[1]));
    cr_assert(observations_measured(&all));
    cr_assert_not(observations_lack(&all));
    all.list[0] = saving(0);
    cr_assert(observations_lack(&all));
    all.list[0] = all.list[1];
    cr_assert_not(observations_measured(&all));
    cr_assert_not(observations_lack(&all));
}

// Stage 3 on 4 ranks, of which the formulas ask 36 MiB each.
static struct observation sending(uint64_t sent_bytes)
{
    return (struct observation){.stage = 3,
                                .world = 4,
                                .sent_is_known = true,
                                .sent_bytes = sent_bytes,
                                .unsharded_sent_bytes = 4u * 40 * MIB,
                                .formula_sent_bytes = 4u * 36 * MIB,
                                .formula_unsharded_sent_bytes = 4u * 36 * MIB};
}

Test(observation, half_of_what_the_formulas_send_is_an_exchange)
{
    char text[OBSERVATION_TEXT_BYTES];
    struct observation half = sending(72u * MIB), less = sending(72u * MIB - 4);
    cr_assert(observation_shows_exchange(&half));
    cr_assert_str_eq(observation_sent_text(&half, text),
                     "stage 3, 4 ranks: 18 MiB a rank sent over TCP (formula 36 MiB), 40 MiB at stage 0 (formula 36 "
                     "MiB)");
    cr_assert_not(observation_shows_exchange(&less));
    cr_assert_not_null(strstr(observation_sent_text(&less, text), "(formula 36 MiB): what goes another way is not "
                                                                  "observed"));
}

Test(observation, what_the_kernel_does_not_count_is_not_observed)
{
    char text[OBSERVATION_TEXT_BYTES];
    struct observation unknown = sending(144u * MIB), declined = sending(144u * MIB);
    unknown.sent_is_known = false;
    cr_assert_not(observation_shows_exchange(&unknown));
    cr_assert_str_eq(observation_sent_text(&unknown, text),
                     "stage 3, 4 ranks: bytes sent are not observed: the kernel does not tell the counters of sockets");
    snprintf(declined.why, sizeof declined.why, "declined");
    cr_assert_not(observation_shows_exchange(&declined));
}
