// SPDX-License-Identifier: Apache-2.0
#include "results/page/result_report.h"

#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "results/page/board.h"
#include "results/page/result_view.h"

#include <math.h>
#include <string.h>

static void put_column(const struct board_entry *entry, struct board_column column, FILE *out)
{
    const struct board_figure figure = board_figure(entry, column);
    char number[NUMBER_TEXT_BYTES];
    fputs(" | ", out);
    if (!isnan(figure.share))
        fprintf(out, "%.0f %%", 100 * figure.share);
    if (figure.unit) {
        fprintf(out, "%s%s ", isnan(figure.share) ? "" : "; ", number_text(figure.best, number));
        text_markdown(out, figure.unit);
    }
}

static void put_entry(const struct board *board, const struct board_entry *entry, FILE *out)
{
    const json_t *run = entry->file.run, *machine = json_object_get(run, "machine");
    char number[NUMBER_TEXT_BYTES];
    fprintf(out, "| %s | ", board_is_ranked(entry) ? "yes" : "no");
    text_markdown(out, view_text(machine, "processor"));
    fprintf(out, " | %.0f | %s | %s | ", view_number(machine, "threads"),
            bytes_text(view_number(machine, "memory_bytes"), number), entry->view.verdict);
    text_markdown(out, view_text(run, "level"));
    for (size_t i = 0; i < board->column_count; i++)
        put_column(entry, board->columns[i], out);
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
    struct board board;
    int rc = board_open(folder, false, &board);
    if (rc == ERR_NONE)
        rc = put_board(&board, out);
    board_close(&board);
    return rc;
}
