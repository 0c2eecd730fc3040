// SPDX-License-Identifier: Apache-2.0
// The verdict that follows from the findings of a run by the rules of RECORDS.md, for writers and for verifiers.
#ifndef ZG_CONCLUSION_H
#define ZG_CONCLUSION_H

#include <jansson.h>

#include <stdbool.h>

enum { CONCLUSION_REASON_MAX = 1000 };

// findings: an array of `finding` records. Returns "VALID", "INVALID" or "INCOMPLETE"; null if there are no findings.
// *reasons: a new array of the texts that decide; null: no memory.
const char *conclusion_of(const json_t *findings, bool interrupted, json_t **reasons);

// The `end` record of a run with these findings, for record_end. other_load: from 0 to 1, or NaN. Null: no memory.
json_t *conclusion_end(const json_t *findings, bool interrupted, double elapsed_s, double other_load);

#endif
