// SPDX-License-Identifier: Apache-2.0
// Summarises a run for a README, or runs of several machines: one row for each accepted range that was applied, in
// order, with its typical case.
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
static const struct bench_view *sort_group(const struct group *group)
{
    qsort(group->cases, group->count, sizeof *group->cases, compare_ratios);
    return group->cases[(group->count - 1) / 2];
}

static int put_group(const json_t *range, const struct group *group, FILE *out)
{
    char median[NUMBER_TEXT_BYTES], limit[NUMBER_TEXT_BYTES];
    if (group->count == 0)
        return ERR_NONE;
    const struct bench_view *typical = sort_group(group);
    const struct bench_view *least = group->cases[0], *most = group->cases[group->count - 1];
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

static int group_make(const struct result_view *views, size_t count, struct group *out)
{
    size_t most = 1;
    for (size_t i = 0; i < count; i++)
        most = views[i].bench_count > most ? views[i].bench_count : most;
    *out = (struct group){.cases = calloc(most, sizeof *out->cases)};
    return out->cases ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a summary");
}

// Collects the cases whose ratio the accepted range judges.
static void group_collect(const struct result_view *view, const char *id, struct group *group)
{
    group->count = 0;
    for (size_t i = 0; i < view->bench_count; i++)
        if (!isnan(view->benches[i].ratio) && has_finding(view, id, view->benches[i].line))
            group->cases[group->count++] = &view->benches[i];
}

// Returns whether the record on a line is an accepted range of a ratio.
static bool is_range(const struct result_view *view, size_t line)
{
    const json_t *range = view_record(view, line);
    return view_is(range, "band") && strcmp(view_text(range, "metric"), "ratio") == 0;
}

static void put_run(const struct result_view *view, FILE *out)
{
    const json_t *machine = json_object_get(view->file->run, "machine");
    char memory[NUMBER_TEXT_BYTES];
    fprintf(out, "%s, ", view->verdict);
    text_markdown(out, view_text(view->file->run, "level"));
    fputs(", on ", out);
    text_markdown(out, view_text(machine, "processor"));
    fprintf(out, ", %.0f threads, %s, %.10s; %.1f %% of CPU time went to other processes",
            view_number(machine, "threads"), bytes_text(view_number(machine, "memory_bytes"), memory),
            view_text(view->file->run, "started"), 100 * view_number(view->file->end, "other_load"));
}

static int result_summary(const struct result_view *view, FILE *out)
{
    struct group group;
    TRY(group_make(view, 1, &group));
    put_run(view, out);
    fputs(". Each row is an accepted range: its typical case, the ratios to the baseline over all its cases, and the "
          "bounds.\n\n"
          "| range | typical case | median | baseline | ratio | all cases | accepted |\n"
          "| --- | --- | --- | --- | ---: | --- | --- |\n",
          out);
    int status = ERR_NONE;
    for (size_t line = 1; status == ERR_NONE && line <= view->file->line_count; line++) {
        if (!is_range(view, line))
            continue;
        group_collect(view, view_text(view_record(view, line), "id"), &group);
        status = put_group(view_record(view, line), &group, out);
    }
    free(group.cases);
    return status == ERR_NONE ? file_flush(out, "the summary") : status;
}

// The widest instruction set that Adam was measured with.
static const char *isa_of(const struct result_view *view)
{
    for (size_t i = 0; i < view->bench_count; i++) {
        const json_t *setting = json_object_get(view->benches[i].record, "case");
        if (strcmp(view->benches[i].name, "adam") == 0 && json_is_true(json_object_get(setting, "best_isa")))
            return view_text(setting, "isa");
    }
    return "";
}

// The typical case's ratio on each machine, and the least of all cases on all of them.
static void put_range_of_all(const struct result_view *views, size_t count, const json_t *range, struct group *group,
                             FILE *out)
{
    double least = NAN;
    fputs("| `", out);
    text_markdown(out, view_text(range, "id"));
    fputs("` |", out);
    for (size_t i = 0; i < count; i++) {
        group_collect(&views[i], view_text(range, "id"), group);
        if (group->count > 0) {
            fprintf(out, " %.1f %%", 100 * sort_group(group)->ratio);
            least = fmin(least, group->cases[0]->ratio);
        }
        fputs(" |", out);
    }
    fprintf(out, " %.1f %% | ", 100 * least);
    put_share_limits(range, out);
    fputs(" |\n", out);
}

int result_summaries(const struct result_view *views, size_t count, FILE *out)
{
    struct group group;
    if (count == 1)
        return result_summary(views, out);
    TRY(group_make(views, count, &group));
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%zu. ", i + 1);
        put_run(&views[i], out);
        fputs(".\n", out);
    }
    fputs("\nEach row is an accepted range of the last run: the typical case's ratio to its baseline on each machine, "
          "the least of all cases on all machines, and the bounds.\n\n| range |",
          out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, " %zu. ", i + 1);
        text_markdown(out, view_text(json_object_get(views[i].file->run, "machine"), "processor"));
        fputs(*isa_of(&views[i]) ? ", " : "", out);
        text_markdown(out, isa_of(&views[i]));
        fputs(" |", out);
    }
    fputs(" least | accepted |\n| --- |", out);
    for (size_t i = 0; i < count; i++)
        fputs(" ---: |", out);
    fputs(" ---: | --- |\n", out);
    const struct result_view *last = &views[count - 1];
    for (size_t line = 1; line <= last->file->line_count; line++) {
        if (is_range(last, line))
            group_collect(last, view_text(view_record(last, line), "id"), &group);
        if (is_range(last, line) && group.count > 0)
            put_range_of_all(views, count, view_record(last, line), &group, out);
    }
    free(group.cases);
    return file_flush(out, "the summary");
}
