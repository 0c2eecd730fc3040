// SPDX-License-Identifier: Apache-2.0
// `check --expect`, with a program that leaves out the answers of one case.
#include "conformance/run/check_test.h"

TestSuite(expect, .init = check_setup, .fini = check_teardown);

#define CASES "--case '@(adam-eps|clip-off).w2.s1.fp32' "
#define LEAVES_OUT(name)                                                                                               \
    " -- sh -c '" ZG_BINARY_DIR "/zerogauge answer $0 $1 $2 $3; rm -rf $1/" name "*' {cases} {answers} {world} "       \
    "{state}"

static void write_expected(const char *lines)
{
    cr_assert_eq(run("printf '%%s\\n' '%s' >expected", lines), 0);
}

Test(expect, a_failure_that_is_not_expected_is_a_regression_and_update_writes_it_down)
{
    write_expected("suite 3\n# the comment stays");
    cr_assert_eq(check(CASES "--expect expected" LEAVES_OUT("adam-eps")), 1, "%s", output);
    has("REGRESSION   R-OPT-05 BROKEN\n");
    has("NOT AS EXPECTED: 0 expected, ");
    cr_assert_eq(check(CASES "--expect expected --update" LEAVES_OUT("adam-eps")), 0, "%s", output);
    cr_assert_eq(run("cat expected"), 0);
    has("suite 3\n# the comment stays\n");
    has("\nexpect R-OPT-05 BROKEN say why");
    lacks("R-CLIP-05");
    cr_assert_eq(check(CASES "--expect expected" LEAVES_OUT("adam-eps")), 0, "%s", output);
    has("expected     R-OPT-05 BROKEN: say why");
    has("\nAS EXPECTED: ");
    // A defect that is mended is a difference, too, until the file says so.
    cr_assert_eq(check(CASES "--expect expected"), 1, "%s", output);
    has("UNEXPECTED   R-OPT-05 PASS, and BROKEN was expected: say why");
    cr_assert_eq(check(CASES "--expect expected --update"), 0, "%s", output);
    cr_assert_eq(run("cat expected"), 0);
    cr_assert_str_eq(output, "suite 3\n# the comment stays\n");
}

Test(expect, cases_explain_what_fails_in_them_alone)
{
    write_expected(
        "suite 3\ncases adam-eps.* it is left out, https://example.org/1\nexpect R-LORA-01 FAIL not asked here");
    cr_assert_eq(check(CASES "--json --expect expected" LEAVES_OUT("adam-eps")), 0, "%s", output);
    has("expected     cases adam-eps.*: it is left out, https://example.org/1\nAS EXPECTED: 1 expected, 0 not\n");
    cr_assert_eq(check(CASES "--expect expected" LEAVES_OUT("clip-off")), 1, "%s", output);
    has("UNEXPECTED   cases adam-eps.* do not fail: it is left out");
    has("REGRESSION   R-CLIP-05 BROKEN\n");
    lacks("R-OPT-05 BROKEN\n");
    cr_assert_eq(check("--case clip-off.w2.s1.fp32 --expect expected"), 0, "a pattern without a case here: %s", output);
    has("AS EXPECTED: 0 expected, 0 not\n");
}

Test(expect, the_file_chooses_the_suite_version_and_a_run_that_judges_nothing_is_no_success)
{
    write_expected("suite 2");
    cr_assert_eq(check("--case adam-eps.w2.s1.fp32 --json --expect expected"), 0, "%s", output);
    has("\"edition\":2");
    cr_assert_eq(check("--case adam-eps.w2.s1.fp32 --expect expected -- sh -c false {cases} {answers}"), 1, "%s",
                 output);
    has("REGRESSION ");
    cr_assert_eq(check("--suite-version 3 --case adam-eps.w2.s1.fp32 --expect expected"), 2, "%s", output);
    has("--suite-version 3: expected is of suite version 2");
}

Test(expect, a_line_that_is_none_is_refused_by_its_number)
{
    static const struct {
        const char *lines, *message;
    } rows[] = {
        {"suite 9", "expected, line 1: suite 9: expected 1 to 3"},
        {"suite 3 x", "expected, line 1: suite 3 x: expected 1 to 3"},
        {"suite 3\n\nexpect R-OPT-99 FAIL why", "expected, line 3: there is no requirement \"R-OPT-99\""},
        {"suite 3\nexpect R-OPT-05 FAILS why", "expected, line 2: \"FAILS\" is no verdict: write one such as FAIL"},
        {"suite 3\nexpect R-OPT-05 FAIL", "expected, line 2: say why, at the end of the line"},
        {"suite 3\ncases adam-*", "expected, line 2: say why, at the end of the line"},
        {"suite 3\nfail R-OPT-05", "expected, line 2: expected suite, expect, cases or #: fail"},
        {"# nothing", "expected: no line says of which suite version it is: write \"suite 3\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_expected(rows[i].lines);
        cr_assert_eq(check("--case adam-eps.w2.s1.fp32 --expect expected"), 2, "%s", output);
        has(rows[i].message);
    }
    cr_assert_eq(check("--expect missing"), 2);
    has("missing: ");
    cr_assert_eq(check("--update"), 2);
    has("give --expect FILE, too");
    cr_assert_eq(check("--list --expect expected --update"), 2);
}
