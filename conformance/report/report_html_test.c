// SPDX-License-Identifier: Apache-2.0
// Tests of the page: it is self-contained, it names every verdict in words, and untrusted text cannot leave its place.
#include "conformance/report/report_markup_test.h"

TestSuite(report_html, .init = xml_setup, .fini = xml_teardown);

#define ROW(id) "/html/body/div/table/tbody/tr[@id = '" id "']"

Test(report_html, every_requirement_has_a_row_with_its_verdict_in_words)
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

Test(report_html, findings_are_all_there_the_bad_ones_first)
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

Test(report_html, a_page_needs_nothing_else_and_runs_nothing)
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

Test(report_html, hostile_texts_stay_in_their_places)
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

Test(report_html, an_empty_list_is_a_page_too)
{
    xml_opens(report_no_requirement);
}
