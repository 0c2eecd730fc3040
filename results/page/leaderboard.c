// SPDX-License-Identifier: Apache-2.0
#include "results/page/result_report.h"

#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "results/page/result_view.h"
#include "base/statistics.h"
#include "base/unit.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRY_MAX = 1000, COLUMN_MAX = 32 };

struct entry {
    struct result_file file;
    struct result_view view;
    const char *name;  // of the file in its folder
};

// Results of a processor and of a device are not the same benchmark.
struct column {
    const char *name, *device;  // device: "" for the processor
};

struct board {
    struct entry *entries;
    size_t entry_count;
    struct column columns[COLUMN_MAX];
    size_t column_count;
};

static int is_result(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && end && strcmp(end, ".jsonl") == 0;
}

static int add_entry(struct board *board, const char *folder, const char *name)
{
    struct entry *entry = &board->entries[board->entry_count];
    char path[PATH_MAX];
    TRY(file_join(folder, name, path));
    TRY(result_open_verified(path, &entry->file));
    entry->name = name;
    board->entry_count++;
    return result_view_open(&entry->file, &entry->view);
}

static bool is_ranked(const struct entry *entry)
{
    return strcmp(entry->view.verdict, "VALID") == 0 && !*entry->view.unranked;
}

// Ranked entries first; then by processor, and by the file's name.
static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (is_ranked(a) != is_ranked(b))
        return is_ranked(b) - is_ranked(a);
    int order = strcmp(view_text(json_object_get(a->file.run, "machine"), "processor"),
                       view_text(json_object_get(b->file.run, "machine"), "processor"));
    return order ? order : strcmp(a->name, b->name);
}

static struct column column_of(const struct bench_view *bench)
{
    return (struct column){bench->name, view_text(json_object_get(bench->record, "case"), "device")};
}

static bool is_same(struct column a, struct column b)
{
    return strcmp(a.name, b.name) == 0 && strcmp(a.device, b.device) == 0;
}

static void add_columns(struct board *board, const struct result_view *view)
{
    for (size_t i = 0; i < view->bench_count; i++) {
        size_t column = 0;
        while (column < board->column_count && !is_same(board->columns[column], column_of(&view->benches[i])))
            column++;
        if (column == board->column_count && column < COLUMN_MAX)
            board->columns[board->column_count++] = column_of(&view->benches[i]);
    }
}

// The median ratio over the cases of a benchmark, and its best result in the unit that comes first.
static void put_column(const struct result_view *view, struct column column, FILE *out)
{
    double shares[STATISTICS_COUNT_MAX], best = NAN;
    const char *unit = NULL;
    size_t count = 0;
    char number[NUMBER_TEXT_BYTES];
    for (size_t i = 0; i < view->bench_count; i++) {
        const struct bench_view *bench = &view->benches[i];
        if (!is_same(column_of(bench), column))
            continue;
        if (!isnan(bench->ratio) && count < STATISTICS_COUNT_MAX)
            shares[count++] = bench->ratio;
        unit = unit ? unit : bench->unit;
        if (strcmp(bench->unit, unit) == 0)
            best = unit_is_time(unit) ? fmin(best, bench->median) : fmax(best, bench->median);
    }
    fputs(" | ", out);
    if (count > 0)
        fprintf(out, "%.0f %%", 100 * statistics_median(shares, count));
    if (unit) {
        fprintf(out, "%s%s ", count > 0 ? "; " : "", number_text(best, number));
        text_markdown(out, unit);
    }
}

static void put_entry(const struct board *board, const struct entry *entry, FILE *out)
{
    const json_t *run = entry->file.run, *machine = json_object_get(run, "machine");
    char number[NUMBER_TEXT_BYTES];
    fprintf(out, "| %s | ", is_ranked(entry) ? "yes" : "no");
    text_markdown(out, view_text(machine, "processor"));
    fprintf(out, " | %.0f | %s | %s | ", view_number(machine, "threads"),
            bytes_text(view_number(machine, "memory_bytes"), number), entry->view.verdict);
    text_markdown(out, view_text(run, "level"));
    for (size_t i = 0; i < board->column_count; i++)
        put_column(&entry->view, board->columns[i], out);
    fputs(" | ", out);
    text_markdown(out, view_text(json_object_get(run, "suite"), "version"));
    fprintf(out, " | %.10s | ", view_text(run, "started"));
    text_markdown(out, entry->name);
    fputs(" |\n", out);
}

static int put_board(const struct board *board, FILE *out)
{
    fputs("| ranked | processor | threads | memory | verdict | level", out);
    for (size_t i = 0; i < board->column_count; i++) {
        fputs(" | ", out);
        text_markdown(out, board->columns[i].name);
        fputs(*board->columns[i].device ? " on " : "", out);
        text_markdown(out, board->columns[i].device);
    }
    fputs(" | suite | date | file |\n| --- | --- | ---: | ---: | --- | ---", out);
    for (size_t i = 0; i < board->column_count; i++)
        fputs(" | ---:", out);
    fputs(" | --- | --- | --- |\n", out);
    for (size_t i = 0; i < board->entry_count; i++)
        put_entry(board, &board->entries[i], out);
    fputs(
        "\nRanked: VALID by the default accepted ranges, at the level full, from a clean commit, with at most 5 % of "
        "the "
        "processors' time for other programs. For each benchmark: the median ratio to the baseline over its cases, and "
        "its best result.\n",
        out);
    return file_flush(out, "the leaderboard");
}

int leaderboard(const char *folder, FILE *out)
{
    struct dirent **names;
    int count = scandir(folder, &names, is_result, alphasort);
    if (count < 0)
        return err_set(ERR_USAGE, "%s: cannot be read: %s", folder, strerror(errno));
    struct board board = {.entries = calloc((size_t)count + 1, sizeof *board.entries)};
    int rc = !board.entries ? err_set(ERR_MEMORY, "no memory for a leaderboard") : ERR_NONE;
    if (rc == ERR_NONE && (count == 0 || count > ENTRY_MAX))
        rc = err_set(ERR_USAGE, "%s: has %d files named *.jsonl; expected 1 to %d", folder, count, ENTRY_MAX);
    for (int i = 0; rc == ERR_NONE && i < count; i++)
        rc = add_entry(&board, folder, names[i]->d_name);
    if (rc == ERR_NONE) {
        qsort(board.entries, board.entry_count, sizeof *board.entries, compare_entries);
        for (size_t i = 0; i < board.entry_count; i++)
            add_columns(&board, &board.entries[i].view);
        rc = put_board(&board, out);
    }
    for (size_t i = 0; i < board.entry_count; i++) {
        result_view_close(&board.entries[i].view);
        result_close(&board.entries[i].file);
    }
    free(board.entries);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return rc;
}
