// SPDX-License-Identifier: Apache-2.0
// Each figure of a history over time: its changes, and whether the latest run is an outlier.
#include "results/page/history.h"

#include "base/array.h"
#include "base/err.h"
#include "base/page.h"
#include "base/statistics.h"
#include "results/page/result_view.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// The medians of one case on one kind of processor; the runs that lack it are missing.
struct figure {
    char *key;
    const json_t *record;  // the latest
    double *values;
    size_t *runs;  // index in the history of each value
    size_t count;
};

struct figures {
    struct figure *list;
    size_t count, room;
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

static int open_figure(struct figures *figures, char *key, size_t run_count)
{
    TRY(array_grow(&figures->list, &figures->room, figures->count, sizeof *figures->list, "figures"));
    struct figure *figure = &figures->list[figures->count++];
    *figure = (struct figure){
        .key = key, .values = calloc(run_count, sizeof(double)), .runs = calloc(run_count, sizeof(size_t))};
    return figure->values && figure->runs ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %zu runs", run_count);
}

// Takes a case's first result of each run.
static int take(struct figures *figures, const struct history *history, size_t run, const json_t *record)
{
    char *key = key_of(&history->files[run], record);
    size_t i = 0;
    if (!key)
        return err_set(ERR_MEMORY, "no memory for a figure");
    while (i < figures->count && strcmp(figures->list[i].key, key) != 0)
        i++;
    if (i < figures->count)
        free(key);
    else
        TRY(open_figure(figures, key, history->count));
    struct figure *figure = &figures->list[i];
    if (figure->count > 0 && figure->runs[figure->count - 1] == run)
        return ERR_NONE;
    figure->record = record;
    figure->runs[figure->count] = run;
    figure->values[figure->count++] = view_number(record, "median");
    return ERR_NONE;
}

static int take_all(struct figures *figures, const struct history *history)
{
    for (size_t run = 0; run < history->count; run++)
        for (size_t i = 0; i < history->files[run].line_count; i++)
            if (view_is(history->files[run].lines[i], "bench"))
                TRY(take(figures, history, run, history->files[run].lines[i]));
    return ERR_NONE;
}

static void close_figures(struct figures *figures)
{
    for (size_t i = 0; i < figures->count; i++) {
        free(figures->list[i].key);
        free(figures->list[i].values);
        free(figures->list[i].runs);
    }
    free(figures->list);
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

static void add_changes(struct page *page, json_t *rows, const struct history *history, const struct figure *figure)
{
    struct change_point points[CHANGE_MAX];
    size_t count = change_points_find(figure->values, figure->count, points);
    for (size_t i = 0; i < count; i++) {
        json_t *row = case_row(figure->record);
        page_add(page, row, json_string(view_text(history->files[figure->runs[points[i].at]].run, "started")));
        add_change(page, row, points[i].before, points[i].after, figure);
        page_add(page, rows, row);
    }
}

// The latest run is an outlier if it is further from the median of the runs since the last change than 3.5 robust
// standard deviations, and than a twentieth.
static void add_latest(struct page *page, json_t *rows, const struct history *history, const struct figure *figure)
{
    enum { EARLIER_LEAST = 4 };
    struct change_point points[CHANGE_MAX];
    size_t earlier = figure->count - 1, changes = change_points_find(figure->values, earlier, points);
    size_t begin = changes > 0 ? points[changes - 1].at : 0;
    if (figure->runs[earlier] + 1 != history->count || earlier - begin < EARLIER_LEAST)
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

static struct page page_of(const struct history *history)
{
    static const char *const verdicts[] = {"VALID", "INVALID", "INCOMPLETE"};
    size_t counts[3] = {0};
    for (size_t i = 0; i < history->count; i++)
        for (size_t v = 0; v < 3; v++)
            counts[v] += strcmp(history_verdict(&history->files[i]), verdicts[v]) == 0;
    return page_open(
        json_pack("{s:o, s:o}", "verdict",
                  page_text("%zu runs from %s to %s", history->count, view_text(history->files[0].run, "started"),
                            view_text(history->files[history->count - 1].run, "started")),
                  "meaning",
                  page_text("%zu VALID, %zu INVALID, %zu INCOMPLETE; %zu files left out", counts[0], counts[1],
                            counts[2], history->left_out_count)));
}

static int put_figures(const struct history *history, const struct figures *figures, FILE *out)
{
    struct page page = page_of(history);
    json_t *changes = json_array(), *latest = json_array(), *all = json_array();
    for (size_t i = 0; i < figures->count; i++) {
        add_changes(&page, changes, history, &figures->list[i]);
        add_latest(&page, latest, history, &figures->list[i]);
        add_figure(&page, all, &figures->list[i]);
    }
    page_fact(&page, "Found",
              page_text("%zu changes in %zu figures; in %zu the latest run is an outlier", json_array_size(changes),
                        figures->count, json_array_size(latest)));
    page_fact(&page, "Change",
              page_text("where the medians of runs before and after differ by the Mann-Whitney U test at the level %g, "
                        "corrected for the places tried, and by at least %g %%: it needs some seven runs on each side",
                        CHANGE_LEVEL, 100 * CHANGE_LEAST));
    page_table(&page, "Changes", "benchmark|case|from|before|after|change", changes);
    page_table(&page, "The latest run is an outlier", "benchmark|case|before|latest|change", latest);
    page_table(&page, "All figures", "benchmark|case|runs|median|first|latest|spread", all);
    return page_markdown(&page, out);
}

int history_trend(const struct history *history, FILE *out)
{
    struct figures figures = {0};
    int rc = take_all(&figures, history);
    if (rc == ERR_NONE)
        rc = put_figures(history, &figures, out);
    close_figures(&figures);
    return rc;
}

struct search {
    const double *values;
    struct change_point *found;
    size_t count;
};

static double median_of(const struct search *search, size_t begin, size_t end)
{
    return statistics_median(search->values + begin, end - begin);
}

// The sum of the distances from the median.
static double deviation(const struct search *search, size_t begin, size_t end)
{
    double median = median_of(search, begin, end), sum = 0;
    for (size_t i = begin; i < end; i++)
        sum += fabs(search->values[i] - median);
    return sum;
}

// Finds the place that leaves the least deviation on both sides together. False: it may be chance, or the change is too
// small.
static bool find_place(const struct search *search, size_t begin, size_t end, struct change_point *out)
{
    double least = INFINITY;
    out->at = begin + CHANGE_SIDE_LEAST;  // stays where every sum overflows
    for (size_t at = begin + CHANGE_SIDE_LEAST; at + CHANGE_SIDE_LEAST <= end; at++) {
        double left = deviation(search, begin, at) + deviation(search, at, end);
        out->at = left < least ? at : out->at;
        least = fmin(left, least);
    }
    double p = statistics_rank_test(search->values + begin, out->at - begin, search->values + out->at, end - out->at);
    double change = fabs(log(median_of(search, out->at, end) / median_of(search, begin, out->at)));
    out->p = p * (double)(end - begin - 2 * CHANGE_SIDE_LEAST + 1);
    return out->p < CHANGE_LEVEL && change >= log1p(CHANGE_LEAST);
}

static void divide(struct search *search, size_t begin, size_t end)
{
    struct change_point point = {0};
    if (end - begin < 2 * CHANGE_SIDE_LEAST || !find_place(search, begin, end, &point))
        return;
    divide(search, begin, point.at);
    if (search->count < CHANGE_MAX)
        search->found[search->count++] = point;
    divide(search, point.at, end);
}

size_t change_points_find(const double *values, size_t count, struct change_point out[CHANGE_MAX])
{
    assert(count <= STATISTICS_COUNT_MAX);
    struct search search = {.values = values, .found = out};
    divide(&search, 0, count);
    for (size_t i = 0; i < search.count; i++) {
        size_t begin = i > 0 ? out[i - 1].at : 0, end = i + 1 < search.count ? out[i + 1].at : count;
        out[i].before = median_of(&search, begin, out[i].at);
        out[i].after = median_of(&search, out[i].at, end);
    }
    return search.count;
}
