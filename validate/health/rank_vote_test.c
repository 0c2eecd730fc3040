// SPDX-License-Identifier: Apache-2.0
// The vote between ranks: over given ballots, and under mpirun with a bit flipped on one rank.
#include "validate/health/rank_vote.h"

#include "validate/health/pin.h"
#include "ref/comm/mpirun_test.h"

#include "base/folder_test.h"

#include <criterion/criterion.h>

#include <jansson.h>

static struct health_ballot ballots[4][HEALTH_OPERATION_MAX];

static void cast(int rank, int place, const char *operation, const char *digest)
{
    snprintf(ballots[rank][place].operation, sizeof ballots[rank][place].operation, "%s", operation);
    snprintf(ballots[rank][place].digest, sizeof ballots[rank][place].digest, "%s", digest);
}

static const char *elected(int world, const char *operation)
{
    static char digest[33];
    health_elect_digest(ballots[0], world, operation, digest);
    return digest;
}

Test(rank_vote, most_ranks_decide_and_those_without_the_operation_do_not_vote)
{
    cast(0, 0, "memory", "b");
    cast(1, 0, "Adam, scalar", "c");
    cast(1, 1, "memory", "a");
    cast(2, 0, "memory", "a");
    cr_expect_str_eq(elected(3, "memory"), "a");
    cr_expect_str_eq(elected(2, "memory"), "", "one against one");
    cr_expect_str_eq(elected(1, "memory"), "b");
    cr_expect_str_eq(elected(4, "Adam, scalar"), "c");
    cr_expect_str_eq(elected(4, "disk"), "");
    cast(0, 0, "memory", "");
    cr_expect_str_eq(elected(2, "memory"), "a", "cores without a majority have no vote");
}

Test(rank_vote, of_as_many_the_result_of_other_instruction_sets_decides)
{
    cast(0, 0, "Adam, scalar", "a");
    cast(0, 1, "Adam, avx2", "a");
    cast(1, 0, "Adam, scalar", "b");
    cast(1, 1, "Adam, avx2", "a");
    cr_expect_str_eq(elected(2, "Adam, scalar"), "a");
    cr_expect_str_eq(elected(2, "Adam, avx2"), "a");
    cast(1, 1, "Adam, avx2", "b");
    cr_expect_str_eq(elected(2, "Adam, scalar"), "");
}

static char output[1 << 18];

static int first_core(void)
{
    int core;
    cr_assert_eq(pin_cores(&core, 1), 1);
    return core;
}

// Runs soaks of one round with all ranks on one core; `flipped`: the operation of which rank 1 flips a bit; null: none.
static int soak(int world, const char *flipped, const char *more)
{
    char command[4 * PATH_MAX], each[PATH_MAX + 256], flip[96] = "", rest[2 * PATH_MAX] = "";
    int core = first_core();
    snprintf(each, sizeof each, "taskset -c %d '%s/zerogauge' soak --hours 1e-9 --seed 3 %s", core, ZG_BINARY_DIR,
             more);
    if (flipped)
        snprintf(flip, sizeof flip, "--inject '%s@%d@1'", flipped, core);
    if (world > 2)
        snprintf(rest, sizeof rest, ": -n %d %s", world - 2, each);
    snprintf(command, sizeof command, MPIRUN_ENVIRONMENT "timeout 300 mpirun -n 1 %s : -n 1 %s %s %s 2>&1", each, each,
             flip, rest);
    return command_run(command, output, sizeof output);
}

// Both ranks have one core, whose own result is all that it knows.
Test(rank_vote, a_flip_on_one_of_two_ranks_is_found_and_placed)
{
    MPI_OR_SKIP();
    cr_expect_eq(soak(2, NULL, ""), 0, "%s", output);
    cr_expect(strstr(output, "every result was the same on every core of every rank"), "%s", output);
    cr_expect_eq(soak(2, "link", ""), 1, "%s", output);
    cr_expect(strstr(output, ", rank 1: link: 1 of 131072 words received from rank 0 on host "), "%s", output);
    cr_expect(strstr(output, " are wrong, the first is word 65536\n"), "%s", output);
    static const char *const operations[] = {"Adam, scalar", "training", "memory", "collective"};
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, ", rank 1: core %d: %s: ", first_core(), operations[i]);
        cr_expect_eq(soak(2, operations[i], ""), 1, "%s: %s", operations[i], output);
        cr_expect(strstr(output, expected), "%s: %s", operations[i], output);
        cr_expect_eq(times_said(output, "WRONG: "), 1, "%s", output);
        cr_expect_null(strstr(output, "rank 0: "), "%s", output);
    }
}

Test(rank_vote, a_flip_on_one_of_three_ranks_is_in_the_state_that_rank_0_keeps_for_all)
{
    char folder[PATH_MAX], path[2 * PATH_MAX], option[3 * PATH_MAX];
    MPI_OR_SKIP();
    folder_make(folder);
    snprintf(path, sizeof path, "%s/state.json", folder);
    snprintf(option, sizeof option, "--state %s", path);
    cr_expect_eq(soak(3, "rows, scalar", option), 1, "%s", output);
    json_t *state = json_load_file(path, 0, NULL), *events = json_object_get(state, "events");
    cr_assert_not_null(state, "%s", output);
    cr_expect_eq(json_integer_value(json_object_get(state, "ranks")), 3);
    cr_expect_eq(json_integer_value(json_object_get(state, "cores")), 3);
    cr_assert_eq(json_array_size(events), 1);
    const json_t *event = json_array_get(events, 0);
    cr_expect_eq(json_integer_value(json_object_get(event, "rank")), 1);
    cr_expect_str_eq(json_string_value(json_object_get(event, "operation")), "rows, scalar");
    cr_expect_eq(json_integer_value(json_object_get(event, "wrong_bytes")), 1);
    cr_expect_eq(json_integer_value(json_object_get(event, "wrong_again")), 0);
    json_t *exposure = json_object_get(state, "exposure");
    json_int_t runs =
        json_integer_value(json_object_get(json_object_get(json_object_get(exposure, "lanes"), "memory"), "runs"));
    cr_expect_eq(runs, 3);
    json_decref(state);
    // Rounds go on, the wrong result stays, and what all ranks saw is added.
    cr_expect_eq(soak(3, NULL, option), 1, "%s", output);
    state = json_load_file(path, 0, NULL);
    exposure = json_object_get(state, "exposure");
    cr_expect_eq(json_integer_value(json_object_get(exposure, "rounds")), 2);
    cr_expect_eq(
        json_integer_value(json_object_get(json_object_get(json_object_get(exposure, "lanes"), "memory"), "runs")), 6);
    cr_expect_eq(json_array_size(json_object_get(state, "events")), 1);
    json_decref(state);
    folder_remove(folder);
}
