// SPDX-License-Identifier: Apache-2.0
#include "results/page/board.h"

#include "base/array.h"
#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "base/statistics.h"
#include "results/page/result_folder.h"
#include "results/record/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRY_MAX = 1000 };

static struct board_column column_of(const struct bench_view *bench)
{
    return (struct board_column){bench->name, view_text(json_object_get(bench->record, "case"), "device")};
}

static bool is_same(struct board_column a, struct board_column b)
{
    return strcmp(a.name, b.name) == 0 && strcmp(a.device, b.device) == 0;
}

struct board_figure board_figure(const struct board_entry *entry, struct board_column column)
{
    for (size_t i = 0; i < entry->figure_count; i++)
        if (is_same(entry->figures[i].column, column))
            return entry->figures[i];
    return (struct board_figure){column, NAN, NAN, NULL};
}

static struct board_figure figure_of(const struct result_view *view, struct board_column column)
{
    double shares[STATISTICS_COUNT_MAX];
    struct board_figure figure = {column, NAN, NAN, NULL};
    size_t count = 0;
    for (size_t i = 0; i < view->bench_count; i++) {
        const struct bench_view *bench = &view->benches[i];
        if (!is_same(column_of(bench), column))
            continue;
        if (!isnan(bench->ratio) && count < STATISTICS_COUNT_MAX)
            shares[count++] = bench->ratio;
        figure.unit = figure.unit ? figure.unit : bench->unit;
        if (strcmp(bench->unit, figure.unit) == 0)
            figure.best =
                unit_is_time(figure.unit) ? fmin(figure.best, bench->median) : fmax(figure.best, bench->median);
    }
    if (count > 0)
        figure.share = statistics_median(shares, count);
    return figure;
}

// A text that outlives its file; null: no memory.
static const char *kept(struct board *board, const char *text)
{
    if (json_object_set_new(board->texts, text, json_null()) != 0)
        return NULL;
    return json_object_iter_key(json_object_iter_at(board->texts, text));
}

static int take_figures(struct board *board, struct board_entry *entry)
{
    for (size_t i = 0; i < entry->view.bench_count; i++) {
        struct board_column column = column_of(&entry->view.benches[i]);
        if (board_figure(entry, column).unit)
            continue;
        TRY(array_grow(&entry->figures, &entry->figure_room, entry->figure_count, sizeof *entry->figures, "figures"));
        struct board_figure figure = figure_of(&entry->view, column);
        figure.column = (struct board_column){kept(board, column.name), kept(board, column.device)};
        figure.unit = kept(board, figure.unit);
        if (!figure.column.name || !figure.column.device || !figure.unit)
            return err_set(ERR_MEMORY, "no memory for a leaderboard");
        entry->figures[entry->figure_count++] = figure;
    }
    return ERR_NONE;
}

// A row needs the machine, the verdict and the figures.
static void drop_records(struct board_entry *entry)
{
    struct result_file *file = &entry->file;
    for (size_t i = 0; i < entry->view.bench_count; i++)
        free(entry->view.benches[i].text);
    free(entry->view.benches);
    entry->view.benches = NULL;
    entry->view.bench_count = 0;
    for (size_t i = 1; i + 1 < file->line_count; i++)
        json_decref(file->lines[i]);
    file->lines[1] = file->lines[file->line_count - 1];
    file->line_count = 2;
}

// A report of `zerogauge check` is JSON lines as well, and begins with a record `run`, of an implementation.
static bool is_of_check(const char *path)
{
    char *text;
    size_t bytes;
    if (file_read_text(path, RECORD_FILE_BYTES_MAX, &text, &bytes) != ERR_NONE)
        return false;
    json_t *first = json_loadb(text, strcspn(text, "\n"), 0, NULL);
    bool is = *view_text(first, "implementation") && !*view_text(first, "program");
    json_decref(first);
    free(text);
    return is;
}

static int add_entry(void *context, const char *path, const char *name)
{
    struct board *board = context;
    if (is_of_check(path)) {
        text_say("zerogauge report: %s: left out: it is a report of `zerogauge check`, not a result file", path);
        return ERR_NONE;
    }
    TRY(array_grow(&board->entries, &board->room, board->entry_count, sizeof *board->entries, "results"));
    struct board_entry *entry = &board->entries[board->entry_count];
    *entry = (struct board_entry){0};
    TRY(result_open_verified(path, &entry->file));
    board->entry_count++;
    if (!(entry->name = strdup(name)))
        return err_set(ERR_MEMORY, "no memory for a leaderboard");
    TRY(result_view_open(&entry->file, &entry->view));
    TRY(take_figures(board, entry));
    if (!board->whole)
        drop_records(entry);
    return board->entry_count > ENTRY_MAX ? err_set(ERR_USAGE, "%s: is one of more than %d files", path, ENTRY_MAX)
                                          : ERR_NONE;
}

bool board_is_ranked(const struct board_entry *entry)
{
    return strcmp(entry->view.verdict, "VALID") == 0 && !*entry->view.unranked;
}

static int compare_entries(const void *left, const void *right)
{
    const struct board_entry *a = left, *b = right;
    if (board_is_ranked(a) != board_is_ranked(b))
        return board_is_ranked(b) - board_is_ranked(a);
    int order = strcmp(view_text(json_object_get(a->file.run, "machine"), "processor"),
                       view_text(json_object_get(b->file.run, "machine"), "processor"));
    return order ? order : strcmp(a->name, b->name);
}

static void add_columns(struct board *board, const struct board_entry *entry)
{
    for (size_t i = 0; i < entry->figure_count; i++) {
        size_t column = 0;
        while (column < board->column_count && !is_same(board->columns[column], entry->figures[i].column))
            column++;
        if (column == board->column_count && column < BOARD_COLUMN_MAX)
            board->columns[board->column_count++] = entry->figures[i].column;
    }
}

int board_open(const char *folder, bool whole, struct board *out)
{
    *out = (struct board){.whole = whole, .texts = json_object()};
    TRY(result_folder_visit(folder, "jsonl", whole ? RESULT_FOLDER_DEPTH : 0, add_entry, out));
    if (out->entry_count == 0)
        return err_set(ERR_USAGE, "%s: has no result files named *.jsonl", folder);
    qsort(out->entries, out->entry_count, sizeof *out->entries, compare_entries);
    for (size_t i = 0; i < out->entry_count; i++) {
        out->entries[i].view.file = &out->entries[i].file;
        add_columns(out, &out->entries[i]);
    }
    return ERR_NONE;
}

void board_close(struct board *board)
{
    for (size_t i = 0; i < board->entry_count; i++) {
        result_view_close(&board->entries[i].view);
        result_close(&board->entries[i].file);
        free(board->entries[i].name);
        free(board->entries[i].figures);
    }
    free(board->entries);
    json_decref(board->texts);
    *board = (struct board){0};
}
