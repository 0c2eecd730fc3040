// SPDX-License-Identifier: Apache-2.0
#include "ref/executor/emulation.h"

#include "base/err.h"

#include <criterion/criterion.h>

#include <string.h>

Test(emulation, every_lane_that_moves_bytes_has_its_rate_in_bytes_per_second)
{
    struct emulation e;
    cr_assert_eq(emulation_parse("h2d=12,d2h=11.5,nvme-read=3.2,nvme-write=1e-1,collective=70", &e), ERR_NONE);
    cr_expect_eq(e.bytes_per_s[LANE_H2D], 12e9);
    cr_expect_eq(e.bytes_per_s[LANE_D2H], 11.5e9);
    cr_expect_eq(e.bytes_per_s[LANE_NVME_READ], 3.2e9);
    cr_expect_eq(e.bytes_per_s[LANE_NVME_WRITE], 0.1e9);
    cr_expect_eq(e.bytes_per_s[LANE_COLLECTIVE], 70e9);
    cr_expect_eq(e.bytes_per_s[LANE_COMPUTE], 0.0);
    cr_expect_eq(e.bytes_per_s[LANE_CPU], 0.0);
}

Test(emulation, lanes_without_a_rate_are_not_throttled)
{
    struct emulation e = {{1, 2, 3, 4, 5, 6, 7}}, none = {0};
    cr_assert_eq(emulation_parse("nvme-write=2", &e), ERR_NONE);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        cr_expect_eq(e.bytes_per_s[lane], lane == LANE_NVME_WRITE ? 2e9 : 0.0);
    cr_expect(emulation_any(&e));
    cr_expect_not(emulation_any(&none));
}

Test(emulation, the_printed_form_parses_to_the_same)
{
    struct emulation e, again, none = {0};
    char text[EMULATION_TEXT_BYTES];
    cr_assert_eq(emulation_parse("nvme-write=1000000,nvme-read=0.123456789,d2h=1e-6,h2d=12,collective=0.3", &e),
                 ERR_NONE);
    cr_expect_str_eq(emulation_text(&e, text), "collective=0.3,h2d=12,d2h=1e-06,nvme-read=0.123456789,"
                                               "nvme-write=1000000");
    cr_assert_eq(emulation_parse(text, &again), ERR_NONE);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        cr_expect_eq(again.bytes_per_s[lane], e.bytes_per_s[lane]);
    cr_expect_str_eq(emulation_text(&none, text), "");
}

Test(emulation, a_bad_rate_or_lane_is_refused_by_name)
{
    static const struct {
        const char *text, *message;
    } CASES[] = {
        {"", "\"\": expected LANE=GB/s,... with lanes of collective, h2d, d2h, nvme-read, nvme-write"},
        {"h2d", "\"h2d\": expected LANE=GB/s"},
        {"=3", "\"=3\": expected LANE=GB/s"},
        {"h2d=1,", "\"\": expected LANE=GB/s"},
        {",h2d=1", "\"\": expected LANE=GB/s"},
        {"h2d=1,,d2h=2", "\"\": expected LANE=GB/s"},
        {"nvme=3", "\"nvme=3\": expected LANE=GB/s"},
        {"nvme_read=3", "\"nvme_read=3\": expected LANE=GB/s"},
        {"H2D=3", "\"H2D=3\": expected LANE=GB/s"},
        {"h2=3", "\"h2=3\": expected LANE=GB/s"},
        {"h2d=12, d2h=12", "\" d2h=12\": expected LANE=GB/s"},
        {"h2d=12,compute=3", "\"compute=3\": this lane computes and cannot be emulated"},
        {"cpu=3", "\"cpu=3\": this lane computes and cannot be emulated"},
        {"h2d=12,d2h=2,h2d=12", "\"h2d=12\": the lane is given twice"},
        {"h2d=0", "\"h2d=0\": expected a number of GB/s from 1e-06 to 1e+06"},
        {"h2d=-1", "\"h2d=-1\": expected a number"},
        {"h2d=", "\"h2d=\": expected a number"},
        {"h2d=inf", "\"h2d=inf\": expected a number"},
        {"h2d=nan", "\"h2d=nan\": expected a number"},
        {"h2d=0x10", "\"h2d=0x10\": expected a number"},
        {"h2d=1e999", "\"h2d=1e999\": expected a number"},
        {"h2d=1e-7", "\"h2d=1e-7\": expected a number"},
        {"h2d=1.5.2", "\"h2d=1.5.2\": expected a number"},
        {"h2d=12GB", "\"h2d=12GB\": expected a number"},
        {"h2d=1=2", "\"h2d=1=2\": expected a number"},
        {"h2d=\xff", "\"h2d=\\xff\": expected a number"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct emulation e;
        cr_expect_eq(emulation_parse(CASES[i].text, &e), ERR_USAGE, "%s", CASES[i].text);
        cr_expect(strncmp(err_message(), "--emulate: ", 11) == 0 &&
                      strncmp(err_message() + 11, CASES[i].message, strlen(CASES[i].message)) == 0,
                  "%s", err_message());
    }
}

Test(emulation, a_benchmark_of_the_lanes_throttles_computing_lanes_too)
{
    struct emulation e;
    char text[EMULATION_TEXT_BYTES];
    cr_assert_eq(emulation_parse_all("cpu=2,compute=5,h2d=1", &e), ERR_NONE, "%s", err_message());
    cr_expect_eq(e.bytes_per_s[LANE_CPU], 2e9);
    cr_expect_eq(e.bytes_per_s[LANE_COMPUTE], 5e9);
    cr_expect_str_eq(emulation_text(&e, text), "compute=5,h2d=1,cpu=2");
    cr_expect_eq(emulation_parse_all("gpu=2", &e), ERR_USAGE);
    cr_expect(strstr(err_message(), "cpu, and compute=GFLOP/s"), "%s", err_message());
}

Test(emulation, a_list_of_a_megabyte_makes_a_short_message)
{
    static char text[1 << 20];
    memset(text, 'x', sizeof text - 1);
    struct emulation e;
    cr_expect_eq(emulation_parse(text, &e), ERR_USAGE);
    cr_expect_lt(strlen(err_message()), 400u);
}
