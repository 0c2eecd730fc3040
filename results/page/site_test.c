// SPDX-License-Identifier: Apache-2.0
// The site of a folder: its pages, a run's place among others, hostile texts, and the script that its policy allows.
#include "base/command_test.h"
#include "conformance/spec/requirement.h"
#include "results/page/result_report.h"
#include "results/page/rich_test.h"

#include <sys/stat.h>

TestSuite(site, .init = sample_folder_make, .fini = sample_folder_remove);

static char *text_of(const char *path)
{
    char *text;
    size_t bytes;
    FILE *file = fopen(path, "r"), *out = open_memstream(&text, &bytes);
    cr_assert_not_null(file, "%s", path);
    for (int c; (c = fgetc(file)) != EOF;)
        fputc(c, out);
    fclose(file);
    fclose(out);
    return text;
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        count++;
    return count;
}

// Expects that a page of the test's site has a text this many times.
static void expect_has(const char *page, const char *what, size_t times)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/site/%s", sample_folder, page);
    char *text = text_of(path);
    cr_expect_eq(count_of(text, what), times, "%s has %s %zu times, expected %zu", page, what, count_of(text, what),
                 times);
    free(text);
}

static void make(int expected)
{
    char from[PATH_MAX], to[PATH_MAX];
    cr_expect_eq(site(strcpy(from, sample_path("results")), strcpy(to, sample_path("site"))), expected, "%s",
                 err_message());
}

static void add(const char *name, const struct rich_texts *texts, double speed)
{
    char path[PATH_MAX];
    mkdir(sample_path("results"), 0700);
    mkdir(sample_path("results/deep"), 0700);
    snprintf(path, sizeof path, "%s/results/%s", sample_folder, name);
    rich_write(path, texts, speed);
}

static const struct rich_texts hostile = {.setting = "\"><script>alert(1)</script>",
                                          .text = "<img src=x onerror=alert(1)>"};

Test(site, a_run_has_its_place_among_those_of_its_kind)
{
    add("a.jsonl", NULL, 1);
    add("b.jsonl", NULL, 1);
    add("deep/c.jsonl", NULL, 2);
    make(ERR_NONE);
    expect_has("index.html", "<tr data-kind=", 3);
    expect_has("index.html", "3 files", 1);
    expect_has("run-a.html", "Among the runs of its kind of machine", 2);
    expect_has("run-a.html", "<a href=\"run-b.html\">b</a></td><td>20", 1);
    expect_has("run-a.html", "<td>23</td><td>23, 100 %</td>", 1);
    expect_has("run-deep-c.html", "<td>23</td><td>15, 65 %</td>", 2);
    expect_has("requirements.html", "<main>", 1);
    expect_has("findings.html", "<table>", 0);
}

Test(site, two_builds_are_the_same_bytes_and_nothing_is_overwritten)
{
    char command[3 * PATH_MAX], output[256];
    add("a.jsonl", NULL, 1);
    make(ERR_NONE);
    make(ERR_USAGE);
    snprintf(command, sizeof command, "mv '%s/site' '%s/first'", sample_folder, sample_folder);
    cr_assert_eq(command_run(command, output, sizeof output), 0);
    make(ERR_NONE);
    snprintf(command, sizeof command, "diff -r '%s/site' '%s/first'", sample_folder, sample_folder);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
}

Test(site, hostile_texts_stay_texts_and_names_stay_in_the_folder)
{
    FILE *file;
    add("x'\"><script>alert(1).jsonl", &hostile, 1);
    file = fopen(sample_path("results/time-machine.md"), "w");
    fputs("# A <b>title</b>\n\n| bug | b |\n| --- | --- |\n| [<script>](javascript:x) | `c` |\n", file);
    fclose(file);
    mkdir(sample_path("results/findings"), 0700);
    file = fopen(sample_path("results/findings/defects.md"), "w");
    fputs("# Defects\n\n### Crashes\n\n| script | effect |\n| --- | --- |\n| [a](scripts/a.py) | wrong |\n", file);
    fclose(file);
    make(ERR_NONE);
    expect_has("findings.html", "<tr><td>a</td><td>wrong</td></tr>", 1);
    expect_has("findings.html", "# ", 0);
    expect_has("index.html", "<script>", 1);
    expect_has("index.html", "<img", 0);
    expect_has("index.html", "&lt;script&gt;alert(1)", 1);
    expect_has("run-x----script-alert-1-.html", "<script", 0);
    expect_has("run-x----script-alert-1-.html", "<img", 0);
    expect_has("findings.html", "<tr><td>&lt;script&gt;</td><td>c</td></tr>", 1);
    expect_has("findings.html", "A &lt;b&gt;title&lt;/b&gt;", 2);
}

Test(site, two_files_of_one_page_are_refused_before_anything_is_written)
{
    struct stat status;
    add("deep/c.jsonl", NULL, 1);
    add("deep-c.jsonl", NULL, 1);
    make(ERR_USAGE);
    cr_expect(strstr(err_message(), "deep-c.jsonl and deep/c.jsonl: both would be run-deep-c.html"), "%s",
              err_message());
    cr_expect_neq(stat(sample_path("site"), &status), 0);
}

// A folder may have both what `validate` and what `check` left.
Test(site, a_report_of_check_is_left_out_and_said)
{
    char command[3 * PATH_MAX], output[4096];
    add("a.jsonl", NULL, 1);
    snprintf(command, sizeof command,
             "cd '%s' && " ZG_BINARY_DIR "/zerogauge check --case 'adam-eps.w2.s1.fp32' --out results/deep/check "
             ">out && " ZG_BINARY_DIR "/zerogauge report --site results --output site 2>&1",
             sample_folder);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    cr_expect_str_eq(output, "zerogauge report: results/deep/check/report.jsonl: left out: it is a report of "
                             "`zerogauge check`, not a result file\n");
    expect_has("index.html", "<tr data-kind=", 1);
}

// Writes the file of an implementation that passes the requirements of suite version 1, but for the first one.
static void add_implementation(const char *first)
{
    FILE *file = fopen(sample_path("results/implementations.json"), "w");
    const struct requirement *requirement;
    fprintf(file, "[{\"release\": \"mine <b>\", \"started\": \"2026\", \"suite_version\": 1, \"verdicts\": {");
    for (int i = 1; (requirement = requirement_at(i)); i++)
        if (requirement_is_of(requirement, 1))
            fprintf(file, "%s\"%s\": \"PASS\"", i == 1 ? "" : ", ", requirement->id);
    fprintf(file, "%s}}]", first);
    fclose(file);
}

Test(site, implementations_have_a_column_when_they_are_complete)
{
    struct stat status;
    char made[PATH_MAX];
    add("a.jsonl", NULL, 1);
    add_implementation(", \"R-ANS-01\": \"GOOD\"");
    make(ERR_USAGE);
    add_implementation(", \"R-NONE-01\": \"PASS\"");
    make(ERR_USAGE);
    cr_expect_neq(stat(sample_path("site"), &status), 0);
    add_implementation("");
    make(ERR_NONE);
    expect_has("requirements.html", "mine", 0);
    strcpy(made, sample_path("site"));
    cr_assert_eq(rename(made, sample_path("first")), 0);
    add_implementation(", \"R-ANS-01\": \"FAIL\"");
    make(ERR_NONE);
    expect_has("requirements.html", "mine &lt;b&gt;", 1);
    expect_has("requirements.html", "<td>R-ANS-01</td><td><span class=\"badge\" data-verdict=\"FAIL\">", 1);
}

Test(site, a_file_that_does_not_verify_makes_no_site)
{
    struct stat status;
    add("a.jsonl", NULL, 1);
    sample_put("results/b.jsonl", "{}\n", 3);
    make(ERR_USAGE);
    cr_expect_neq(stat(sample_path("site"), &status), 0);
}

Test(site, the_policy_allows_the_one_script_by_its_digest)
{
    char command[3 * PATH_MAX], output[256];
    add("a.jsonl", NULL, 1);
    make(ERR_NONE);
    snprintf(command, sizeof command,
             "python3 -c 'import base64, hashlib, re, sys; text = open(sys.argv[1], encoding=\"utf-8\").read(); "
             "script = re.search(\"<script>(.*)</script>\", text, re.S).group(1); "
             "print(text.count(\"sha256-\" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()))' "
             "'%s/site/index.html'",
             sample_folder);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
    cr_expect_str_eq(output, "1\n");
    expect_has("index.html", "http", 1);  // http-equiv
}
