// SPDX-License-Identifier: Apache-2.0
// The figures of a result file: a bar for the ratio of each to its baseline, and its samples above the baseline's; and
// what each lane did during one sample.

#include "results/page/result_view.h"

#include <math.h>
#include <string.h>

// All bars have one scale, from 0 to this ratio, so that they can be compared.
static double scale_of(const struct result_view *view)
{
    double most = 1.1;
    for (size_t i = 0; i < view->bench_count; i++)
        most = fmax(most, fmax(view->benches[i].ratio, view->benches[i].at_most));  // fmax leaves NaN out
    return fmin(most, 2);
}

static void add_mark(struct page *page, json_t *marks, const char *kind, double at, double scale)
{
    if (at <= scale)
        page_add(page, marks, json_pack("{s:s, s:o}", "kind", kind, "x", page_number(100 * at / scale)));
}

static json_t *bar_of(struct page *page, const struct bench_view *bench, double scale)
{
    json_t *marks = json_array();
    add_mark(page, marks, "baseline", 1, scale);
    add_mark(page, marks, "bound", bench->at_least, scale);
    add_mark(page, marks, "bound", bench->at_most, scale);
    return json_pack("{s:o, s:o}", "width", page_number(100 * fmin(bench->ratio / scale, 1)), "marks", marks);
}

struct range {
    double low, high;
};

static void widen(struct range *range, const json_t *samples)
{
    size_t i;
    const json_t *sample;
    json_array_foreach (samples, i, sample) {
        range->low = fmin(range->low, json_number_value(sample));
        range->high = fmax(range->high, json_number_value(sample));
    }
}

static json_t *position(double value, const struct range *range)
{
    return page_number(range->high > range->low ? 2 + 96 * (value - range->low) / (range->high - range->low) : 50);
}

static json_t *positions(struct page *page, const json_t *samples, const struct range *range)
{
    enum { DRAWN_MAX = 200 };  // more could not be told apart
    size_t count = json_array_size(samples), step = 1 + count / DRAWN_MAX;
    json_t *list = json_array();
    for (size_t i = 0; i < count; i += step)
        page_add(page, list, position(json_number_value(json_array_get(samples, i)), range));
    return list;
}

static json_t *spread_of(struct page *page, const struct bench_view *bench)
{
    const json_t *samples = json_object_get(bench->record, "samples");
    const json_t *limits = json_object_get(json_object_get(bench->record, "yardstick"), "samples");
    struct range range = {INFINITY, -INFINITY};
    widen(&range, samples);
    widen(&range, limits);
    return json_pack("{s:o, s:o, s:o, s:o}", "samples", positions(page, samples, &range), "median",
                     position(bench->median, &range), "limits", positions(page, limits, &range), "limit",
                     position(bench->baseline_median, &range));
}

static json_t *figure_of(struct page *page, const struct bench_view *bench, double scale)
{
    char median[NUMBER_TEXT_BYTES], p10[NUMBER_TEXT_BYTES], p90[NUMBER_TEXT_BYTES], limit[NUMBER_TEXT_BYTES];
    json_int_t count = (json_int_t)json_array_size(json_object_get(bench->record, "samples"));
    json_t *figure = json_pack("{s:s, s:s, s:s, s:s?, s:s, s:s, s:s, s:I, s:o}", "bench", bench->name, "text",
                               bench->text, "unit", bench->unit, "verdict", bench->verdict, "median",
                               number_text(bench->median, median), "p10", number_text(bench->p10, p10), "p90",
                               number_text(bench->p90, p90), "count", count, "spread", spread_of(page, bench));
    if (bench->baseline)
        page_set(page, figure, "baseline",
                 page_text("%s %s", bench->baseline, number_text(bench->baseline_median, limit)));
    if (!isnan(bench->ratio)) {
        page_set(page, figure, "share", page_text("%.1f %%", 100 * bench->ratio));
        page_set(page, figure, "bar", bar_of(page, bench, scale));
    }
    return figure;
}

// The judged results, or the others.
static void add_figures(struct page *page, const struct result_view *view, const char *title, bool judged)
{
    double scale = scale_of(view);
    json_t *rows = json_array();
    for (size_t i = 0; i < view->bench_count; i++)
        if ((view->benches[i].verdict != NULL) == judged)
            page_add(page, rows, figure_of(page, &view->benches[i], scale));
    page_section(page, "figures", title, rows);
}

static json_t *lane_of(json_t *rows, const char *name)
{
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row)
        if (strcmp(view_text(row, "name"), name) == 0)
            return row;
    return NULL;
}

static void add_timeline(struct page *page, const struct bench_view *bench, const json_t *timeline)
{
    double begin_ms = INFINITY, end_ms = 0;
    char number[NUMBER_TEXT_BYTES];
    size_t i;
    const json_t *interval;
    json_t *rows = json_array();
    json_array_foreach (timeline, i, interval) {
        begin_ms = fmin(begin_ms, view_number(interval, "begin_ms"));
        end_ms = fmax(end_ms, view_number(interval, "end_ms"));
    }
    json_array_foreach (timeline, i, interval) {
        const char *name = view_text(interval, "lane");
        double from = 100 * (view_number(interval, "begin_ms") - begin_ms) / (end_ms - begin_ms);
        double to = 100 * (view_number(interval, "end_ms") - begin_ms) / (end_ms - begin_ms);
        if (!lane_of(rows, name))
            page_add(page, rows, json_pack("{s:s, s:[]}", "name", name, "bars"));
        json_t *row = lane_of(rows, name);
        page_add(page, json_object_get(row, "bars"),
                 json_pack("{s:o, s:o}", "x", page_number(from), "width", page_number(fmax(to - from, 0.1))));
    }
    json_t *section = page_section(page, "lanes", "Overlap", rows);
    page_set(page, section, "note", page_text("%s: %s", bench->name, bench->text));
    page_set(page, section, "end", page_text("%s ms", number_text(end_ms - begin_ms, number)));
}

void page_figures(struct page *page, const struct result_view *view)
{
    add_figures(page, view, "Results with accepted ranges", true);
    add_figures(page, view, "Results without accepted ranges", false);
    for (size_t i = 0; i < view->bench_count; i++)
        add_timeline(page, &view->benches[i], json_object_get(view->benches[i].record, "timeline"));
}
