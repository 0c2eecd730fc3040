// SPDX-License-Identifier: Apache-2.0
// The command line of `zerogauge report`. It verifies every file before it shows anything.
#include "results/page/result_report.h"

#include "base/file.h"
#include "base/err.h"
#include "base/safe_text.h"
#include "base/help.h"
#include "results/page/history.h"
#include "results/page/submission.h"
#include "results/record/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    int verify, markdown, compare, summary;
    char *html, *leaderboard, *output, *trend, *save_ranges, *submission, *site, *parts, *fleet;
};

static int verify_one(const char *path)
{
    struct result_file file;
    struct result_view view;
    TRY(result_open_verified(path, &file));
    int rc = result_view_open(&file, &view);
    if (rc == ERR_NONE)
        printf("%s: verified; %s%s%s%s%s%s\n", path, view.verdict, *view.own_limits ? ": " : "", view.own_limits,
               *view.unranked ? ", not ranked: " : "", view.unranked,
               strcmp(view_text(file.run, "program"), "bench") == 0 && record_chooses_cases(&file)
                   ? "; its options choose cases, so that a missing one would not be noticed"
                   : "");
    result_view_close(&view);
    result_close(&file);
    return rc;
}

// Verifies every file, even after a failure, and prints each.
static int verify_all(const char **paths)
{
    int worst = ERR_NONE;
    for (size_t i = 0; paths[i]; i++) {
        int rc = verify_one(paths[i]);
        if (rc != ERR_NONE) {
            text_error("zerogauge report");
            err_clear();
            worst = worst == ERR_NONE ? rc : worst;
        }
    }
    return worst;
}

static int show_html(const struct result_view *view, const char *path)
{
    struct file_output page;
    TRY(file_output_open(path, FILE_NEW, &page));
    return file_output_close(&page, result_html(view, page.out));
}

static int show(const struct options *a, const struct result_file *file, bool is_first, FILE *out)
{
    struct result_view view;
    int rc = result_view_open(file, &view);
    if (rc == ERR_NONE && a->html)
        rc = show_html(&view, a->html);
    if (rc == ERR_NONE && !is_first && a->markdown)
        fputc('\n', out);
    if (rc == ERR_NONE && a->markdown)
        rc = result_markdown(&view, out);
    result_view_close(&view);
    return rc;
}

static int show_all(const struct options *a, const char **paths, FILE *out)
{
    for (size_t i = 0; paths[i]; i++) {
        struct result_file file;
        TRY(result_open_verified(paths[i], &file));
        int rc = show(a, &file, i == 0, out);
        result_close(&file);
        TRY(rc);
    }
    return ERR_NONE;
}

static int summarise(const char **paths, size_t count, FILE *out)
{
    struct result_file *files = calloc(count, sizeof *files);
    struct result_view *views = calloc(count, sizeof *views);
    size_t opened = 0;
    int rc = files && views ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %zu files", count);
    for (; rc == ERR_NONE && opened < count; opened++) {
        rc = result_open_verified(paths[opened], &files[opened]);
        if (rc != ERR_NONE)
            break;
        rc = result_view_open(&files[opened], &views[opened]);
    }
    if (rc == ERR_NONE)
        rc = result_summaries(views, count, out);
    while (opened-- > 0) {
        result_view_close(&views[opened]);
        result_close(&files[opened]);
    }
    free(files);
    free(views);
    return rc;
}

static int compare(const char **paths, FILE *out)
{
    struct result_file a, b;
    TRY(result_open_verified(paths[0], &a));
    int rc = result_open_verified(paths[1], &b);
    if (rc == ERR_NONE) {
        rc = result_compare(&a, &b, out);
        result_close(&b);
    }
    result_close(&a);
    return rc;
}

static int save_ranges(const char *path, const char **paths)
{
    struct history history;
    int rc = history_open(paths, &history);
    if (rc == ERR_NONE)
        rc = history_save_ranges(&history, path);
    history_close(&history);
    return rc;
}

static size_t count_of(const char **paths)
{
    size_t count = 0;
    while (paths && paths[count])
        count++;
    return count;
}

static int check_usage(const struct options *a, const char **paths)
{
    size_t count = count_of(paths);
    int modes = a->verify + a->compare + (a->leaderboard != NULL) + (a->trend != NULL) + (a->save_ranges != NULL) +
                (a->submission != NULL) + (a->site != NULL) + (a->fleet != NULL) + a->markdown + a->summary;
    if (modes > 1)
        return err_set(ERR_USAGE,
                       "--verify, --compare, --leaderboard, --trend, --save-ranges, --submission, --site, --fleet, "
                       "--markdown and --summary exclude each other");
    if (a->site && !a->output)
        return err_set(ERR_USAGE, "--site %s: give --output FOLDER, which is made", a->site);
    if ((a->verify || a->save_ranges) && (a->html || a->output))
        return err_set(ERR_USAGE,
                       "--verify and --save-ranges write no page and no tables: leave out --html and --output");
    if (a->parts && (modes > 0 || a->html || count > 0 || !a->output))
        return err_set(ERR_USAGE, "--parts %s: give --output FILE, and nothing else", a->parts);
    if (a->html && (a->compare || a->leaderboard || a->trend || a->submission || a->site))
        return err_set(ERR_USAGE, "--html shows one result file: it goes with no other view");
    if (a->leaderboard || a->trend || a->submission || a->site || a->fleet)
        return count == 0
                   ? ERR_NONE
                   : err_set(ERR_USAGE,
                             "%s: --leaderboard, --trend, --submission, --site and --fleet take all files of a folder",
                             paths[0]);
    if (count == 0 && !a->parts)
        return err_set(ERR_USAGE, "give a result file of `zerogauge validate`");
    if (a->compare && count != 2)
        return err_set(ERR_USAGE, "--compare takes two result files, not %zu", count);
    if (a->html && count != 1)
        return err_set(ERR_USAGE, "--html takes one result file, not %zu", count);
    return ERR_NONE;
}

static int run(struct options *a, const char **paths, int argc, const char **argv)
{
    struct file_output file = {.out = stdout};
    bool in_service = true;
    TRY(check_usage(a, paths));
    if (a->parts)
        return parts_record(a->parts, a->output, argc, argv);
    if (a->verify)
        return verify_all(paths);
    if (a->save_ranges)
        return save_ranges(a->save_ranges, paths);
    if (a->site)
        return site(a->site, a->output);
    if (!a->html && !a->summary && !a->fleet)
        a->markdown = 1;
    if (a->output)
        TRY(file_output_open(a->output, FILE_NEW, &file));
    FILE *out = file.out;
    int rc = a->leaderboard  ? leaderboard(a->leaderboard, out)
             : a->submission ? submission_check(a->submission, out)
             : a->trend      ? history_trend(a->trend, out)
             : a->compare    ? compare(paths, out)
             : a->fleet      ? fleet_report(a->fleet, a->html, out, &in_service)
             : a->summary    ? summarise(paths, count_of(paths), out)
                             : show_all(a, paths, out);
    if (a->output)
        rc = file_output_close(&file, rc);
    else if (rc == ERR_NONE)
        rc = file_flush(out, "the report");
    return rc == ERR_NONE && !in_service ? ERR_CHECK : rc;
}

static const char *const examples[] = {
    "zerogauge report --html page.html results/result.jsonl",
    "zerogauge report --verify results/result.jsonl",
    "zerogauge report --trend results",
    "zerogauge report --save-ranges pool-b.json node*/result.jsonl",
    "zerogauge report --compare yesterday/result.jsonl results/result.jsonl",
    NULL,
};

static const struct help help = {
    .usage = "[OPTION...] FILE...",
    .text = "Verifies, shows and compares result files. It recomputes every figure from the raw samples first.",
    .examples = examples,
};

int report_main(int argc, const char **argv)
{
    struct options a = {0};
    const struct poptOption options[] = {
        {"verify", '\0', POPT_ARG_NONE, &a.verify, 0, "only recompute everything that follows from the samples", NULL},
        {"markdown", '\0', POPT_ARG_NONE, &a.markdown, 0, "tables in Markdown (the default)", NULL},
        {"summary", '\0', POPT_ARG_NONE, &a.summary, 0,
         "a short Markdown table for a README: the typical case of each accepted range; of several files a column for "
         "each, and the least",
         NULL},
        {"html", '\0', POPT_ARG_STRING, &a.html, 0, "one self-contained page", "FILE"},
        {"compare", '\0', POPT_ARG_NONE, &a.compare, 0, "compare two files: better, worse or within noise", NULL},
        {"leaderboard", '\0', POPT_ARG_STRING, &a.leaderboard, 0, "a table of all result files in a folder", "DIR"},
        {"trend", '\0', POPT_ARG_STRING, &a.trend, 0, "what changed between the runs in a folder and its folders",
         "DIR"},
        {"fleet", '\0', POPT_ARG_STRING, &a.fleet, 0,
         "a verdict for each host of a folder of records of validate, bench, preflight and soak: a line of JSON, and a "
         "page with --html; status 1 unless all are in service",
         "DIR"},
        {"submission", '\0', POPT_ARG_STRING, &a.submission, 0,
         "check a folder of results and their form.json by the rules (results/RULES.md)", "DIR"},
        {"site", '\0', POPT_ARG_STRING, &a.site, 0,
         "pages of all results of a folder and its folders, in the new folder of --output", "DIR"},
        {"save-ranges", '\0', POPT_ARG_STRING, &a.save_ranges, 0, "accepted ranges from several VALID runs", "FILE"},
        {"parts", '\0', POPT_ARG_STRING, &a.parts, 0,
         "write the steps of a script, lines \"NAME<tab>BEGIN<tab>END<tab>STATUS<tab>COMMAND\" with seconds since the "
         "epoch, as the result file of --output",
         "FILE"},
        {"output", 'o', POPT_ARG_STRING, &a.output, 0,
         "write the tables to this new file, or the site to this new folder", "PATH"},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int rc = help_options_end(context, argv, poptGetNextOpt(context));
    if (rc == ERR_NONE)
        rc = run(&a, poptGetArgs(context), argc, argv);
    poptFreeContext(context);
    if (rc != ERR_NONE && *err_message())
        text_error("zerogauge report");
    help_release(options);
    return err_exit_status(rc);
}
