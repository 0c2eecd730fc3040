// SPDX-License-Identifier: Apache-2.0
#include "results/page/board.h"

#include "base/array.h"
#include "base/err.h"
#include "base/file.h"
#include "base/statistics.h"
#include "results/record/unit.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ENTRY_MAX = 1000, DEPTH_MAX = 4 };

static int add_entry(struct board *board, const char *path, const char *name)
{
    TRY(array_grow(&board->entries, &board->room, board->entry_count, sizeof *board->entries, "results"));
    struct board_entry *entry = &board->entries[board->entry_count];
    *entry = (struct board_entry){0};
    TRY(result_open_verified(path, &entry->file));
    board->entry_count++;
    if (!(entry->name = strdup(name)))
        return err_set(ERR_MEMORY, "no memory for a leaderboard");
    return board->entry_count > ENTRY_MAX ? err_set(ERR_USAGE, "%s: is one of more than %d files", path, ENTRY_MAX)
                                          : ERR_NONE;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

// Adds the files of a folder; depth: how many folders below it are gone into. within: its path below the first one.
static int add_folder(struct board *board, const char *folder, const char *within, int depth)
{
    struct dirent **names;
    int count = scandir(folder, &names, is_shown, alphasort), rc = ERR_NONE;
    if (count < 0)
        return err_set(ERR_USAGE, "%s: cannot be read: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX], name[PATH_MAX];
        const char *end = strrchr(names[i]->d_name, '.');
        struct stat status;
        if (rc == ERR_NONE)
            rc = file_join(folder, names[i]->d_name, path);
        if (rc == ERR_NONE && *within)
            rc = file_join(within, names[i]->d_name, name);
        else
            strcpy(name, names[i]->d_name);
        if (rc == ERR_NONE && end && strcmp(end, ".jsonl") == 0)
            rc = add_entry(board, path, name);
        else if (rc == ERR_NONE && depth > 0 && lstat(path, &status) == 0 && S_ISDIR(status.st_mode))
            rc = add_folder(board, path, name, depth - 1);
        free(names[i]);
    }
    free(names);
    return rc;
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

static struct board_column column_of(const struct bench_view *bench)
{
    return (struct board_column){bench->name, view_text(json_object_get(bench->record, "case"), "device")};
}

static bool is_same(struct board_column a, struct board_column b)
{
    return strcmp(a.name, b.name) == 0 && strcmp(a.device, b.device) == 0;
}

static void add_columns(struct board *board, const struct result_view *view)
{
    for (size_t i = 0; i < view->bench_count; i++) {
        size_t column = 0;
        while (column < board->column_count && !is_same(board->columns[column], column_of(&view->benches[i])))
            column++;
        if (column == board->column_count && column < BOARD_COLUMN_MAX)
            board->columns[board->column_count++] = column_of(&view->benches[i]);
    }
}

struct board_figure board_figure(const struct result_view *view, struct board_column column)
{
    double shares[STATISTICS_COUNT_MAX];
    struct board_figure figure = {NAN, NAN, NULL};
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

int board_open(const char *folder, bool deep, struct board *out)
{
    *out = (struct board){0};
    TRY(add_folder(out, folder, "", deep ? DEPTH_MAX : 0));
    if (out->entry_count == 0)
        return err_set(ERR_USAGE, "%s: has no files named *.jsonl", folder);
    // The entries stay where they are until the views are sorted.
    for (size_t i = 0; i < out->entry_count; i++)
        TRY(result_view_open(&out->entries[i].file, &out->entries[i].view));
    qsort(out->entries, out->entry_count, sizeof *out->entries, compare_entries);
    for (size_t i = 0; i < out->entry_count; i++) {
        out->entries[i].view.file = &out->entries[i].file;
        add_columns(out, &out->entries[i].view);
    }
    return ERR_NONE;
}

void board_close(struct board *board)
{
    for (size_t i = 0; i < board->entry_count; i++) {
        result_view_close(&board->entries[i].view);
        result_close(&board->entries[i].file);
        free(board->entries[i].name);
    }
    free(board->entries);
    *board = (struct board){0};
}
