// SPDX-License-Identifier: Apache-2.0
// The command line: exit statuses, files that are never overwritten, and a page in a real browser.
#include "base/command_test.h"
#include "bench/harness/printed_test.h"
#include "results/page/result_report.h"
#include "results/page/rich_test.h"
#include "base/safe_text.h"
#include "results/record/record_verify.h"
#include "results/page/result_view.h"

TestSuite(cmd_report, .init = sample_folder_make, .fini = sample_folder_remove);

// Runs `zerogauge report` with up to four words; returns its output, which the caller frees.
static char *report(int expected_status, const char *a, const char *b, const char *c, const char *d)
{
    const char *argv[] = {"report", a, b, c, d, NULL};
    int argc = 0;
    while (argv[argc])
        argc++;
    struct printed printed = printed_begin();
    int status = report_main(argc, argv);
    char *text = printed_end(printed);
    cr_expect_eq(status, expected_status, "%s %s: %d", a, b ? b : "", status);
    return text;
}

static void expect_printed(const char *what, const char *a, const char *b, const char *c, const char *d)
{
    char *text = report(0, a, b, c, d);
    cr_expect(strstr(text, what), "%s, expected %s", text, what);
    free(text);
}

Test(cmd_report, an_unedited_file_is_verified_and_shown)
{
    char path[PATH_MAX];
    rich_write(strcpy(path, sample_path("a.jsonl")), NULL, 1);
    expect_printed("verified; INVALID", "--verify", path, NULL, NULL);
    expect_printed("# INVALID", path, NULL, NULL, NULL);
    expect_printed("# INVALID", "--markdown", path, NULL, NULL);
    expect_printed("within noise", "--compare", path, path, NULL);
}

static void edit(const char *path, const char *from, const char *to)
{
    char command[2 * PATH_MAX], output[256];
    snprintf(command, sizeof command, "sed -i '0,/%s/s//%s/' '%s'", from, to, path);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
}

Test(cmd_report, an_edited_file_is_refused_and_not_shown)
{
    char path[PATH_MAX], page[PATH_MAX];
    rich_write(strcpy(path, sample_path("a.jsonl")), NULL, 1);
    edit(path, "\"samples\":\\[0", "\"samples\":[1");
    strcpy(page, sample_path("a.html"));
    free(report(1, "--verify", path, NULL, NULL));
    char *text = report(1, path, NULL, NULL, NULL);
    cr_expect_str_eq(text, "");
    free(text);
    free(report(1, "--html", page, path, NULL));
    cr_expect_neq(access(page, F_OK), 0);
    free(report(1, "--compare", path, path, NULL));
}

Test(cmd_report, usage_errors_are_reported)
{
    char path[PATH_MAX];
    rich_write(strcpy(path, sample_path("a.jsonl")), NULL, 1);
    free(report(2, NULL, NULL, NULL, NULL));
    free(report(2, "--compare", path, NULL, NULL));
    free(report(2, "--markdown", "--verify", path, NULL));
    free(report(2, "--nothing", path, NULL, NULL));
    free(report(2, sample_path("not there"), NULL, NULL, NULL));
    free(report(2, "--leaderboard", sample_path("not there"), NULL, NULL));
    free(report(2, "--leaderboard", sample_folder, path, NULL));
}

Test(cmd_report, outputs_are_new_files)
{
    char path[PATH_MAX], page[PATH_MAX];
    rich_write(strcpy(path, sample_path("a.jsonl")), NULL, 1);
    strcpy(page, sample_path("a.html"));
    free(report(0, "--html", page, path, NULL));
    cr_expect_eq(access(page, F_OK), 0);
    free(report(2, "--html", page, path, NULL));
    free(report(2, "-o", path, path, NULL));
    free(report(0, "-o", sample_path("table.md"), path, NULL));
    cr_expect_eq(access(sample_path("table.md"), F_OK), 0);
}

Test(cmd_report, the_leaderboard_has_a_row_for_each_verified_file)
{
    char path[PATH_MAX];
    rich_write(strcpy(path, sample_path("b.jsonl")), NULL, 1.5);
    rich_write(sample_path("a.jsonl"), NULL, 1);
    sample_put("README.md", "no result", 9);
    char *text = report(0, "--leaderboard", sample_folder, NULL, NULL);
    const char *first = strstr(text, "| a.jsonl |"), *second = strstr(text, "| b.jsonl |");
    cr_expect(first && second && first < second, "%s", text);
    cr_expect(strstr(text, "| adam | nvme | overlap | memory on cuda | latency |"), "%s", text);
    free(text);
    edit(path, "\"samples\":\\[0", "\"samples\":[1");
    free(report(1, "--leaderboard", sample_folder, NULL, NULL));
}

Test(cmd_report, a_run_that_is_valid_by_its_own_ranges_is_marked_and_not_ranked)
{
    char path[PATH_MAX], whole[sizeof SAMPLE_RUN];
    const char *lines[16] = {whole}, *level = strstr(SAMPLE_RUN, "\"quick\",");
    snprintf(whole, sizeof whole, "%.*s\"full\",%s", (int)(level - SAMPLE_RUN), SAMPLE_RUN, level + 8);
    for (size_t i = 1; sample_file[i]; i++)
        lines[i] = sample_file[i];
    strcpy(path, sample_write("b.jsonl", lines));
    rich_write(sample_path("a.jsonl"), NULL, 1);
    char *text = report(0, "--verify", path, NULL, NULL);
    cr_expect(strstr(text, "verified; VALID BY OWN LIMITS: adam-update is looser, adam-fused is missing, "), "%s",
              text);
    free(text);
    expect_printed("# VALID BY OWN LIMITS\n\nevery result is within its accepted range, but the ranges are not the "
                   "default ones: adam-update is looser",
                   path, NULL, NULL, NULL);
    text = report(0, "--leaderboard", sample_folder, NULL, NULL);
    cr_expect(strstr(text, "\n| no | A processor | 2 | 1 KiB | VALID BY OWN LIMITS | full | "), "%s", text);
    cr_expect_null(strstr(text, "\n| yes "), "%s", text);
    free(text);
    free(report(0, "--html", sample_path("b.html"), path, NULL));
    char command[PATH_MAX + 128], output[4096];
    snprintf(command, sizeof command, "grep -c 'but the ranges are not the default ones: adam-update is looser' '%s'",
             sample_path("b.html"));
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
}

// The eight cases of the only accepted range share a row, whose typical case is the lower median. Cases without a range
// have no row.
Test(cmd_report, a_summary_has_a_row_for_each_accepted_range)
{
    char path[PATH_MAX];
    rich_write(strcpy(path, sample_path("a.jsonl")), NULL, 1);
    char *text = report(0, "--summary", path, NULL, NULL);
    int rows = 0;
    for (const char *at = text; (at = strstr(at, "\n| `")); at++)
        rows++;
    cr_expect(strstr(text, "INVALID, quick, on "), "%s", text);
    cr_expect_eq(rows, 1, "%s", text);
    cr_expect(strstr(text, " of 8 | from "), "%s", text);
    free(text);
    free(report(2, "--summary", "--markdown", path, NULL));
}

// The ratio and the least ratio in the only row of a run's summary.
static void summary_of(const char *path, char ratio[16], double *least)
{
    char *text = report(0, "--summary", path, NULL, NULL), *row = strstr(text, "\n| `");
    cr_assert(row && sscanf(row, " | `asked` | %*[^|]| %*[^|]| %*[^|]| %15[^|]| %lf %% to ", ratio, least) == 2, "%s",
              text);
    free(text);
}

// The first machine's run has another accepted range, whose cell in the second's column is empty.
Test(cmd_report, a_summary_of_several_machines_has_a_column_for_each_and_the_least_ratio)
{
    char other[PATH_MAX], a[PATH_MAX], row[512], ratio[16];
    double least;
    strcpy(other, sample_write("other.jsonl", sample_file));
    rich_write(strcpy(a, sample_path("a.jsonl")), NULL, 1);
    summary_of(a, ratio, &least);
    char *text = report(0, "--summary", other, a, a);
    cr_expect(strstr(text, "\n3. INVALID, quick, on "), "%s", text);
    cr_expect(strstr(text, " | least | accepted |\n| --- | ---: | ---: | ---: | ---: | --- |\n"), "%s", text);
    snprintf(row, sizeof row, "--- |\n| `asked` | | %s| %s| %.1f %% | from 80 %% |\n", ratio, ratio, least);
    cr_expect(strstr(text, row), "%s\nexpected %s", text, row);
    free(text);
    text = report(0, "--summary", a, other, NULL);
    cr_expect(strstr(text, "--- |\n| `adam-update` | | 50.0 % | 50.0 % | from 40 %"), "%s", text);
    free(text);
    free(report(2, "--summary", a, sample_path("not there"), NULL));
    edit(a, "\"samples\":\\[0", "\"samples\":[1");
    free(report(1, "--summary", other, a, NULL));
}

static const struct rich_texts hostile_on_page = {.setting = "\"; system(\"touch evil\") #`touch evil`",
                                                  .text = "<img src=x onerror=alert(1)>"};

// Takes a picture of a page at a phone's or a desktop's width. Returns its size in bytes, 0 without a browser.
static long photograph(const char *page, const char *window)
{
    char command[3 * PATH_MAX], output[4096], picture[PATH_MAX];
    strcpy(picture, sample_path("page.png"));
    unlink(picture);
    snprintf(
        command, sizeof command,
        "timeout 300 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir='%s/profile' "
        "--enable-logging=stderr --window-size=%s --screenshot='%s' 'file://%s' 2>&1",
        sample_folder, window, picture, page);
    int status = command_run(command, output, sizeof output);
    FILE *file = fopen(picture, "r");
    if (status != 0 || !file)
        return 0;
    // The browser reports violations of the page's policy.
    cr_expect_null(strstr(output, "Content Security Policy"), "%s", output);
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    fclose(file);
    return bytes;
}

Test(cmd_report, a_browser_shows_the_page_long)
{
    char path[PATH_MAX], page[PATH_MAX], output[256];
    if (command_run("command -v chromium >/dev/null", output, sizeof output) != 0) {
        printf("TEST SKIPPED: chromium is not there (Debian: chromium)\n");
        return;
    }
    rich_write(strcpy(path, sample_path("a.jsonl")), &hostile_on_page, 1);
    free(report(0, "--html", strcpy(page, sample_path("a.html")), path, NULL));
    // An empty page of these sizes has some kilobytes.
    cr_expect_gt(photograph(page, "390,844"), 20000);
    cr_expect_gt(photograph(page, "1200,900"), 30000);
}

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
    cr_expect_eq(count_of(page, "<td>0</td><td>\u2013</td><td>21.5</td>"), 1);
    cr_expect_eq(count_of(page, "<td>1</td><td>19.25</td><td>\u2013</td>"), 1);
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

Test(cmd_report, steps_of_a_script_become_a_file_that_verifies)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"device/bits\t1764300000.25\t1764300001.5\t0\t./isa_cuda_test -j1\n"
         "races/memcheck\t1764300001.5\t1764300003\t77\tcompute-sanitizer\n"
         "size/torch\t1764300003\t1764300004\t124\tpython3 torch_gpu.py\n",
         0},
        {"", 2},
        {"device/bits\t1764300000.25\t1764300001.5\t0\n", 2},
        {"device/bits\t1764300002\t1764300001\t0\ttrue\n", 2},
        {"device/bits\tnan\t1764300001\t0\ttrue\n", 2},
        {"device/bits\t1764300000\t1764300001\t256\ttrue\n", 2},
        {"device/bits\t1764300000\t1764300001\t-1\ttrue\n", 2},
        {"\t1764300000\t1764300001\t0\ttrue\n", 2},
        {"a\t1764300005\t1764300006\t0\ttrue\nb\t1764300000\t1764300001\t0\ttrue\n", 2},
    };
    char steps[PATH_MAX], out[PATH_MAX];
    strcpy(out, sample_path("tests.jsonl"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy(steps, sample_put("steps.tsv", cases[i].text, strlen(cases[i].text)));
        free(report(cases[i].status, "--parts", steps, "--output", out));
        cr_expect_eq(access(out, F_OK) == 0, cases[i].status == 0, "%s", cases[i].text);
        if (cases[i].status != 0)
            continue;
        expect_printed("verified; MEASURED", "--verify", out, NULL, NULL);
        struct result_file file;
        cr_assert_eq(result_open(out, &file), ERR_NONE, "%s", err_message());
        cr_expect_str_eq(json_string_value(json_object_get(file.run, "started")), "2025-11-28T03:20:00Z");
        cr_expect_eq(file.line_count, 5);
        cr_expect_eq(json_number_value(json_object_get(file.lines[1], "begin_s")), 0.25);
        cr_expect_eq(json_integer_value(json_object_get(file.lines[3], "status")), 124);
        cr_expect_str_eq(json_string_value(json_object_get(file.lines[2], "reason")), "skipped");
        result_close(&file);
        cr_expect_eq(unlink(out), 0);
    }
    free(report(2, "--parts", steps, NULL, NULL));
    free(report(2, "--parts", steps, "--output", out));
    free(report(2, "--parts", "--verify", steps, NULL));
}
