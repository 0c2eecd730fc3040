// SPDX-License-Identifier: Apache-2.0
// How far a run is, as it tells on a terminal and elsewhere; and the words that a command is started with.
#include "conformance/run/check_progress.h"

#include "base/clock.h"
#include "conformance/run/check_test.h"

#include <criterion/redirect.h>

TestSuite(check_progress, .init = check_setup, .fini = check_teardown);

Test(check_progress, time_left_is_told_when_there_is_a_pace)
{
    static const struct {
        size_t answered;
        double seconds;
        bool bar;
        int world;
        const char *text;
    } rows[] = {
        {4, 8, false, 2, "4 of 40 cases, 2 ranks"},
        {10, 0.5, false, 2, "10 of 40 cases, 2 ranks"},
        {10, 8, false, 2, "10 of 40 cases, 2 ranks, 24 s left"},
        {10, 8, true, 1, "[#####---------------] 10 of 40 cases, 1 rank, 24 s left"},
        {39, 78, true, 3, "[###################-] 39 of 40 cases, 3 ranks, 2 s left"},
        {99, 80, true, 3, "[####################] 40 of 40 cases, 3 ranks, 0 s left"},
    };
    char text[CHECK_PROGRESS_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct check_progress progress = {.all_count = 40, .world = rows[i].world};
        check_progress_text(&progress, rows[i].answered, rows[i].seconds, rows[i].bar, text);
        cr_expect_str_eq(text, rows[i].text);
    }
}

// Two answers in this launch's folder, three of earlier ones.
Test(check_progress, elsewhere_than_on_a_terminal_a_line_is_told_every_ten_seconds)
{
    char text[256];
    struct check_progress progress = {.all_count = 9, .done_count = 3, .world = 2, .answers = folder};
    cr_assert_eq(run("mkdir adam clip"), 0);
    cr_redirect_stderr();
    progress.shown_s = clock_now_s() - 9.5;
    progress.begin_s = clock_now_s() - 100;
    check_progress_tick(&progress, 0);
    progress.shown_s -= 1;
    check_progress_tick(&progress, 0);
    check_progress_tick(&progress, 0);
    fflush(stderr);
    FILE *printed = cr_get_redirected_stderr();
    cr_assert_not_null(fgets(text, sizeof text, printed));
    cr_expect_str_eq(text, "zerogauge check: 5 of 9 cases, 2 ranks, 80 s left\n");
    fclose(stderr);
    cr_expect_null(fgets(text, sizeof text, printed));
}

// The answers come through the wrapper, which reports do not name.
Test(check_progress, a_command_starts_with_the_words_of_its_wrapper)
{
    write_text("wraps", "#!/bin/sh\necho \"$1\" >>$(dirname $0)/log; shift; exec \"$@\"\n");
    cr_assert_eq(check("--case adam-eps.w2.s1.fp32 --out out --wrapper \"./wraps 'one word'\" -- " ZG_BINARY_DIR
                       "/zerogauge answer {cases} {answers} {world}"),
                 0, "%s", output);
    cr_assert_eq(run("cat log; cat out/report.jsonl"), 0);
    cr_expect_eq(strncmp(output, "one word\n{", 10), 0, "%.100s", output);
    lacks("wraps");
    cr_assert_eq(check("--wrapper 'x\\' --case adam-eps.w2.s1.fp32"), 2, "%s", output);
    has("zerogauge check: --wrapper x\\: error in parameter quoting");
}
