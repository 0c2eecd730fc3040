// SPDX-License-Identifier: Apache-2.0
// Votes over results that are given, and what repeated runs change.
#include "validate/health/vote.h"

#include "base/err.h"
#include "base/folder_test.h"
#include "ref/comm/mpirun_test.h"
#include "validate/health/health_round.h"
#include "validate/health/rank_vote.h"
#include "validate/health/exposure.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

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

// The vote between ranks: over given ballots, and under mpirun with a bit flipped on one rank.

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
    static const char *const flipped[] = {"Adam, scalar", "training", "memory", "collective"};
    for (size_t i = 0; i < sizeof flipped / sizeof *flipped; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, ", rank 1: core %d: %s: ", first_core(), flipped[i]);
        cr_expect_eq(soak(2, flipped[i], ""), 1, "%s: %s", flipped[i], output);
        cr_expect(strstr(output, expected), "%s: %s", flipped[i], output);
        cr_expect_eq(times_said(output, "WRONG: "), 1, "%s", output);
        cr_expect(strstr(output, "\n1 wrong results, on 1 of 1 hosts\n"), "%s", output);
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
    json_int_t memory_runs =
        json_integer_value(json_object_get(json_object_get(json_object_get(exposure, "lanes"), "memory"), "runs"));
    cr_expect_eq(memory_runs, 3);
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

static int all_cores[HEALTH_CORE_MAX];
static struct health_operation all_operations[HEALTH_OPERATION_MAX];
static char folder[PATH_MAX];
static const char *const folders[] = {folder, NULL};

static struct health_round_setting set_up_round(void)
{
    folder_make(folder);
    return (struct health_round_setting){.cores = all_cores,
                                         .core_count = pin_cores(all_cores, 2),
                                         .operations = all_operations,
                                         .operation_count = health_operations(true, all_operations),
                                         .folders = folders,
                                         .round = 1,
                                         .seed = 1};
}

// A change of an operation is a change of its known result; a difference between machines is not.
Test(health_round, operations_have_the_bits_of_every_machine)
{
    struct health_round_setting set = set_up_round();
    struct health_round round;
    cr_assert_eq(health_round(&set, &round), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < round.mismatch_count; i++) {
        char text[512];
        health_mismatch_text(&round.mismatches[i], text, sizeof text);
        cr_expect(false, "%s", text);
    }
    health_round_free(&round);
    folder_remove(folder);
}

Test(health_round, a_flipped_bit_of_each_operation_is_found_on_its_core)
{
    struct health_round_setting set = set_up_round();
    for (size_t i = 0; i < set.operation_count; i++) {
        const struct health_flip flip = {all_operations[i].name, all_cores[set.core_count - 1], 1};
        struct health_round round;
        set.flip = &flip;
        cr_assert_eq(health_round(&set, &round), ERR_NONE, "%s", err_message());
        bool named = false;
        for (size_t m = 0; m < round.mismatch_count; m++) {
            cr_expect_eq(round.mismatches[m].operation, &all_operations[i]);
            named |= round.mismatches[m].core == flip.core;
        }
        cr_expect(named || set.core_count == 1, "%s", all_operations[i].name);
        health_round_free(&round);
    }
    folder_remove(folder);
}

Test(health_round, a_core_that_is_not_there_is_an_error)
{
    struct health_round_setting set = set_up_round();
    struct health_round round;
    all_cores[0] = 4000;
    cr_expect_eq(health_round(&set, &round), ERR_USAGE);
    cr_expect_str_eq(err_message(), "core 4000: this process may not run there");
    health_round_free(&round);
    folder_remove(folder);
}

Test(health_round, a_folder_that_cannot_be_written_is_reported)
{
    struct health_round_setting set = set_up_round();
    struct health_round round;
    folder_remove(folder);
    cr_assert_eq(health_round(&set, &round), ERR_NONE);
    cr_expect_gt(round.mismatch_count, 0);
    for (size_t i = 0; i < round.mismatch_count; i++)
        cr_expect(strstr(round.mismatches[i].text, "No such file or directory"), "%s", round.mismatches[i].text);
    health_round_free(&round);
}

// A disk that others filled since the round's room was found is no fault of a core.
Test(health_round, a_disk_without_room_is_an_error_and_no_verdict)
{
    struct health_round_setting set = set_up_round();
    struct health_round round;
    const struct rlimit limit = {64 << 10, 64 << 10};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect_eq(health_round(&set, &round), ERR_USAGE);
    cr_expect_eq(strncmp(err_message(), "--nvme-path ", 12), 0, "%s", err_message());
    cr_expect(strstr(err_message(), folder) && strstr(err_message(), "ulimit -f"), "%s", err_message());
    cr_expect_eq(round.mismatch_count, 0);
    health_round_free(&round);
    folder_remove(folder);
}

Test(exposure, upper_bounds_are_those_of_the_poisson_distribution)
{
    cr_expect_float_eq(health_poisson_upper(0, 0.95), 2.995732, 1e-5);
    cr_expect_float_eq(health_poisson_upper(1, 0.95), 4.743865, 1e-5);
    cr_expect_float_eq(health_poisson_upper(10, 0.95), 16.962219, 1e-5);
    cr_expect_float_eq(health_poisson_upper(100, 0.95), 118.079, 1e-2);
    cr_expect_float_eq(health_poisson_upper(1000, 0.95), 1053.6, 2);
}

Test(exposure, what_is_written_is_read_again)
{
    struct health_exposure out = {.rounds = 3, .seconds = 2.5}, in;
    for (int lane = 0; lane < HEALTH_LANE_COUNT; lane++) {
        out.work.core_seconds[lane] = 1.5 + lane;
        out.work.moving_seconds[lane] = 0.25 + lane;
        out.work.moved_bytes[lane] = 100u + (unsigned)lane;
        out.work.compared_bits[lane] = 200u + (unsigned)lane;
        out.work.runs[lane] = 300u + (unsigned)lane;
        out.events[lane] = 400u + (unsigned)lane;
    }
    json_t *object = health_exposure_json(&out);
    cr_assert_eq(health_exposure_read(object, &in), ERR_NONE, "%s", err_message());
    cr_expect_eq(memcmp(&in, &out, sizeof in), 0);
    json_object_set_new(json_object_get(json_object_get(object, "lanes"), "disk"), "runs", json_integer(-1));
    cr_expect_eq(health_exposure_read(object, &in), ERR_USAGE);
    cr_expect_str_eq(err_message(), "lane disk: a count is negative");
    json_object_del(json_object_get(object, "lanes"), "disk");
    cr_expect_eq(health_exposure_read(object, &in), ERR_USAGE);
    json_decref(object);
}
