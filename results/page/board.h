// SPDX-License-Identifier: Apache-2.0
// The verified result files of a folder, and their benchmarks as columns: what leaderboards and the site show.
#pragma once

#include "results/page/result_view.h"

#include <stdbool.h>
#include <stddef.h>

enum { BOARD_COLUMN_MAX = 64 };

// Results of a processor and of a device are not the same benchmark.
struct board_column {
    const char *name, *device;  // device: "" for the processor
};

// Over the cases of a benchmark: the median ratio to the baseline, and the best result in the first unit.
// NaN and null where there are none.
struct board_figure {
    struct board_column column;
    double share, best;
    const char *unit;
};

struct board_entry {
    struct result_file file;       // of a leaderboard, the `run` record and the `end` record alone
    struct result_view view;       // of a leaderboard, no benches
    char *name;                    // its path below the folder; owned
    struct board_figure *figures;  // in the file's order; owned
    size_t figure_count, figure_room;
};

struct board {
    struct board_entry *entries;  // ranked ones first; then by processor, and by name
    size_t entry_count, room;
    struct board_column columns[BOARD_COLUMN_MAX];
    size_t column_count;
    bool whole;     // files are kept
    json_t *texts;  // a set: the figures' texts
};

// Opens and verifies the files *.jsonl in a folder. whole: those in its folders, too, and keeps their records. Reports
// of `zerogauge check` are left out, which is said on standard error.
// ERR_CHECK: one does not verify. ERR_USAGE: there are none, or too many. Close it, after an error too.
int board_open(const char *folder, bool whole, struct board *out);
void board_close(struct board *board);

bool board_is_ranked(const struct board_entry *entry);

// The figure of a column; NaN and null where the entry has none.
struct board_figure board_figure(const struct board_entry *entry, struct board_column column);
