// SPDX-License-Identifier: Apache-2.0
// A run in a few rows, for a README: one for each limit that was applied, in their order, and one for each benchmark
// that none is about, with its typical case.
#include "result_report.h"

#include "err.h"
#include "result_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

// The typical case: the lower one in the middle, by its share of the limit.
static void put_group(const struct group *group, FILE *out)
{
    char median[NUMBER_TEXT_BYTES], limit[NUMBER_TEXT_BYTES];
    if (group->count == 0)
        return;
    qsort(group->cases, group->count, sizeof *group->cases, compare_ratios);
    const struct bench_view *least = group->cases[0], *most = group->cases[group->count - 1];
    const struct bench_view *typical = group->cases[(group->count - 1) / 2];
    fputs("| `", out);
    text_markdown(out, typical->name);
    fputs("` ", out);
    text_markdown(out, typical->text);
    fprintf(out, " | %s ", number_text(typical->median, median));
    text_markdown(out, typical->unit);
    fprintf(out, " | %s, ", number_text(typical->yardstick_median, limit));
    text_markdown(out, typical->yardstick);
    fprintf(out, " | %.1f %% | ", 100 * typical->ratio);
    if (group->count > 1)
        fprintf(out, "%.1f %% to %.1f %% of %zu", 100 * least->ratio, 100 * most->ratio, group->count);
    fputs(" |\n", out);
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

// Cases with a ratio that a band judges.
static void put_band(const struct result_view *view, const char *id, struct group *group, FILE *out)
{
    group->count = 0;
    for (size_t i = 0; i < view->bench_count; i++)
        if (!isnan(view->benches[i].ratio) && has_finding(view, id, view->benches[i].line))
            group->cases[group->count++] = &view->benches[i];
    put_group(group, out);
}

static bool is_judged(const struct result_view *view, const char *name)
{
    for (size_t i = 0; i < view->bench_count; i++)
        if (view->benches[i].verdict && strcmp(view->benches[i].name, name) == 0)
            return true;
    return false;
}

// A benchmark none of whose cases is judged, at the first of them.
static void put_unjudged(const struct result_view *view, size_t at, struct group *group, FILE *out)
{
    const char *name = view->benches[at].name;
    group->count = 0;
    for (size_t i = 0; i < at; i++)
        if (strcmp(view->benches[i].name, name) == 0)
            return;
    for (size_t i = at; i < view->bench_count; i++)
        if (!isnan(view->benches[i].ratio) && strcmp(view->benches[i].name, name) == 0)
            group->cases[group->count++] = &view->benches[i];
    put_group(group, out);
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
    fprintf(out, ", %.0f threads, %s, %.10s; others had %.1f %% of the processors. Of a row's cases the typical one, "
                 "and from which to which share of the limit they reach.\n\n",
            view_number(machine, "threads"), bytes_text(view_number(machine, "memory_bytes"), memory),
            view_text(view->file->run, "started"), 100 * view_number(view->file->end, "other_load"));
    fputs("| `zerogauge bench` | median | limit | of it | cases |\n| --- | --- | --- | ---: | --- |\n", out);
    for (size_t line = 1; line <= view->file->line_count; line++)
        if (view_is(view_record(view, line), "band"))
            put_band(view, view_text(view_record(view, line), "id"), &group, out);
    for (size_t i = 0; i < view->bench_count; i++)
        if (!is_judged(view, view->benches[i].name))
            put_unjudged(view, i, &group, out);
    free(group.cases);
    return result_written(out, "the summary");
}
