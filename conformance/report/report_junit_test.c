// SPDX-License-Identifier: Apache-2.0
// Tests of the JUnit report: exactly the findings that fail the run are failures, and the sums equal the elements.
#include "conformance/report/report_markup_test.h"

TestSuite(report_junit, .init = xml_setup, .fini = xml_teardown);

#define CASE(name) "/testsuites/testsuite/testcase[starts-with(@name, '" name "')]"

Test(report_junit, chapters_are_suites_and_requirements_cases)
{
    if (!xml_opens(report_junit))
        return;
    xml_counts("count(/testsuites/testsuite)", 4);
    xml_counts("count(/testsuites/testsuite/testcase)", 1 + REPORTED_COUNT);
    xml_is("string(/testsuites/testsuite[3]/@name)", "Copies <of> \"A\" & 'B'");
    xml_is("string(/testsuites/testsuite[3]/testcase[1]/@name)", "R-COP-01 Copies are <fresh> & \"whole\" ]]>");
    xml_is("string(/testsuites/testsuite[3]/testcase[1]/@classname)", "Copies <of> \"A\" & 'B'");
    xml_counts("number(/testsuites/@time)", 12.25);
}

Test(report_junit, what_is_strict_is_red_as_its_exit_status)
{
    for (int strict = 0; strict < 2; strict++) {
        reported->facts.strict = strict;
        reported->facts.command_failed = false;
        for (int i = 0; i < REPORTED_COUNT; i++)
            if (reported->verdicts[i].verdict >= VERDICT_FAIL)
                reported->verdicts[i].verdict = VERDICT_PASS;
        if (!xml_opens(report_junit))
            return;
        xml_counts("count(//failure)", strict);
        xml_counts("number(/testsuites/@failures)", strict);
        xml_counts("count(//failure[starts-with(@message, 'CONFORMS-PARTLY: ')])", strict);
    }
}

Test(report_junit, a_should_decides_where_there_is_no_must)
{
    for (int i = 0; i < REPORTED_COUNT; i++)
        reported->requirements.list[i].must = false;
    if (!xml_opens(report_junit))
        return;
    xml_counts("count(" CASE("R-ARI-03") "/failure)", 1);
    xml_counts("count(" CASE("R-COP-01") "/failure)", 1);
}

Test(report_junit, each_verdict_has_its_element_and_the_sums_are_right)
{
    for (int hostile = 0; hostile < 2; hostile++) {
        xml_reported(hostile);
        if (!xml_opens(report_junit))
            return;
        // FAIL of a MUST: three; BROKEN: one; UNSUPPORTED: two, and the SHOULD that is not fulfilled.
        xml_counts("count(//failure)", 3);
        xml_counts("count(//error)", 1);
        xml_counts("count(//skipped)", 3);
        xml_counts("count(" CASE("R-COP-01") "/failure)", 1);
        xml_counts("count(" CASE("R-COP-03") "/error)", 1);
        xml_counts("count(" CASE("R-ARI-03") "/skipped)", 1);
        xml_counts("count(" CASE("R-ABS-01") "/skipped)", 1);
        xml_counts("count(" CASE("R-ABS-02") "/skipped)", 1);
        xml_counts("count(" CASE("R-ARI-01") "/*)", 0);
        xml_counts("count(" CASE("R-ARI-02") "/*)", 0);
        xml_counts("count(" CASE("R-COP-02") "/*)", 0);
        static const char *const sums[][2] = {
            {"tests", "testcase"}, {"failures", "failure"}, {"errors", "error"}, {"skipped", "skipped"}};
        for (int i = 0; i < 4; i++) {
            char sum[128], elements[128];
            snprintf(sum, sizeof sum, "number(/testsuites/@%s)", sums[i][0]);
            snprintf(elements, sizeof elements, "count(//%s)", sums[i][1]);
            cr_assert_eq(xml_number(sum), xml_number(elements), "%s", sums[i][0]);
            for (int suite = 1; suite <= 4; suite++) {
                snprintf(sum, sizeof sum, "number(/testsuites/testsuite[%d]/@%s)", suite, sums[i][0]);
                snprintf(elements, sizeof elements, "count(/testsuites/testsuite[%d]//%s)", suite, sums[i][1]);
                cr_assert_eq(xml_number(sum), xml_number(elements), "%s", sum);
            }
        }
    }
}

Test(report_junit, a_failure_says_all_that_the_table_says)
{
    if (!xml_opens(report_junit))
        return;
    xml_is("string(" CASE("R-COP-01") "/failure/@message)", "case cop-one.resume, seen");
    xml_is("string(" CASE("R-COP-01") "/failure/@type)", "stale-copy");
    const char *text = xml_get("string(" CASE("R-COP-01") "/failure)");
    cr_assert_not_null(strstr(text, "first: step 3, rank 1, micro-step 0, seen of layer.0.weight, element 16\n"), "%s",
                       text);
    cr_assert_not_null(strstr(text, "bits: expected 0x3f80 (1), got 0xc000 (-2), 384.5 roundings apart; 3 of 128"));
    cr_assert_not_null(strstr(text, hint_text(HINT_STALE_COPY)));
    cr_assert_not_null(strstr(text, "repeat: zerogauge check --level quick --case cop-one -- ./adapter {cases}"));
    xml_is("string(" CASE("R-ABS-01") "/skipped/@message)", "declined: no moments");
    xml_is("string(" CASE("R-ABS-02") "/skipped/@message)", "no case of this run");
    xml_is("string(" CASE("R-ARI-03") "/skipped/@message)", "SHOULD, FAIL");
    xml_has("string(" CASE("R-ARI-03") "/system-out)", "12 bytes where 8");
}

Test(report_junit, a_command_that_ended_badly_is_an_error_and_nothing_judged_is_skipped)
{
    reported->findings.count = 0;
    reported_judge(reported);
    if (!xml_opens(report_junit))
        return;
    xml_counts("count(/testsuites/testsuite[1]/testcase/skipped)", 1);
    xml_counts("count(//skipped)", 1 + REPORTED_COUNT);
    reported->facts.command_failed = true;
    snprintf(reported->facts.command_text, sizeof reported->facts.command_text, "%s", HOSTILE);
    xml_opens(report_junit);
    xml_counts("count(/testsuites/testsuite[1]/testcase/error)", 1);
    xml_counts("number(/testsuites/@errors)", 1);
    xml_has("string(//error/@message)", "</failure><script>");
}

Test(report_junit, hostile_texts_stay_in_their_places)
{
    xml_reported(true);
    if (!xml_opens(report_junit))
        return;
    xml_counts("count(//script)", 0);
    const char *message = xml_get("string(" CASE("R-ABS-01") "/skipped/@message)");
    cr_assert_not_null(strstr(message, "</failure><script>alert('1')</script> & \"q\" ]]> --> <!-- \\x01\\x08\\x1b[2J"),
                       "%s", message);
    cr_assert_not_null(strstr(message, "\xe2\x82\xac\\x0d\nCONFORMS: every MUST\n tab %s%n"));
}
