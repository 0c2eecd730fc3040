// SPDX-License-Identifier: Apache-2.0
// What the findings of a run come to, by the rules of RECORDS.md; for who writes a result and for who checks it.
#ifndef ZG_CONCLUSION_H
#define ZG_CONCLUSION_H

#include <jansson.h>

#include <stdbool.h>

enum { CONCLUSION_REASON_MAX = 1000 };

// findings: an array of `finding` records. The verdict: "VALID", "INVALID" or "INCOMPLETE"; null where there is nothing
// to judge. *reasons is a new array, null without memory.
const char *conclusion_of(const json_t *findings, bool interrupted, json_t **reasons);

// The `end` record of a run with these findings, for record_end; other_load may be NaN. Null: no memory.
json_t *conclusion_end(const json_t *findings, bool interrupted, double elapsed_s, double other_load);

#endif
