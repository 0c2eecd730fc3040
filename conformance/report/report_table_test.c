// SPDX-License-Identifier: Apache-2.0
// Tests of the table, as people read it.
#include "conformance/report/report_test.h"

#include "base/folder_test.h"

#include <fcntl.h>

static struct reported *reported;

static void setup(void)
{
    reported = reported_open(false);
}

static void teardown(void)
{
    reported_close(reported);
}

TestSuite(report_table, .init = setup, .fini = teardown);

// The file that holds what the table looks like. To make it anew after a change that is meant, run this test with
// ZG_GOLDEN set, and read the difference before it is kept.
Test(report_table, it_looks_like_the_golden_file)
{
    static const char path[] = ZG_SOURCE_DIR "/conformance/report/report_table_test.txt";
    char *table = reported_print(reported, report_table);
    if (getenv("ZG_GOLDEN"))
        folder_write(path, table, strlen(table));
    size_t bytes;
    char *golden = folder_read(path, &bytes);
    golden[bytes] = '\0';
    cr_assert_str_eq(table, golden);
    free(golden);
    free(table);
}

// Why there is no measurement may be in the program's words.
Test(report_table, observations_stand_at_the_head_and_are_escaped)
{
    struct observations *all = &reported->facts.observations;
    *all = (struct observations){.count = 2, .list = {{.stage = 1, .world = 4}, {.stage = 3, .world = 4}}};
    all->list[0].peak_bytes = 6 << 20;
    all->list[0].unsharded_peak_bytes = 10 << 20;
    all->list[0].formula_saved_bytes = 4 << 20;
    snprintf(all->list[1].why, sizeof all->list[1].why, "declined: \x1b[2J");
    char *table = reported_print(reported, report_table);
    cr_assert_not_null(
        strstr(table, "\n  observed: stage 1, 4 ranks: 1 MiB a rank less than stage 0 (formula 1 MiB)\n"), "%s", table);
    cr_assert_not_null(strstr(table, "\n  observed: stage 3, 4 ranks: not observed: declined: "), "%s", table);
    cr_assert_null(strchr(table, '\x1b'), "%s", table);
    free(table);
}

Test(report_table, the_command_that_ended_badly_is_reported_and_fails_the_run)
{
    reported->findings.count = 0;
    reported_judge(reported);
    char *table = reported_print(reported, report_table);
    cr_assert_not_null(strstr(table, "\nNOTHING-JUDGED ("), "%s", table);
    free(table);
    reported->facts.command_failed = true;
    snprintf(reported->facts.command_text, sizeof reported->facts.command_text, "exited with status 3\nTraceback");
    table = reported_print(reported, report_table);
    cr_assert_not_null(strstr(table, "\nThe command failed: exited with status 3\n    Traceback\n"), "%s", table);
    cr_assert_not_null(strstr(table, "\nFAILS ("), "%s", table);
    cr_assert_null(strstr(table, "NOTHING-JUDGED"));
    free(table);
}

Test(report_table, what_two_requirements_fail_by_is_printed_once)
{
    int first = 0, second = 0;
    for (int i = 0; i < REPORTED_COUNT; i++) {
        first = strcmp(reported->verdicts[i].requirement->id, "R-COP-01") == 0 ? i : first;
        second = strcmp(reported->verdicts[i].requirement->id, "R-COP-05") == 0 ? i : second;
    }
    cr_assert_lt(first, second);
    reported->verdicts[second].worst = reported->verdicts[first].worst;
    char *table = reported_print(reported, report_table);
    cr_assert_null(strstr(table, "\nFAIL R-COP-05 MUST"), "%s", table);
    const char *begin = strstr(table, "\nFAIL R-COP-01 MUST: "), *end = begin ? strstr(begin, "\n\n") : NULL;
    static const char also[] = "\n  also    R-COP-05 MUST: t is the number of updates";
    cr_assert(end && end - begin > (long)strlen(also), "%s", table);
    cr_assert_eq(strncmp(end - strlen(also), also, strlen(also)), 0, "%s", table);
    free(table);
}

static int put_first(const struct run_facts *facts, const struct findings *findings,
                     const struct requirement_verdict verdicts[], int count, FILE *out)
{
    (void)findings;
    report_first(facts, verdicts, count, out);
    return ERR_NONE;
}

static void first_is(const char *expected)
{
    char *line = reported_print(reported, put_first);
    cr_expect_str_eq(line, expected);
    free(line);
}

// A MUST before a SHOULD, then the cause of most requirements, then SPEC.md's order.
Test(report_table, the_first_line_is_the_cause_by_which_most_requirements_fail)
{
    struct requirement_verdict *copies = NULL, *updates = NULL, *twice = NULL;
    for (int i = 0; i < REPORTED_COUNT; i++) {
        const char *id = reported->verdicts[i].requirement->id;
        copies = strcmp(id, "R-COP-01") == 0 ? &reported->verdicts[i] : copies;
        twice = strcmp(id, "R-COP-04") == 0 ? &reported->verdicts[i] : twice;
        updates = strcmp(id, "R-COP-05") == 0 ? &reported->verdicts[i] : updates;
    }
    cr_assert(copies && updates && twice);
    first_is(
        "Look first at R-COP-01, case cop-one.resume, seen: Forward used the parameters of another step, usually an "
        "earlier one. Check that the gather follows the update, on every rank and for every micro-step.\n");
    twice->worst = updates->worst;
    first_is("Look first at R-COP-04, case cop-two, decision, the cause by which 2 requirements fail: Bias correction "
             "uses the wrong t. Check where t begins, that it advances once per step and not once per tensor or "
             "sub-group, and how a skipped step and a checkpoint treat it.\n");
    reported->findings.count = 0;
    reported_judge(reported);
    first_is("");
    reported->facts.command_failed = true;
    snprintf(reported->facts.command_text, sizeof reported->facts.command_text, "exited with status 3\nTraceback");
    first_is("Look first at the command: exited with status 3\n    Traceback\n");
}

Test(report_table, hostile_texts_begin_no_line_and_hide_nothing)
{
    reported_close(reported);
    reported = reported_open(true);
    char *table = reported_print(reported, report_table);
    cr_assert_null(strstr(table, "\nCONFORMS"));
    cr_assert_not_null(strstr(table, "\n    CONFORMS: every MUST\n"), "it is there, indented");
    cr_assert_not_null(strstr(table, "\nFAILS ("));
    cr_assert_not_null(strstr(table, "\\x1b[2J\\x7f"));
    cr_assert_not_null(strstr(table, "\\u{009b}31m \\u{202e}txet"));
    cr_assert_not_null(strstr(table, "\\xff\\xfe \\xc0\\xbc \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80 \\xe2\\x82 \\u{fffe} "
                                     "\xe2\x82\xac\\x0d\n"));
    for (const char *c = table; *c; c++)
        cr_assert((unsigned char)*c >= 0x20 || *c == '\n', "%x", *c);
    free(table);
}

// The bytes that a terminal receives.
static char *print_to_terminal(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert_geq(master, 0);
    cr_assert_eq(grantpt(master) | unlockpt(master), 0);
    FILE *out = fopen(ptsname(master), "w");
    cr_assert_not_null(out);
    // A terminal holds a few KiB until somebody reads them.
    struct reported few = *reported;
    few.findings.count = 0;
    for (int i = 0; i < REPORTED_COUNT; i++)
        few.verdicts[i] = verdict_of(&few.findings, reported->verdicts[i].requirement);
    cr_assert_eq(report_table(&few.facts, &few.findings, few.verdicts, REPORTED_COUNT, out), ERR_NONE);
    // The output arrives in pieces.
    char *text = calloc(1, 1 << 16);
    size_t used = 0;
    while (!strstr(text, " requirements\r\n")) {
        ssize_t bytes = read(master, text + used, (1 << 16) - 1 - used);
        cr_assert_gt(bytes, 0);
        used += (size_t)bytes;
    }
    fclose(out);
    close(master);
    return text;
}

Test(report_table, colours_are_for_terminals_that_want_them)
{
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    char *table = reported_print(reported, report_table);
    cr_assert_null(strchr(table, '\033'), "no terminal");
    free(table);
    table = print_to_terminal();
    cr_assert_not_null(strstr(table, "\033[2mUNSUPPORTED\033[0m  R-ARI-01"), "%s", table);
    free(table);
    setenv("NO_COLOR", "1", 1);
    table = print_to_terminal();
    cr_assert_null(strchr(table, '\033'), "%s", table);
    cr_assert_not_null(strstr(table, "UNSUPPORTED  R-ARI-01"), "%s", table);
    free(table);
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    table = print_to_terminal();
    cr_assert_null(strchr(table, '\033'), "%s", table);
    free(table);
}
