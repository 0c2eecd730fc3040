// SPDX-License-Identifier: Apache-2.0
// Votes over results that are given, and what repeated runs change.
#include "validate/health/vote.h"

#include "base/err.h"
#include "validate/health/pin.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

enum { CORES = 4, BYTES = 64 };

static unsigned char results[CORES][2 * BYTES], again_result[BYTES];
static struct core_run runs[CORES];
static struct health_round_setting setting;
static struct health_operation operations[2];
static int cores[CORES];
static int again_code;

// Results of a repeated run.
static int repeat_run(const struct health_operation *operation, const struct health_place *place, uint64_t seed,
                      void *result)
{
    (void)operation, (void)seed;
    cr_assert_gt(place->attempt, 0);
    memcpy(result, again_result, BYTES);
    return again_code == ERR_NONE ? ERR_NONE : err_set(again_code, "again");
}

// Every core has the same right result of operation 0, and of operation 1, which is another instruction set's.
static void set_up(size_t count)
{
    int core;
    cr_assert_geq(pin_cores(&core, 1), 1);
    operations[0] = (struct health_operation){
        .name = "first", .lane = HEALTH_MEMORY, .result_bytes = BYTES, .element_bytes = 4, .run = repeat_run};
    operations[1] = operations[0];
    operations[1].name = "second";
    setting = (struct health_round_setting){
        .cores = cores, .core_count = count, .operations = operations, .operation_count = 2, .round = 3, .seed = 9};
    again_code = ERR_NONE;
    for (size_t i = 0; i < count; i++) {
        cores[i] = core;
        memset(results[i], 7, sizeof results[i]);
        runs[i] = (struct core_run){.setting = &setting, .index = i, .results = results[i]};
    }
    memset(again_result, 7, sizeof again_result);
}

static struct health_round vote(void)
{
    struct health_round round = {0};
    cr_assert_eq(health_vote(runs, 0, &round), ERR_NONE, "%s", err_message());
    return round;
}

Test(vote, cores_that_agree_have_no_mismatch_and_a_digest)
{
    set_up(3);
    struct health_round round = vote();
    cr_expect_eq(round.mismatch_count, 0);
    cr_expect_eq(strlen(round.digests[0]), 32);
}

Test(vote, one_core_alone_agrees_with_itself)
{
    set_up(1);
    cr_expect_eq(vote().mismatch_count, 0);
}

Test(vote, the_minority_is_named_with_its_first_element_and_its_wrong_bytes)
{
    set_up(3);
    results[1][13] ^= 1;
    results[1][40] ^= 2;
    struct health_round round = vote();
    cr_assert_eq(round.mismatch_count, 1);
    const struct health_mismatch *m = round.mismatches;
    cr_expect_eq(m->core, cores[1]);
    cr_expect_eq(m->element, 3);
    cr_expect_eq(m->wrong_bytes, 2);
    cr_expect_eq(m->round, 3);
    cr_expect_eq(m->seed, 9);
    cr_expect_eq(m->again, 10);
    cr_expect_eq(m->again_wrong, 0);
    char text[512];
    health_mismatch_text(m, text, sizeof text);
    cr_expect(strstr(text, "first: element 3 of its result is wrong, 2 bytes in all; wrong again in 0 of 10 runs"),
              "%s", text);
    health_round_free(&round);
}

Test(vote, a_fault_that_stays_is_wrong_in_every_repeated_run)
{
    set_up(4);
    results[3][0] ^= 1;
    again_result[0] ^= 1;
    struct health_round round = vote();
    cr_assert_eq(round.mismatch_count, 1);
    cr_expect_eq(round.mismatches[0].again_wrong, 10);
    health_round_free(&round);
}

Test(vote, an_operation_that_fails_is_outvoted_and_says_why)
{
    set_up(2);
    runs[1].codes[0] = ERR_CHECK;
    snprintf(runs[1].texts[0], sizeof runs[1].texts[0], "offset 8: wrong");
    struct health_round round = vote();
    cr_assert_eq(round.mismatch_count, 1);
    cr_expect_str_eq(round.mismatches[0].text, "offset 8: wrong");
    health_round_free(&round);
}

Test(vote, of_two_that_disagree_the_one_is_named_whose_result_does_not_return)
{
    set_up(2);
    results[0][20] ^= 1;
    memset(results[0] + BYTES, 8, BYTES);
    memset(results[1] + BYTES, 8, BYTES);
    struct health_round round = vote();
    cr_assert_eq(round.mismatch_count, 1);
    cr_expect_eq(round.mismatches[0].element, 5);
    cr_expect_eq(strlen(round.digests[0]), 32);
    health_round_free(&round);
}

Test(vote, one_core_that_finds_its_own_error_is_named_with_its_text)
{
    set_up(1);
    runs[0].codes[0] = ERR_CHECK;
    snprintf(runs[0].texts[0], sizeof runs[0].texts[0], "offset 8: wrong");
    struct health_round round = vote();
    cr_assert_eq(round.mismatch_count, 1);
    cr_expect_eq(round.mismatches[0].core, cores[0]);
    cr_expect_eq(round.mismatches[0].again, 10);
    cr_expect_eq(round.mismatches[0].again_wrong, 0);
    cr_expect_str_eq(round.mismatches[0].text, "offset 8: wrong");
    cr_expect_eq(strlen(round.digests[0]), 32, "the repeated runs agree");
    health_round_free(&round);
}

// Repeated runs keep what each core had: no majority ever.
static int keep(const struct health_operation *operation, const struct health_place *place, uint64_t seed, void *result)
{
    (void)operation, (void)place, (void)seed;
    memcpy(result, again_result, BYTES);
    again_result[0]++;
    return ERR_NONE;
}

Test(vote, without_a_majority_nobody_is_named)
{
    set_up(2);
    operations[0].run = keep;
    results[0][20] ^= 1;
    struct health_round round = vote();
    cr_assert_eq(round.mismatch_count, 1);
    cr_expect_eq(round.mismatches[0].core, -1);
    cr_expect_str_eq(round.digests[0], "");
    health_round_free(&round);
}

Test(vote, another_instruction_sets_result_decides_between_two)
{
    set_up(2);
    operations[0].run = operations[1].run = keep;
    operations[1].variant = 1;
    // Repeated runs differ from each other, from both results and from the variant's.
    again_result[0] = 100;
    results[0][20] ^= 1;
    struct health_round round = vote();
    cr_assert_geq(round.mismatch_count, 1);
    cr_expect_eq(round.mismatches[0].core, cores[0]);
    cr_expect_eq(round.mismatches[0].element, 5);
    health_round_free(&round);
}
