// SPDX-License-Identifier: Apache-2.0
// Each figure of a history over time: its changes, and whether the latest run is an outlier.
#include "results/page/history.h"

#include "base/array.h"
#include "base/err.h"
#include "base/page.h"
#include "base/statistics.h"
#include "results/page/result_view.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct value {
    size_t run;
    double median;
};

// The medians of one case on one kind of processor; the runs that lack it are missing.
struct figure {
    char *key;
    json_t *record;     // the latest; a reference
    size_t record_run;  // its run
    struct value *list;
    size_t count, room;
    double *values;  // these two in the order of the runs, after order_all
    size_t *runs;
};

struct run {
    char *path, *started, *verdict;
    size_t at;  // as it was visited
};

struct trend {
    struct run *runs;
    size_t run_count, run_room;
    struct figure *list;
    size_t count, room;
    size_t left_out_count;
};

static char *key_of(const struct result_file *file, const json_t *record)
{
    char *of_case = case_key(record), *key;
    if (!of_case)
        return NULL;
    int bytes = asprintf(&key, "%s %s", view_text(json_object_get(file->run, "machine"), "processor"), of_case);
    free(of_case);
    return bytes >= 0 ? key : NULL;
}

static int compare_runs(const void *left, const void *right)
{
    const struct run *a = left, *b = right;
    int order = strcmp(a->started, b->started);
    return order ? order : strcmp(a->path, b->path);
}

// Takes a case's first result of each run.
static int take(struct trend *trend, const struct result_file *file, json_t *record)
{
    char *key = key_of(file, record);
    size_t i = 0, run = trend->run_count - 1;
    if (!key)
        return err_set(ERR_MEMORY, "no memory for a figure");
    while (i < trend->count && strcmp(trend->list[i].key, key) != 0)
        i++;
    int rc = i < trend->count ? ERR_NONE
                              : array_grow(&trend->list, &trend->room, trend->count, sizeof *trend->list, "figures");
    if (rc == ERR_NONE && i == trend->count)
        trend->list[trend->count++] = (struct figure){.key = key};
    else
        free(key);
    TRY(rc);
    struct figure *figure = &trend->list[i];
    if (figure->count > 0 && figure->list[figure->count - 1].run == run)
        return ERR_NONE;
    TRY(array_grow(&figure->list, &figure->room, figure->count, sizeof *figure->list, "values"));
    figure->list[figure->count++] = (struct value){run, view_number(record, "median")};
    if (!figure->record || compare_runs(&trend->runs[run], &trend->runs[figure->record_run]) > 0) {
        json_decref(figure->record);
        figure->record = json_incref(record);
        figure->record_run = run;
    }
    return ERR_NONE;
}

static int take_run(void *context, const struct result_file *file)
{
    struct trend *trend = context;
    TRY(array_grow(&trend->runs, &trend->run_room, trend->run_count, sizeof *trend->runs, "runs"));
    struct run *run = &trend->runs[trend->run_count++];
    *run = (struct run){.path = strdup(file->path),
                        .started = strdup(view_text(file->run, "started")),
                        .verdict = strdup(history_verdict(file))};
    if (!run->path || !run->started || !run->verdict)
        return err_set(ERR_MEMORY, "no memory for a run");
    for (size_t i = 0; i < file->line_count; i++)
        if (view_is(file->lines[i], "bench"))
            TRY(take(trend, file, file->lines[i]));
    return ERR_NONE;
}

static int compare_values(const void *left, const void *right)
{
    const struct value *a = left, *b = right;
    return (a->run > b->run) - (a->run < b->run);
}

static int order_figure(struct figure *figure, const size_t *places)
{
    figure->values = calloc(figure->count, sizeof *figure->values);
    figure->runs = calloc(figure->count, sizeof *figure->runs);
    if (!figure->values || !figure->runs)
        return err_set(ERR_MEMORY, "no memory for %zu values", figure->count);
    for (size_t i = 0; i < figure->count; i++)
        figure->list[i].run = places[figure->list[i].run];
    qsort(figure->list, figure->count, sizeof *figure->list, compare_values);
    for (size_t i = 0; i < figure->count; i++) {
        figure->values[i] = figure->list[i].median;
        figure->runs[i] = figure->list[i].run;
    }
    return ERR_NONE;
}

// Sorts runs, and each figure's values, by the time at which the runs began.
static int order_all(struct trend *trend)
{
    size_t *places = calloc(trend->run_count, sizeof *places);
    int rc = places ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %zu runs", trend->run_count);
    for (size_t i = 0; i < trend->run_count; i++)
        trend->runs[i].at = i;
    qsort(trend->runs, trend->run_count, sizeof *trend->runs, compare_runs);
    for (size_t i = 0; rc == ERR_NONE && i < trend->run_count; i++)
        places[trend->runs[i].at] = i;
    for (size_t i = 0; rc == ERR_NONE && i < trend->count; i++)
        rc = order_figure(&trend->list[i], places);
    free(places);
    return rc;
}

static void close_trend(struct trend *trend)
{
    for (size_t i = 0; i < trend->run_count; i++) {
        free(trend->runs[i].path);
        free(trend->runs[i].started);
        free(trend->runs[i].verdict);
    }
    for (size_t i = 0; i < trend->count; i++) {
        json_decref(trend->list[i].record);
        free(trend->list[i].key);
        free(trend->list[i].list);
        free(trend->list[i].values);
        free(trend->list[i].runs);
    }
    free(trend->runs);
    free(trend->list);
}

static json_t *number_cell(double value, const struct figure *figure)
{
    char text[NUMBER_TEXT_BYTES];
    return page_text("%s %s", number_text(value, text), view_text(figure->record, "unit"));
}

// Appends two numbers and what became of the first: "-12.0 %, worse".
static void add_change(struct page *page, json_t *row, double before, double after, const struct figure *figure)
{
    bool lower = json_is_true(json_object_get(figure->record, "lower_is_better"));
    page_add(page, row, number_cell(before, figure));
    page_add(page, row, number_cell(after, figure));
    page_add(page, row,
             page_text("%+.1f %%, %s", 100 * (after / before - 1), (after < before) == lower ? "better" : "worse"));
}

static void add_changes(struct page *page, json_t *rows, const struct trend *trend, const struct figure *figure)
{
    struct change_point points[CHANGE_MAX];
    size_t count = change_points_find(figure->values, figure->count, points);
    for (size_t i = 0; i < count; i++) {
        json_t *row = case_row(figure->record);
        page_add(page, row, json_string(trend->runs[figure->runs[points[i].at]].started));
        add_change(page, row, points[i].before, points[i].after, figure);
        page_add(page, rows, row);
    }
}

// The latest run is an outlier if it is further from the median of the runs since the last change than 3.5 robust
// standard deviations, and than a twentieth.
static void add_latest(struct page *page, json_t *rows, const struct trend *trend, const struct figure *figure)
{
    enum { EARLIER_LEAST = 4 };
    struct change_point points[CHANGE_MAX];
    size_t earlier = figure->count - 1, changes = change_points_find(figure->values, earlier, points);
    size_t begin = changes > 0 ? points[changes - 1].at : 0;
    if (figure->runs[earlier] + 1 != trend->run_count || earlier - begin < EARLIER_LEAST)
        return;
    double median = statistics_median(figure->values + begin, earlier - begin), latest = figure->values[earlier];
    double spread = 3.5 * 1.4826 * statistics_mad(figure->values + begin, earlier - begin);
    if (fabs(latest - median) <= fmax(spread, 0.05 * median))
        return;
    json_t *row = case_row(figure->record);
    add_change(page, row, median, latest, figure);
    page_add(page, rows, row);
}

static void add_figure(struct page *page, json_t *rows, const struct figure *figure)
{
    double median = statistics_median(figure->values, figure->count);
    json_t *row = case_row(figure->record);
    page_add(page, row, page_text("%zu", figure->count));
    page_add(page, row, number_cell(median, figure));
    page_add(page, row, number_cell(figure->values[0], figure));
    page_add(page, row, number_cell(figure->values[figure->count - 1], figure));
    page_add(page, row, page_text("%.1f %%", 148.26 * statistics_mad(figure->values, figure->count) / median));
    page_add(page, rows, row);
}

static struct page page_of(const struct trend *trend)
{
    static const char *const verdicts[] = {"VALID", "INVALID", "INCOMPLETE"};
    size_t counts[3] = {0};
    for (size_t i = 0; i < trend->run_count; i++)
        for (size_t v = 0; v < 3; v++)
            counts[v] += strcmp(trend->runs[i].verdict, verdicts[v]) == 0;
    return page_open(json_pack("{s:o, s:o}", "verdict",
                               page_text("%zu runs from %s to %s", trend->run_count, trend->runs[0].started,
                                         trend->runs[trend->run_count - 1].started),
                               "meaning",
                               page_text("%zu VALID, %zu INVALID, %zu INCOMPLETE; %zu files left out", counts[0],
                                         counts[1], counts[2], trend->left_out_count)));
}

static int put_figures(const struct trend *trend, FILE *out)
{
    struct page page = page_of(trend);
    json_t *changes = json_array(), *latest = json_array(), *all = json_array();
    for (size_t i = 0; i < trend->count; i++) {
        add_changes(&page, changes, trend, &trend->list[i]);
        add_latest(&page, latest, trend, &trend->list[i]);
        add_figure(&page, all, &trend->list[i]);
    }
    page_fact(&page, "Found",
              page_text("%zu changes in %zu figures; in %zu the latest run is an outlier", json_array_size(changes),
                        trend->count, json_array_size(latest)));
    page_fact(&page, "Change",
              page_text("where the medians of runs before and after differ by the Mann-Whitney U test at the level %g, "
                        "corrected for the places tried, and by at least %g %%: it needs some seven runs on each side",
                        CHANGE_LEVEL, 100 * CHANGE_LEAST));
    page_table(&page, "Changes", "benchmark|case|from|before|after|change", changes);
    page_table(&page, "The latest run is an outlier", "benchmark|case|before|latest|change", latest);
    page_table(&page, "All figures", "benchmark|case|runs|median|first|latest|spread", all);
    return page_markdown(&page, out);
}

int history_trend(const char *folder, FILE *out)
{
    struct trend trend = {0};
    int rc = history_visit(folder, take_run, &trend, &trend.left_out_count);
    if (rc == ERR_NONE)
        rc = order_all(&trend);
    if (rc == ERR_NONE)
        rc = put_figures(&trend, out);
    close_trend(&trend);
    return rc;
}
