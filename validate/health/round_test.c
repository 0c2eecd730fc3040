// SPDX-License-Identifier: Apache-2.0
// The operations themselves: the same bits on every core and every machine, and a flipped bit of each is found.
#include "validate/health/health_round.h"

#include "base/err.h"
#include "base/folder_test.h"
#include "validate/health/exposure.h"

#include <criterion/criterion.h>

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

static int cores[HEALTH_CORE_MAX];
static struct health_operation operations[HEALTH_OPERATION_MAX];
static char folder[PATH_MAX];
static const char *const folders[] = {folder, NULL};

static struct health_round_setting set_up(void)
{
    folder_make(folder);
    return (struct health_round_setting){.cores = cores,
                                         .core_count = pin_cores(cores, 2),
                                         .operations = operations,
                                         .operation_count = health_operations(true, operations),
                                         .folders = folders,
                                         .round = 1,
                                         .seed = 1};
}

// Of seed 1. A change of an operation is a change of these; a difference between machines is not.
Test(health_round, operations_have_the_bits_of_every_machine)
{
    static const struct {
        const char *name, *digest;
    } expected[] = {
        {"Adam", "d655fe06ef298ac98d235e8d26281f60"},       {"formats", "875550814f54bbbfb77009a1e4fff072"},
        {"rows", "62f3db8808271a27857c373883e2c457"},       {"memory", "3065a6bea02adf5dc7ea73b60072d012"},
        {"collective", "6767b133252b5ed0734d2a659a5b3db4"}, {"training", "6c04c8f797e1c2638b0cf0de1c5da7e6"},
        {"disk", "cc5019b728cad872f98491fb88778ca5"},
    };
    struct health_round_setting setting = set_up();
    struct health_round round;
    cr_assert_eq(health_round(&setting, &round), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < round.mismatch_count; i++) {
        char text[512];
        health_mismatch_text(&round.mismatches[i], text, sizeof text);
        cr_expect(false, "%s", text);
    }
    size_t known = 0;
    for (size_t i = 0; i < setting.operation_count; i++)
        for (size_t k = 0; k < sizeof expected / sizeof expected[0]; k++)
            if (strncmp(operations[i].name, expected[k].name, strlen(expected[k].name)) == 0) {
                cr_expect_str_eq(round.digests[i], expected[k].digest, "%s: %s", operations[i].name, round.digests[i]);
                known++;
            }
    cr_expect_geq(known, 6);
    health_round_free(&round);
    folder_remove(folder);
}

Test(health_round, a_flipped_bit_of_each_operation_is_found_on_its_core)
{
    struct health_round_setting setting = set_up();
    for (size_t i = 0; i < setting.operation_count; i++) {
        const struct health_flip flip = {operations[i].name, cores[setting.core_count - 1], 1};
        struct health_round round;
        setting.flip = &flip;
        cr_assert_eq(health_round(&setting, &round), ERR_NONE, "%s", err_message());
        bool named = false;
        for (size_t m = 0; m < round.mismatch_count; m++) {
            cr_expect_eq(round.mismatches[m].operation, &operations[i]);
            named |= round.mismatches[m].core == flip.core;
        }
        cr_expect(named || setting.core_count == 1, "%s", operations[i].name);
        health_round_free(&round);
    }
    folder_remove(folder);
}

Test(health_round, a_core_that_is_not_there_is_an_error)
{
    struct health_round_setting setting = set_up();
    struct health_round round;
    cores[0] = 4000;
    cr_expect_eq(health_round(&setting, &round), ERR_USAGE);
    cr_expect_str_eq(err_message(), "core 4000: this process may not run there");
    health_round_free(&round);
    folder_remove(folder);
}

Test(health_round, a_folder_that_cannot_be_written_is_reported)
{
    struct health_round_setting setting = set_up();
    struct health_round round;
    folder_remove(folder);
    cr_assert_eq(health_round(&setting, &round), ERR_NONE);
    cr_expect_gt(round.mismatch_count, 0);
    for (size_t i = 0; i < round.mismatch_count; i++)
        cr_expect(strstr(round.mismatches[i].text, "No such file or directory"), "%s", round.mismatches[i].text);
    health_round_free(&round);
}

// A disk that others filled since the round's room was found is no fault of a core.
Test(health_round, a_disk_without_room_is_an_error_and_no_verdict)
{
    struct health_round_setting setting = set_up();
    struct health_round round;
    const struct rlimit limit = {64 << 10, 64 << 10};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect_eq(health_round(&setting, &round), ERR_USAGE);
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
