// SPDX-License-Identifier: Apache-2.0
// Several verified result files of `zerogauge validate`, in the order in which they began.
#pragma once

#include "results/record/record_check.h"

#include <stddef.h>
#include <stdio.h>

enum { HISTORY_MAX = 1000 };

struct history {
    struct result_file *files;
    size_t count;
};

// Opens and verifies files of complete runs. ERR_USAGE: one is not of such a run, or there are more than HISTORY_MAX.
// ERR_CHECK: one does not verify; its refusals are on standard error. The caller closes it, after an error too.
int history_open(const char *const paths[], struct history *out);
void history_close(struct history *history);

// "VALID", ... of a file; null: it judges nothing.
const char *history_verdict(const struct result_file *file);

// Calls visit for each file DIR/*.jsonl and DIR/*/*.jsonl that history_open accepts, and closes it afterwards. The
// others, and those beyond HISTORY_MAX, are counted, and named on standard error with the reason. ERR_USAGE: none can
// be used.
int history_visit(const char *folder, int (*visit)(void *context, const struct result_file *file), void *context,
                  size_t *left_out_count);

// Writes what changed over time between the runs of a folder, as Markdown: figures with change points, those whose
// latest run is an outlier, all figures. Holds one file at a time. ERR_USAGE as history_visit, ERR_IO, ERR_MEMORY.
int history_trend(const char *folder, FILE *out);

// Writes accepted ranges around the medians of these runs to a new file (results/limits/accepted_range.h). ERR_USAGE: a
// run is not VALID, or their levels differ.
int history_save_ranges(const struct history *history, const char *path);

// A series is divided where the ranks of both sides differ at CHANGE_LEVEL, corrected for the number of places that
// were tried, and where their medians differ by CHANGE_LEAST; both sides have CHANGE_SIDE_LEAST values or more. Then
// each side is divided in turn.
#define CHANGE_LEVEL 0.01
#define CHANGE_LEAST 0.02
enum { CHANGE_SIDE_LEAST = 3, CHANGE_MAX = 64 };

struct change_point {
    size_t at;             // index of the first value after the change
    double before, after;  // medians of the values between the neighbouring changes
    double p;              // corrected
};

// Finds the changes of a series of positive values, in their order. Returns their number, at most CHANGE_MAX. count: at
// most STATISTICS_COUNT_MAX.
size_t change_points_find(const double *values, size_t count, struct change_point out[CHANGE_MAX]);

// Significance level of the rank test (statistics.h), for each case separately.
#define COMPARE_LEVEL 0.01

enum comparison { COMPARISON_NOISE, COMPARISON_BETTER, COMPARISON_WORSE, COMPARISON_FEW };

// Compares record b with record a of the same case: better or worse if the ranks of their samples differ at
// COMPARE_LEVEL; COMPARISON_FEW if there are too few samples for any significant difference. *p: the test's p-value.
enum comparison compare_bench(const json_t *a, const json_t *b, double *p);

// Writes a table of the cases that both files have, in the order of b, and a list of those that only one has. ERR_IO,
// ERR_MEMORY.
int result_compare(const struct result_file *a, const struct result_file *b, FILE *out);
