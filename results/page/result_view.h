// SPDX-License-Identifier: Apache-2.0
// A verified result file prepared for reports: each benchmark's case with its accepted range and its finding.
#pragma once

#include "results/record/record_verify.h"
#include "results/record/record_check.h"
#include "base/page.h"

#include <jansson.h>
#include <stddef.h>

// Missing numbers are NaN. Strings belong to the file, except `text`.
struct bench_view {
    const json_t *record;
    size_t line;                         // from 1
    const char *name, *unit, *baseline;  // baseline: null without one
    char *text;                          // settings_text
    double median, p10, p90, ratio, baseline_median;
    double at_least, at_most;  // bounds of the ratio: the tightest of its accepted ranges
    const char *verdict;       // its worst finding; null: not judged
};

struct result_view {
    const struct result_file *file;
    struct bench_view *benches;
    size_t bench_count;
    // "VALID", ...; "VALID BY OWN LIMITS" if the ranges are not the default ones; "MEASURED" if nothing was judged
    const char *verdict;
    char own_limits[OWN_LIMITS_TEXT_BYTES];  // record_own_limits of a VALID run; else ""
    char unranked[UNRANKED_TEXT_BYTES];      // record_unranked of a run that is VALID by the default ranges; else ""
};

// Opens a file and verifies it (results/record/record_verify.h). ERR_CHECK: statements do not verify; they are listed
// on standard error.
int result_open_verified(const char *path, struct result_file *out);

// The file has an end and is verified. ERR_MEMORY. Close with result_view_close, also after a failure.
int result_view_open(const struct result_file *file, struct result_view *out);
void result_view_close(struct result_view *view);

// The record on a line, from 1; whether it is of a kind; a member as text, "" if it is none, and as a number, else NaN.
const json_t *view_record(const struct result_view *view, size_t line);
bool view_is(const json_t *record, const char *kind);
const char *view_text(const json_t *object, const char *key);
double view_number(const json_t *object, const char *key);

// case_key returns a text that two results share if they are of one case: name, unit and settings in any order. The
// caller frees it; null: no memory. case_row begins a row of a page (base/page.h) with name and settings.
char *case_key(const json_t *record);
json_t *case_row(const json_t *record);

// The words of a command, or other texts, as one line. The caller frees it; null: no memory.
char *command_text(const json_t *command);

// The settings of a case: "step=update, threads=2, block=1 MiB". The caller frees it; null: no memory.
char *settings_text(const json_t *settings);

// The same for the first `most` settings whose keys are not in `without`, which may be null.
char *settings_text_of(const json_t *settings, const json_t *without, size_t most);

// Up to four significant digits without trailing zeros: "4.7".
enum { NUMBER_TEXT_BYTES = 32 };
const char *number_text(double value, char out[NUMBER_TEXT_BYTES]);

// "32 MiB", in the largest unit in which the number is at least 1.
const char *bytes_text(double bytes, char out[NUMBER_TEXT_BYTES]);

// Appends the sections of a result file that are drawn: its figures, the judged ones first, and the lanes of those that
// have them.
void page_figures(struct page *page, const struct result_view *view);
