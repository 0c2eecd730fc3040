// SPDX-License-Identifier: Apache-2.0
// Tests of the JUnit report: exactly the findings that fail the run are failures, and the sums equal the elements.
#include "conformance/report/report_markup_test.h"

#define CASE(name) "/testsuites/testsuite/testcase[starts-with(@name, '" name "')]"

Test(report_junit, chapters_are_suites_and_requirements_cases)
{
    if (!xml_can_be_read())
        return;
    struct reported *reported = reported_open(false);
    struct xml xml = xml_open(reported, report_junit);
    cr_assert_eq(xml_number(&xml, "count(/testsuites/testsuite)"), 4);
    cr_assert_eq(xml_number(&xml, "count(/testsuites/testsuite/testcase)"), 1 + REPORTED_COUNT);
    cr_assert_str_eq(xml_get(&xml, "string(/testsuites/testsuite[3]/@name)"), "Copies <of> \"A\" & 'B'");
    cr_assert_str_eq(xml_get(&xml, "string(/testsuites/testsuite[3]/testcase[1]/@name)"),
                     "R-COP-01 Copies are <fresh> & \"whole\" ]]>");
    cr_assert_str_eq(xml_get(&xml, "string(/testsuites/testsuite[3]/testcase[1]/@classname)"),
                     "Copies <of> \"A\" & 'B'");
    cr_assert_eq(xml_number(&xml, "number(/testsuites/@time)"), 12.25);
    xml_close(&xml);
    reported_close(reported);
}

Test(report_junit, what_is_strict_is_red_as_its_exit_status)
{
    if (!xml_can_be_read())
        return;
    for (int strict = 0; strict < 2; strict++) {
        struct reported *reported = reported_open(false);
        reported->facts.strict = strict;
        reported->facts.command_failed = false;
        for (int i = 0; i < REPORTED_COUNT; i++)
            if (reported->verdicts[i].verdict >= VERDICT_FAIL)
                reported->verdicts[i].verdict = VERDICT_PASS;
        struct xml xml = xml_open(reported, report_junit);
        cr_assert_eq(xml_number(&xml, "count(//failure)"), strict);
        cr_assert_eq(xml_number(&xml, "number(/testsuites/@failures)"), strict);
        cr_assert_eq(xml_number(&xml, "count(//failure[starts-with(@message, 'CONFORMS-PARTLY: ')])"), strict);
        xml_close(&xml);
        reported_close(reported);
    }
}

Test(report_junit, a_should_decides_where_there_is_no_must)
{
    if (!xml_can_be_read())
        return;
    struct reported *reported = reported_open(false);
    for (int i = 0; i < REPORTED_COUNT; i++)
        reported->requirements.list[i].must = false;
    struct xml xml = xml_open(reported, report_junit);
    cr_assert_eq(xml_number(&xml, "count(" CASE("R-ARI-03") "/failure)"), 1);
    cr_assert_eq(xml_number(&xml, "count(" CASE("R-COP-01") "/failure)"), 1);
    xml_close(&xml);
    reported_close(reported);
}

Test(report_junit, each_verdict_has_its_element_and_the_sums_are_right)
{
    if (!xml_can_be_read())
        return;
    for (int hostile = 0; hostile < 2; hostile++) {
        struct reported *reported = reported_open(hostile);
        struct xml xml = xml_open(reported, report_junit);
        // FAIL of a MUST: three; BROKEN: one; UNSUPPORTED: two, and the SHOULD that is not fulfilled.
        cr_assert_eq(xml_number(&xml, "count(//failure)"), 3);
        cr_assert_eq(xml_number(&xml, "count(//error)"), 1);
        cr_assert_eq(xml_number(&xml, "count(//skipped)"), 3);
        cr_assert_eq(xml_number(&xml, "count(" CASE("R-COP-01") "/failure)"), 1);
        cr_assert_eq(xml_number(&xml, "count(" CASE("R-COP-03") "/error)"), 1);
        cr_assert_eq(xml_number(&xml, "count(" CASE("R-ARI-03") "/skipped)"), 1);
        cr_assert_eq(xml_number(&xml, "count(" CASE("R-ABS-01") "/skipped)"), 1);
        cr_assert_eq(xml_number(&xml, "count(" CASE("R-ABS-02") "/skipped)"), 1);
        cr_assert_eq(xml_number(&xml, "count(" CASE("R-ARI-01") "/*)"), 0);
        cr_assert_eq(xml_number(&xml, "count(" CASE("R-ARI-02") "/*)"), 0);
        cr_assert_eq(xml_number(&xml, "count(" CASE("R-COP-02") "/*)"), 0);
        static const char *const sums[][2] = {
            {"tests", "testcase"}, {"failures", "failure"}, {"errors", "error"}, {"skipped", "skipped"}};
        for (int i = 0; i < 4; i++) {
            char sum[128], elements[128];
            snprintf(sum, sizeof sum, "number(/testsuites/@%s)", sums[i][0]);
            snprintf(elements, sizeof elements, "count(//%s)", sums[i][1]);
            cr_assert_eq(xml_number(&xml, sum), xml_number(&xml, elements), "%s", sums[i][0]);
            for (int suite = 1; suite <= 4; suite++) {
                snprintf(sum, sizeof sum, "number(/testsuites/testsuite[%d]/@%s)", suite, sums[i][0]);
                snprintf(elements, sizeof elements, "count(/testsuites/testsuite[%d]//%s)", suite, sums[i][1]);
                cr_assert_eq(xml_number(&xml, sum), xml_number(&xml, elements), "%s", sum);
            }
        }
        xml_close(&xml);
        reported_close(reported);
    }
}

Test(report_junit, a_failure_says_all_that_the_table_says)
{
    if (!xml_can_be_read())
        return;
    struct reported *reported = reported_open(false);
    struct xml xml = xml_open(reported, report_junit);
    cr_assert_str_eq(xml_get(&xml, "string(" CASE("R-COP-01") "/failure/@message)"), "case cop-one.resume, seen");
    cr_assert_str_eq(xml_get(&xml, "string(" CASE("R-COP-01") "/failure/@type)"), "stale-copy");
    const char *text = xml_get(&xml, "string(" CASE("R-COP-01") "/failure)");
    cr_assert_not_null(strstr(text, "first: step 3, rank 1, micro-step 0, seen of layer.0.weight, element 16\n"), "%s",
                       text);
    cr_assert_not_null(strstr(text, "bits: expected 0x3f80 (1), got 0xc000 (-2), 384.5 roundings apart; 3 of 128"));
    cr_assert_not_null(strstr(text, hint_text(HINT_STALE_COPY)));
    cr_assert_not_null(strstr(text, "repeat: zerogauge check --level quick --case cop-one -- ./adapter {cases}"));
    cr_assert_str_eq(xml_get(&xml, "string(" CASE("R-ABS-01") "/skipped/@message)"), "declined: no moments");
    cr_assert_str_eq(xml_get(&xml, "string(" CASE("R-ABS-02") "/skipped/@message)"), "no case of this run");
    cr_assert_str_eq(xml_get(&xml, "string(" CASE("R-ARI-03") "/skipped/@message)"), "SHOULD, FAIL");
    cr_assert_not_null(strstr(xml_get(&xml, "string(" CASE("R-ARI-03") "/system-out)"), "12 bytes where 8"));
    xml_close(&xml);
    reported_close(reported);
}

Test(report_junit, a_command_that_ended_badly_is_an_error_and_nothing_judged_is_skipped)
{
    if (!xml_can_be_read())
        return;
    struct reported *reported = reported_open(false);
    reported->findings.count = 0;
    reported_judge(reported);
    struct xml xml = xml_open(reported, report_junit);
    cr_assert_eq(xml_number(&xml, "count(/testsuites/testsuite[1]/testcase/skipped)"), 1);
    cr_assert_eq(xml_number(&xml, "count(//skipped)"), 1 + REPORTED_COUNT);
    xml_close(&xml);
    reported->facts.command_failed = true;
    snprintf(reported->facts.command_text, sizeof reported->facts.command_text, "%s", HOSTILE);
    xml = xml_open(reported, report_junit);
    cr_assert_eq(xml_number(&xml, "count(/testsuites/testsuite[1]/testcase/error)"), 1);
    cr_assert_eq(xml_number(&xml, "number(/testsuites/@errors)"), 1);
    cr_assert_not_null(strstr(xml_get(&xml, "string(//error/@message)"), "</failure><script>"));
    xml_close(&xml);
    reported_close(reported);
}

Test(report_junit, hostile_texts_stay_in_their_places)
{
    if (!xml_can_be_read())
        return;
    struct reported *reported = reported_open(true);
    struct xml xml = xml_open(reported, report_junit);
    cr_assert_eq(xml_number(&xml, "count(//script)"), 0);
    const char *message = xml_get(&xml, "string(" CASE("R-ABS-01") "/skipped/@message)");
    cr_assert_not_null(strstr(message, "</failure><script>alert('1')</script> & \"q\" ]]> --> <!-- \\x01\\x08\\x1b[2J"),
                       "%s", message);
    cr_assert_not_null(strstr(message, "\xe2\x82\xac\\x0d\nCONFORMS: every MUST\n tab %s%n"));
    xml_close(&xml);
    reported_close(reported);
}
