// SPDX-License-Identifier: Apache-2.0
// Verifies that every statement of a result file follows from its own samples. It cannot verify that the samples were
// measured; that takes another run.
#pragma once

#include "results/record/record_check.h"

#include <stdio.h>

// Recomputes everything that follows from something else in the file or from the tables of this program. Writes the
// first VERIFY_LINE_MAX refusals, each a line "FILE:LINE: KEY: is VALUE, expected WHAT"; out may be null.
// *refusal_count: 0 if the file verifies. ERR_MEMORY.
enum { VERIFY_LINE_MAX = 100 };
int record_verify(const struct result_file *file, FILE *out, size_t *refusal_count);

// The verdict that reports show for a file that is VALID only by its own accepted ranges; it is not ranked.
#define OWN_VERDICT "VALID BY OWN LIMITS"

// Lists the default accepted ranges ("default" of datasets/ranges.json, compiled in) that a verified file lacks or has
// loosened; "" if there are none. Ranges for cases that the run's level or the machine does not have may be missing.
enum { OWN_LIMITS_TEXT_BYTES = 256 };
int record_own_limits(const struct result_file *file, char out[OWN_LIMITS_TEXT_BYTES]);

// Lists why a verified file with the verdict VALID is not ranked (RULES.md), "" if it is.
enum { UNRANKED_TEXT_BYTES = 256 };
void record_unranked(const struct result_file *file, char out[UNRANKED_TEXT_BYTES]);

// True if the command of `bench` has options that choose cases, so that a missing record would not be noticed.
bool record_chooses_cases(const struct result_file *file);
