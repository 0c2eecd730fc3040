// SPDX-License-Identifier: Apache-2.0
// A verified result file as reports show it: each benchmark's case with its limits and its finding.
#ifndef ZG_RESULT_VIEW_H
#define ZG_RESULT_VIEW_H

#include "results/record/own_limits.h"
#include "results/record/record_read.h"

// Numbers are NaN where there is none. Strings belong to the file, except `text`.
struct bench_view {
    const json_t *record;
    size_t line;                         // from 1
    const char *name, *unit, *baseline;  // baseline: null without one
    char *text;                          // settings_text
    double median, p10, p90, ratio, baseline_median;
    double at_least, at_most;  // of the ratio, the tightest of the accepted ranges that judge it
    const char *verdict;       // the worst of its findings; null: nothing judges it
};

struct result_view {
    const struct result_file *file;
    struct bench_view *benches;
    size_t bench_count;
    // "VALID", ...; "VALID BY OWN LIMITS" where they are not the default ones; "MEASURED" where nothing was judged
    const char *verdict;
    char own_limits[OWN_LIMITS_TEXT_BYTES];  // own_limits.h, of a run that is VALID; else ""
};

// The file has an end, and was verified. ERR_MEMORY. Closed with result_view_close, also after a failure.
int result_view_open(const struct result_file *file, struct result_view *out);
void result_view_close(struct result_view *view);

// The record on a line, from 1; its kind; a member as a text ("" where it is none) and as a number (NaN).
const json_t *view_record(const struct result_view *view, size_t line);
bool view_is(const json_t *record, const char *kind);
const char *view_text(const json_t *object, const char *key);
double view_number(const json_t *object, const char *key);

// "zerogauge validate --quick", as the run record has it; to be freed, null without memory.
char *command_text(const json_t *command);

#endif
