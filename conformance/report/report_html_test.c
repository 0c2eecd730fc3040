// SPDX-License-Identifier: Apache-2.0
// Tests of the page: it is self-contained, it names every verdict in words, and untrusted text cannot leave its place.
#include "conformance/report/report_markup_test.h"

#define ROW(id) "/html/body/div/table/tbody/tr[@id = '" id "']"

Test(report_html, every_requirement_has_a_row_with_its_verdict_in_words)
{
    if (!xml_can_be_read())
        return;
    struct reported *reported = reported_open(false);
    struct xml xml = xml_open(reported, report_html);
    static const char *const badges[REPORTED_COUNT] = {"PASS",   "EQUIVALENT", "FAIL", "FAIL",        "BOUNDED",
                                                       "BROKEN", "FAIL",       "FAIL", "UNSUPPORTED", "UNSUPPORTED"};
    cr_assert_eq(xml_number(&xml, "count(//tbody/tr)"), REPORTED_COUNT);
    cr_assert_eq(xml_number(&xml, "count(//h2)"), 3);
    for (int i = 0; i < REPORTED_COUNT; i++) {
        char expression[256];
        snprintf(expression, sizeof expression, "string((//tbody/tr)[%d]/td[1])", i + 1);
        cr_assert_str_eq(xml_get(&xml, expression), badges[i], "row %d", i);
        snprintf(expression, sizeof expression, "string((//tbody/tr)[%d]/@id)", i + 1);
        cr_assert_str_eq(xml_get(&xml, expression), reported->requirements.list[i].id);
        // Failures are unfolded.
        snprintf(expression, sizeof expression, "count((//tbody/tr)[%d]//details[@open])", i + 1);
        cr_assert_eq(xml_number(&xml, expression), reported->verdicts[i].verdict >= VERDICT_FAIL, "row %d", i);
    }
    cr_assert_str_eq(xml_get(&xml, "string(/html/head/title)"), "Example Trainer: FAILS");
    cr_assert_str_eq(xml_get(&xml, "string(//dt[. = 'Suite']/following-sibling::dd[1])"),
                     "zerogauge " ZG_VERSION ", suite version 1");
    cr_assert_eq(strncmp(xml_get(&xml, "string(//div[@data-verdict = 'FAILS'])"), "FAILS \xe2\x80\x93 ", 10), 0);
    xml_close(&xml);
    reported_close(reported);
}

Test(report_html, findings_are_all_there_the_bad_ones_first)
{
    if (!xml_can_be_read())
        return;
    struct reported *reported = reported_open(false);
    struct xml xml = xml_open(reported, report_html);
    cr_assert_eq(xml_number(&xml, "count(//li)"), (double)reported->findings.count);
    cr_assert_eq(xml_number(&xml, "count(" ROW("R-COP-01") "//li)"), 3);
    const char *first = xml_get(&xml, "string(" ROW("R-COP-01") "//li[1])");
    cr_assert_not_null(strstr(first, "FAIL case cop-one.resume, seen"), "%s", first);
    cr_assert_not_null(strstr(first, "expected 0x3f80 (1), got 0xc000 (-2)"));
    cr_assert_not_null(strstr(first, hint_text(HINT_STALE_COPY)));
    cr_assert_not_null(strstr(first, "zerogauge check --level quick --case cop-one -- ./adapter {cases} {answers}"));
    cr_assert_not_null(strstr(xml_get(&xml, "string(" ROW("R-COP-01") "//li[3])"), "PASS case cop-two, seen"));
    cr_assert_str_eq(xml_get(&xml, "string(" ROW("R-ARI-02") "/td[4])"),
                     "1 PASS, 3 EQUIVALENTby ranks in a ringby norm in pairs");
    cr_assert_str_eq(xml_get(&xml, "string(" ROW("R-ABS-02") "/td[4])"), "no case of this run");
    cr_assert_not_null(strstr(xml_get(&xml, "string(" ROW("R-COP-01") "//pre)"), "### R-COP-01 MUST: Copies are <fre"));
    xml_close(&xml);
    reported_close(reported);
}

Test(report_html, a_page_needs_nothing_else_and_runs_nothing)
{
    for (int hostile = 0; hostile < 2; hostile++) {
        struct reported *reported = reported_open(hostile);
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
        reported_close(reported);
    }
}

Test(report_html, hostile_texts_stay_in_their_places)
{
    if (!xml_can_be_read())
        return;
    struct reported *reported = reported_open(true);
    reported->facts.command_failed = true;
    snprintf(reported->facts.command_text, sizeof reported->facts.command_text, "%s", HOSTILE);
    struct xml xml = xml_open(reported, report_html);
    cr_assert_eq(xml_number(&xml, "count(//script)"), 0);
    cr_assert_eq(xml_number(&xml, "count(//comment())"), 0);
    cr_assert_eq(xml_number(&xml, "count(//failure)"), 0);
    cr_assert_eq(xml_number(&xml, "count(//h1)"), 1);
    cr_assert_not_null(strstr(xml_get(&xml, "string(//h1)"), "</failure><script>alert('1')</script> & \"q\" ]]> -->"));
    cr_assert_not_null(strstr(xml_get(&xml, "string(//dt[. = 'The command failed']/following-sibling::dd[1])"),
                              "\\x1b[2J\\x7f \\u{009b}31m"));
    xml_close(&xml);
    reported_close(reported);
}

Test(report_html, an_empty_list_is_a_page_too)
{
    if (!xml_can_be_read())
        return;
    struct reported *reported = reported_open(false);
    char path[PATH_MAX], folder[PATH_MAX], command[2 * PATH_MAX], output[4096];
    folder_make(folder);
    snprintf(path, sizeof path, "%.*s/empty.html", PATH_MAX - 16, folder);
    FILE *out = fopen(path, "w");
    struct findings none = {0};
    cr_assert_eq(report_html(&reported->facts, &none, reported->verdicts, 0, out), ERR_NONE);
    fclose(out);
    snprintf(command, sizeof command, "xmllint --nonet --noout '%s' 2>&1", path);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
    folder_remove(folder);
    reported_close(reported);
}
