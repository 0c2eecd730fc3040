// SPDX-License-Identifier: Apache-2.0
// Several verified result files of `zerogauge validate`, in the order in which they began.
#ifndef ZG_HISTORY_H
#define ZG_HISTORY_H

#include "results/record/record_read.h"

#include <stddef.h>
#include <stdio.h>

enum { HISTORY_MAX = 1000 };

struct history {
    struct result_file *files;
    size_t count, left_out_count;
};

// Opens and verifies files of complete runs. ERR_USAGE: one is not of such a run, or there are more than HISTORY_MAX.
// ERR_CHECK: one does not verify; its refusals are on standard error. The caller closes it, after an error too.
int history_open(const char *const paths[], struct history *out);

// The same for all files DIR/*.jsonl and DIR/*/*.jsonl. Those that cannot be used are counted, and named on standard
// error with the reason. ERR_USAGE: none can be used.
int history_open_folder(const char *folder, struct history *out);
void history_close(struct history *history);

// "VALID", ... of a file; null: it judges nothing.
const char *history_verdict(const struct result_file *file);

// Writes what changed over time, as Markdown: figures with change points, those whose latest run is an outlier, all
// figures. ERR_IO, ERR_MEMORY.
int history_trend(const struct history *history, FILE *out);

// Writes accepted ranges around the medians of these runs to a new file (results/limits/accepted_range.h). ERR_USAGE: a
// run is not VALID, or their levels differ.
int history_save_ranges(const struct history *history, const char *path);

#endif
