// SPDX-License-Identifier: Apache-2.0
// Summarises a run for a README: one row for each accepted range that was applied, in order, with its typical case.
#include "results/page/result_report.h"

#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "results/page/result_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A row shows this many settings of its case, besides those in the id of the accepted range.
enum { SHOWN_SETTINGS = 3 };

// Cases that share a row.
struct group {
    const struct bench_view **cases;
    size_t count;
};

static int compare_ratios(const void *left, const void *right)
{
    const struct bench_view *a = *(const struct bench_view *const *)left, *b = *(const struct bench_view *const *)right;
    int order = (a->ratio > b->ratio) - (a->ratio < b->ratio);
    return order ? order : (a->line > b->line) - (a->line < b->line);
}

static void put_share_limits(const json_t *range, FILE *out)
{
    double at_least = view_number(range, "at_least"), at_most = view_number(range, "at_most");
    if (!isnan(at_least))
        fprintf(out, "from %.0f %%", 100 * at_least);
    if (!isnan(at_most))
        fprintf(out, "%sto %.0f %%", isnan(at_least) ? "" : " ", 100 * at_most);
}

// The typical case has the lower median ratio.
static int put_group(const json_t *range, const struct group *group, FILE *out)
{
    char median[NUMBER_TEXT_BYTES], limit[NUMBER_TEXT_BYTES];
    if (group->count == 0)
        return ERR_NONE;
    qsort(group->cases, group->count, sizeof *group->cases, compare_ratios);
    const struct bench_view *least = group->cases[0], *most = group->cases[group->count - 1];
    const struct bench_view *typical = group->cases[(group->count - 1) / 2];
    char *settings =
        settings_text_of(json_object_get(typical->record, "case"), json_object_get(range, "case"), SHOWN_SETTINGS);
    if (!settings)
        return err_set(ERR_MEMORY, "no memory for a summary");
    fputs("| `", out);
    text_markdown(out, view_text(range, "id"));
    fputs("` | ", out);
    text_markdown(out, settings);
    free(settings);
    fprintf(out, " | %s ", number_text(typical->median, median));
    text_markdown(out, typical->unit);
    fprintf(out, " | %s, ", number_text(typical->baseline_median, limit));
    text_markdown(out, typical->baseline);
    fprintf(out, " | %.1f %% | ", 100 * typical->ratio);
    if (group->count > 1)
        fprintf(out, "%.1f %% to %.1f %% of %zu", 100 * least->ratio, 100 * most->ratio, group->count);
    fputs(" | ", out);
    put_share_limits(range, out);
    fputs(" |\n", out);
    return ERR_NONE;
}

static bool has_finding(const struct result_view *view, const char *id, size_t line)
{
    for (size_t i = 1; i <= view->file->line_count; i++) {
        const json_t *finding = view_record(view, i);
        if (view_is(finding, "finding") && strcmp(view_text(finding, "kind"), "band") == 0 &&
            strcmp(view_text(finding, "id"), id) == 0 && view_number(finding, "line") == (double)line)
            return true;
    }
    return false;
}

// Collects the cases whose ratio the accepted range judges.
static int put_range(const struct result_view *view, const json_t *range, struct group *group, FILE *out)
{
    group->count = 0;
    for (size_t i = 0; i < view->bench_count; i++)
        if (!isnan(view->benches[i].ratio) && has_finding(view, view_text(range, "id"), view->benches[i].line))
            group->cases[group->count++] = &view->benches[i];
    return put_group(range, group, out);
}

int result_summary(const struct result_view *view, FILE *out)
{
    const json_t *machine = json_object_get(view->file->run, "machine");
    char memory[NUMBER_TEXT_BYTES];
    struct group group = {.cases = calloc(view->bench_count + 1, sizeof *group.cases)};
    if (!group.cases)
        return err_set(ERR_MEMORY, "no memory for a summary");
    fprintf(out, "%s, ", view->verdict);
    text_markdown(out, view_text(view->file->run, "level"));
    fputs(", on ", out);
    text_markdown(out, view_text(machine, "processor"));
    fprintf(out,
            ", %.0f threads, %s, %.10s; %.1f %% of CPU time went to other processes. Each row is an accepted range: "
            "its typical case, the ratios to the baseline over all its cases, and the bounds.\n\n",
            view_number(machine, "threads"), bytes_text(view_number(machine, "memory_bytes"), memory),
            view_text(view->file->run, "started"), 100 * view_number(view->file->end, "other_load"));
    fputs("| range | typical case | median | baseline | ratio | all cases | accepted |\n"
          "| --- | --- | --- | --- | ---: | --- | --- |\n",
          out);
    int status = ERR_NONE;
    for (size_t line = 1; status == ERR_NONE && line <= view->file->line_count; line++)
        if (view_is(view_record(view, line), "band") &&
            strcmp(view_text(view_record(view, line), "metric"), "ratio") == 0)
            status = put_range(view, view_record(view, line), &group, out);
    free(group.cases);
    return status == ERR_NONE ? file_flush(out, "the summary") : status;
}
