// SPDX-License-Identifier: Apache-2.0
// Each figure of a history over time: its changes, and whether the latest run is an outlier.
#include "results/page/history.h"

#include "base/array.h"
#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "base/statistics.h"
#include "results/page/change_point.h"
#include "results/page/result_text.h"
#include "results/page/result_view.h"

#include <math.h>
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
    json_t *key =
        json_pack("[O, O, O, O]", json_object_get(json_object_get(file->run, "machine"), "processor"),
                  json_object_get(record, "name"), json_object_get(record, "unit"), json_object_get(record, "case"));
    char *text = key ? json_dumps(key, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
    json_decref(key);
    return text;
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

static void put_figure(const struct figure *figure, FILE *out)
{
    char *text = settings_text(json_object_get(figure->record, "case"));
    fputs("| ", out);
    text_markdown(out, view_text(figure->record, "name"));
    fputs(" | ", out);
    text_markdown(out, text ? text : "");
    fputs(" | ", out);
    free(text);
}

static void put_number(double value, const struct figure *figure, FILE *out)
{
    char text[NUMBER_TEXT_BYTES];
    fprintf(out, "%s ", number_text(value, text));
    text_markdown(out, view_text(figure->record, "unit"));
    fputs(" | ", out);
}

// "-12.0 %, **worse**"
static void put_change(double before, double after, const struct figure *figure, FILE *out)
{
    bool lower = json_is_true(json_object_get(figure->record, "lower_is_better"));
    fprintf(out, "%+.1f %%, %s |\n", 100 * (after / before - 1), (after < before) == lower ? "better" : "**worse**");
}

static size_t put_changes(const struct history *history, const struct figure *figure, bool is_first, FILE *out)
{
    struct change_point points[CHANGE_MAX];
    size_t count = change_points_find(figure->values, figure->count, points);
    if (count > 0 && is_first)
        fputs("\n## Changes\n\n| benchmark | case | from | before | after | change |\n"
              "| --- | --- | --- | ---: | ---: | --- |\n",
              out);
    for (size_t i = 0; i < count; i++) {
        put_figure(figure, out);
        text_markdown(out, view_text(history->files[figure->runs[points[i].at]].run, "started"));
        fputs(" | ", out);
        put_number(points[i].before, figure, out);
        put_number(points[i].after, figure, out);
        put_change(points[i].before, points[i].after, figure, out);
    }
    return count;
}

// The latest run is an outlier if it is further from the median of the runs since the last change than 3.5 robust
// standard deviations, and than a twentieth.
static bool stands_out(const struct history *history, const struct figure *figure, double *median)
{
    enum { EARLIER_LEAST = 4 };
    struct change_point points[CHANGE_MAX];
    size_t earlier = figure->count - 1, changes = change_points_find(figure->values, earlier, points);
    size_t begin = changes > 0 ? points[changes - 1].at : 0;
    if (figure->runs[earlier] + 1 != history->count || earlier - begin < EARLIER_LEAST)
        return false;
    *median = statistics_median(figure->values + begin, earlier - begin);
    double spread = 3.5 * 1.4826 * statistics_mad(figure->values + begin, earlier - begin);
    return fabs(figure->values[earlier] - *median) > fmax(spread, 0.05 * *median);
}

static size_t put_latest(const struct history *history, const struct figure *figure, bool is_first, FILE *out)
{
    double median;
    if (!stands_out(history, figure, &median))
        return 0;
    if (is_first)
        fputs("\n## The latest run is an outlier\n\n| benchmark | case | before | latest | change |\n"
              "| --- | --- | ---: | ---: | --- |\n",
              out);
    put_figure(figure, out);
    put_number(median, figure, out);
    put_number(figure->values[figure->count - 1], figure, out);
    put_change(median, figure->values[figure->count - 1], figure, out);
    return 1;
}

static void put_head(const struct history *history, FILE *out)
{
    static const char *const verdicts[] = {"VALID", "INVALID", "INCOMPLETE"};
    fprintf(out, "# %zu runs from %s to %s\n\n", history->count, view_text(history->files[0].run, "started"),
            view_text(history->files[history->count - 1].run, "started"));
    for (size_t v = 0; v < sizeof verdicts / sizeof verdicts[0]; v++) {
        size_t count = 0;
        for (size_t i = 0; i < history->count; i++)
            count += strcmp(history_verdict(&history->files[i]), verdicts[v]) == 0;
        fprintf(out, "%s%zu %s", v > 0 ? ", " : "", count, verdicts[v]);
    }
    fprintf(out, "; %zu files left out\n", history->left_out_count);
}

static void put_all(const struct figures *figures, FILE *out)
{
    fputs("\n## All figures\n\n| benchmark | case | runs | median | first | latest | spread |\n"
          "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
          out);
    for (size_t i = 0; i < figures->count; i++) {
        const struct figure *figure = &figures->list[i];
        double median = statistics_median(figure->values, figure->count);
        put_figure(figure, out);
        fprintf(out, "%zu | ", figure->count);
        put_number(median, figure, out);
        put_number(figure->values[0], figure, out);
        put_number(figure->values[figure->count - 1], figure, out);
        fprintf(out, "%.1f %% |\n", 148.26 * statistics_mad(figure->values, figure->count) / median);
    }
}

int history_trend(const struct history *history, FILE *out)
{
    struct figures figures = {0};
    size_t changes = 0, latest = 0;
    int rc = take_all(&figures, history);
    if (rc == ERR_NONE) {
        put_head(history, out);
        for (size_t i = 0; i < figures.count; i++)
            changes += put_changes(history, &figures.list[i], changes == 0, out);
        for (size_t i = 0; i < figures.count; i++)
            latest += put_latest(history, &figures.list[i], latest == 0, out);
        fprintf(out,
                "\n%zu changes in %zu figures; in %zu the latest run is an outlier.\n"
                "A change is where the medians of runs before and after differ by the Mann-Whitney U test at the level "
                "%g, corrected for the places tried, and by at least %g %%: it needs some seven runs on each side.\n",
                changes, figures.count, latest, CHANGE_LEVEL, 100 * CHANGE_LEAST);
        put_all(&figures, out);
        rc = file_flush(out, "the trend");
    }
    close_figures(&figures);
    return rc;
}
