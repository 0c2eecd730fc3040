// SPDX-License-Identifier: Apache-2.0
// The verified result files of a folder, and their benchmarks as columns: what leaderboards and the site show.
#pragma once

#include "results/page/result_view.h"

#include <stdbool.h>
#include <stddef.h>

enum { BOARD_COLUMN_MAX = 64 };

struct board_entry {
    struct result_file file;
    struct result_view view;
    char *name;  // its path below the folder; owned
};

// Results of a processor and of a device are not the same benchmark.
struct board_column {
    const char *name, *device;  // device: "" for the processor
};

struct board {
    struct board_entry *entries;  // ranked ones first; then by processor, and by name
    size_t entry_count, room;
    struct board_column columns[BOARD_COLUMN_MAX];
    size_t column_count;
};

// Opens and verifies the files *.jsonl in a folder, and with `deep` those in its folders. ERR_CHECK: one does not
// verify. ERR_USAGE: there are none, or too many. Close it, after an error too.
int board_open(const char *folder, bool deep, struct board *out);
void board_close(struct board *board);

bool board_is_ranked(const struct board_entry *entry);

// Over the cases of a benchmark: the median ratio to the baseline, and the best result in the first unit.
// NaN and null where there are none.
struct board_figure {
    double share, best;
    const char *unit;
};
struct board_figure board_figure(const struct result_view *view, struct board_column column);
