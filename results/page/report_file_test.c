// SPDX-License-Identifier: Apache-2.0
// Reports: tables and pages agree with the file, and hostile text in a file stays inert.
#include "base/command_test.h"
#include "base/safe_text.h"
#include "results/record/record_verify.h"
#include "results/page/result_report.h"
#include "results/page/result_view.h"
#include "results/page/rich_test.h"

TestSuite(report_file, .init = sample_folder_make, .fini = sample_folder_remove);

// Returns the report of a file in one of its forms; the caller frees it.
static char *report_of(const char *path, int (*form)(const struct result_view *view, FILE *out))
{
    struct result_file file;
    struct result_view view;
    char *text;
    size_t bytes, refusal_count;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    cr_assert_eq(record_verify(&file, stderr, &refusal_count), ERR_NONE);
    cr_assert_eq(refusal_count, 0);
    cr_assert_eq(result_view_open(&file, &view), ERR_NONE);
    cr_assert_eq(form(&view, out), ERR_NONE, "%s", err_message());
    result_view_close(&view);
    result_close(&file);
    fclose(out);
    return text;
}

enum { CASE_COUNT = 8 + 12 + 1 + 1 + 1 };  // of rich_write

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        count++;
    return count;
}

Test(report_file, a_page_has_the_verdict_on_top_and_every_case)
{
    rich_write(sample_path("a"), NULL, 1);
    char *page = report_of(sample_path("a"), result_html);
    const char *verdict = strstr(page, "<strong>INVALID</strong>"),
               *figures = strstr(page, "Results with accepted ranges");
    cr_assert(verdict && figures && verdict < figures);
    cr_expect_eq(count_of(page, "<div class=\"row\">"), CASE_COUNT);
    cr_expect_eq(count_of(page, "<div class=\"lanes\""), 1);
    cr_expect_eq(count_of(page, "<td>2910</td><td>3000</td><td>0.97</td>"), 1);
    cr_expect_eq(count_of(page, "<td>adam</td><td>1</td><td>21.5</td><td>14.5</td>"), 1);
    cr_expect_eq(count_of(page, "<td>engine=torch</td><td>0=10.5, 4=80</td>"), 1);
    cr_expect_eq(count_of(page, "<script"), 0);
    cr_expect_eq(count_of(page, "http"), 1);  // http-equiv
    free(page);
}

Test(report_file, tables_have_a_row_for_every_case)
{
    rich_write(sample_path("a"), NULL, 1);
    char *table = report_of(sample_path("a"), result_markdown);
    cr_expect_eq(strncmp(table, "# INVALID\n\nthese checks failed\n\n- adam update reaches 0.", 55), 0, "%.60s", table);
    cr_expect_eq(count_of(table, "\n| adam | "), 8 + 1, "a part has the name, too");
    cr_expect_eq(count_of(table, "\n| nvme | "), 12);
    cr_expect_eq(count_of(table, "\n| memory | operation=torch, device=cuda | 2910 | 3000 | 0.97 |\n"), 1, "%s", table);
    free(table);
}

static const struct rich_texts hostile = {
    .setting = "=cmd|' /C calc'!A0,\"<script>alert(1)</script>`|\n&amp;\xe2\x80\xae",
    .text = "]]><img src=x onerror=alert(1)>|[link](http://evil.example)`;\x1b[2J--><!--'\"",
};

Test(report_file, hostile_texts_stay_texts_in_a_page)
{
    rich_write(sample_path("a"), &hostile, 1);
    char *page = report_of(sample_path("a"), result_html);
    cr_expect_eq(count_of(page, "<script"), 0);
    cr_expect_eq(count_of(page, "<img"), 0);
    cr_expect_eq(count_of(page, "\x1b"), 0);
    cr_expect_eq(count_of(page, "\xe2\x80\xae"), 0);
    cr_expect_gt(count_of(page, "&lt;script&gt;"), 8);
    free(page);
}

Test(report_file, a_page_with_hostile_texts_is_well_formed_xml)
{
    char command[PATH_MAX + 64], output[4096];
    if (command_run("xmllint --version >/dev/null 2>&1", output, sizeof output) != 0) {
        printf("TEST SKIPPED: xmllint is not there\n");
        return;
    }
    rich_write(sample_path("a"), &hostile, 1);
    char *page = report_of(sample_path("a"), result_html);
    snprintf(command, sizeof command, "xmllint --nonet --noout '%s' 2>&1", sample_put("page", page, strlen(page)));
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    free(page);
}

Test(report_file, hostile_texts_stay_texts_in_tables)
{
    rich_write(sample_path("a"), &hostile, 1);
    char *table = report_of(sample_path("a"), result_markdown);
    cr_expect_eq(count_of(table, "<script"), count_of(table, "\\<script"));
    cr_expect_eq(count_of(table, "<img"), count_of(table, "\\<img"));
    cr_expect_eq(count_of(table, "[link"), count_of(table, "\\[link"));
    cr_expect_eq(count_of(table, "://"), 0);
    cr_expect_eq(count_of(table, "\x1b"), 0);
    cr_expect_eq(count_of(table, "\n| adam | step=update, recipe==cmd\\|' /C calc'!A0,\"\\<script\\>"), 2);
    free(table);
}

static void expect_text(void (*put)(FILE *out, const char *text), const char *given, const char *expected)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    put(out, given);
    fclose(out);
    cr_expect_str_eq(text, expected);
    free(text);
}

Test(report_file, hostile_texts_are_inert_in_markdown)
{
    expect_text(text_markdown, "a|b*c_d`e\\f<g>&#[h](i)", "a\\|b\\*c_d\\`e\\\\f\\<g\\>\\&\\#\\[h\\](i)");
    expect_text(text_markdown, "http://www.a.b", "http:\\//www\\.a.b");
    expect_text(text_markdown, "_a_b_", "\\_a_b\\_");
    expect_text(text_markdown, "two\nlines", "two lines");
}

Test(report_file, numbers_have_four_significant_digits)
{
    char text[NUMBER_TEXT_BYTES];
    cr_expect_str_eq(number_text(0.46912, text), "0.4691");
    cr_expect_str_eq(number_text(4.6912, text), "4.691");
    cr_expect_str_eq(number_text(469.12, text), "469.1");
    cr_expect_str_eq(number_text(46912, text), "46912");
    cr_expect_str_eq(number_text(100, text), "100");
    cr_expect_str_eq(number_text(0.5, text), "0.5");
    cr_expect_str_eq(number_text(0, text), "0");
    cr_expect_str_eq(number_text(1.5e9, text), "1.500e+09");
    cr_expect_str_eq(bytes_text(1 << 20, text), "1 MiB");
    cr_expect_str_eq(bytes_text(1000, text), "1000 B");
}
