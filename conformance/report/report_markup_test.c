// SPDX-License-Identifier: Apache-2.0
// Tests of the reports in XML, by another program's reading of them: the JUnit file, and the page, which is
// self-contained and names every verdict in words; untrusted text cannot leave its place.
#include "conformance/report/report_test.h"

#include "base/command_test.h"
#include "base/folder_test.h"

static struct reported *reported;
static char xml_folder[PATH_MAX], xml_path[PATH_MAX];

// For TestSuite: a friendly run.
static void xml_setup(void)
{
    folder_make(xml_folder);
    cr_assert_lt(snprintf(xml_path, sizeof xml_path, "%.*s/report.xml", PATH_MAX - 16, xml_folder), PATH_MAX);
    reported = reported_open(false);
}

static void xml_teardown(void)
{
    folder_remove(xml_folder);
    reported_close(reported);
}

static void xml_reported(bool hostile)
{
    reported_close(reported);
    reported = reported_open(hostile);
}

// Writes a report as a file, which is well-formed XML; false if xmllint is not installed: the test is skipped.
static bool xml_opens(report_function *report)
{
    char command[2 * PATH_MAX], output[4096], *text = reported_print(reported, report);
    folder_write(xml_path, text, strlen(text));
    free(text);
    if (command_run("xmllint --version >/dev/null 2>&1", output, sizeof output) != 0) {
        printf("TEST SKIPPED: xmllint is not there\n");
        return false;
    }
    snprintf(command, sizeof command, "xmllint --nonet --noout '%s' 2>&1", xml_path);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
    return true;
}

// The value of an XPath expression; valid until the next call.
static const char *xml_get(const char *expression)
{
    static char output[1 << 14];
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "xmllint --nonet --xpath \"%s\" '%s' 2>&1", expression, xml_path);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s: %s", expression, output);
    size_t length = strlen(output);
    if (length > 0 && output[length - 1] == '\n')
        output[length - 1] = '\0';
    return output;
}

static double xml_number(const char *expression)
{
    return atof(xml_get(expression));
}

static void xml_is(const char *expression, const char *expected)
{
    cr_assert_str_eq(xml_get(expression), expected, "%s", expression);
}

static void xml_has(const char *expression, const char *part)
{
    const char *text = xml_get(expression);
    cr_assert_not_null(strstr(text, part), "%s: no \"%s\" in %s", expression, part, text);
}

static void xml_counts(const char *expression, double expected)
{
    cr_assert_eq(xml_number(expression), expected, "%s", expression);
}

TestSuite(report_markup, .init = xml_setup, .fini = xml_teardown);

#define CASE(name) "/testsuites/testsuite/testcase[starts-with(@name, '" name "')]"

Test(report_markup, chapters_are_suites_and_requirements_cases)
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

Test(report_markup, what_is_strict_is_red_as_its_exit_status)
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

Test(report_markup, a_should_decides_where_there_is_no_must)
{
    for (int i = 0; i < REPORTED_COUNT; i++)
        reported->requirements.list[i].must = false;
    if (!xml_opens(report_junit))
        return;
    xml_counts("count(" CASE("R-ARI-03") "/failure)", 1);
    xml_counts("count(" CASE("R-COP-01") "/failure)", 1);
}

Test(report_markup, each_verdict_has_its_element_and_the_sums_are_right)
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

Test(report_markup, a_failure_says_all_that_the_table_says)
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

Test(report_markup, a_command_that_ended_badly_is_an_error_and_nothing_judged_is_skipped)
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

Test(report_markup, hostile_texts_stay_in_their_places)
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

#define ROW(id) "/html/body/main/div/table/tbody/tr[@id = '" id "']"

Test(report_markup, every_requirement_has_a_row_with_its_verdict_in_words)
{
    if (!xml_opens(report_html))
        return;
    static const char *const badges[REPORTED_COUNT] = {"PASS",   "EQUIVALENT", "FAIL", "FAIL",        "BOUNDED",
                                                       "BROKEN", "FAIL",       "FAIL", "UNSUPPORTED", "UNSUPPORTED"};
    xml_counts("count(//tbody/tr)", REPORTED_COUNT);
    xml_counts("count(//h2)", 3);
    for (int i = 0; i < REPORTED_COUNT; i++) {
        char expression[256];
        snprintf(expression, sizeof expression, "string((//tbody/tr)[%d]/td[1])", i + 1);
        cr_assert_str_eq(xml_get(expression), badges[i], "row %d", i);
        snprintf(expression, sizeof expression, "string((//tbody/tr)[%d]/@id)", i + 1);
        cr_assert_str_eq(xml_get(expression), reported->requirements.list[i].id);
        // Failures are unfolded.
        snprintf(expression, sizeof expression, "count((//tbody/tr)[%d]//details[@open])", i + 1);
        cr_assert_eq(xml_number(expression), reported->verdicts[i].verdict >= VERDICT_FAIL, "row %d", i);
    }
    xml_is("string(/html/head/title)", "Example Trainer: FAILS");
    xml_is("string(//dt[. = 'Suite']/following-sibling::dd[1])", "zerogauge " ZG_VERSION ", suite version 1");
    cr_assert_eq(strncmp(xml_get("string(//div[@data-verdict = 'FAILS'])"), "FAILS \xe2\x80\x93 ", 10), 0);
}

Test(report_markup, findings_are_all_there_the_bad_ones_first)
{
    if (!xml_opens(report_html))
        return;
    xml_counts("count(//li)", (double)reported->findings.count);
    xml_counts("count(" ROW("R-COP-01") "//li)", 3);
    const char *first = xml_get("string(" ROW("R-COP-01") "//li[1])");
    cr_assert_not_null(strstr(first, "FAIL case cop-one.resume, seen"), "%s", first);
    cr_assert_not_null(strstr(first, "expected 0x3f80 (1), got 0xc000 (-2)"));
    cr_assert_not_null(strstr(first, hint_text(HINT_STALE_COPY)));
    cr_assert_not_null(strstr(first, "zerogauge check --level quick --case cop-one -- ./adapter {cases} {answers}"));
    xml_has("string(" ROW("R-COP-01") "//li[3])", "PASS case cop-two, seen");
    xml_is("string(" ROW("R-ARI-02") "/td[4])", "1 PASS, 3 EQUIVALENTby ranks in a ringby norm in pairs");
    xml_is("string(" ROW("R-ABS-02") "/td[4])", "no case of this run");
    xml_has("string(" ROW("R-COP-01") "//pre)", "### R-COP-01 MUST: Copies are <fre");
}

Test(report_markup, a_page_needs_nothing_else_and_runs_nothing)
{
    for (int hostile = 0; hostile < 2; hostile++) {
        xml_reported(hostile);
        char *page = reported_print(reported, report_html);
        cr_assert_eq(strncmp(page, "<!DOCTYPE html>\n", 16), 0);
        static const char *const never[] = {
            "<script", "<link", "<img", "<iframe", "src=", "href=", "url(", "@import", "onload", "http:", "https:"};
        for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
            cr_assert_null(strstr(page, never[i]), "%s", never[i]);
        cr_assert_not_null(strstr(page, "default-src 'none'; style-src 'unsafe-inline'"));
        cr_assert_not_null(strstr(page, "prefers-color-scheme: dark"));
        cr_assert_not_null(strstr(page, "@media print"));
        free(page);
    }
}

Test(report_markup, hostile_texts_stay_in_their_places_in_the_page)
{
    xml_reported(true);
    reported->facts.command_failed = true;
    snprintf(reported->facts.command_text, sizeof reported->facts.command_text, "%s", HOSTILE);
    if (!xml_opens(report_html))
        return;
    xml_counts("count(//script)", 0);
    xml_counts("count(//comment())", 0);
    xml_counts("count(//failure)", 0);
    xml_counts("count(//h1)", 1);
    xml_has("string(//h1)", "</failure><script>alert('1')</script> & \"q\" ]]> -->");
    xml_has("string(//dt[. = 'The command failed']/following-sibling::dd[1])", "\\x1b[2J\\x7f \\u{009b}31m");
}

static int report_no_requirement(const struct run_facts *facts, const struct findings *findings,
                                 const struct requirement_verdict verdicts[], int count, FILE *out)
{
    (void)findings, (void)count;
    return report_html(facts, &(struct findings){0}, verdicts, 0, out);
}

Test(report_markup, an_empty_list_is_a_page_too)
{
    xml_opens(report_no_requirement);
}
