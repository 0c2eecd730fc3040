// SPDX-License-Identifier: Apache-2.0
// Whether a result file says only what follows from its own samples. What it cannot tell is whether the samples were
// measured at all: that takes a run of one's own.
#ifndef ZG_RECORD_VERIFY_H
#define ZG_RECORD_VERIFY_H

#include "results/record/record_read.h"

#include <stdio.h>

// Recomputes everything that follows from something else in the file. Writes each refusal as a line
// "FILE:LINE: KEY: is VALUE, expected WHAT", the first VERIFY_LINE_MAX of them; out may be null. *refusal_count is
// how many there are: 0 for a file that holds. ERR_MEMORY.
enum { VERIFY_LINE_MAX = 100 };
int record_verify(const struct result_file *file, FILE *out, size_t *refusal_count);

// The verdict, as people are shown it, of a file that says VALID by limits of its own: it says what its owner asked
// for, and ranks nothing.
#define OWN_VERDICT "VALID BY OWN LIMITS"

// Says which default limits (datasets/bands/default.json, as this program has them) are missing in a verified file, or
// looser than they are, "" where none is. Limits for what the run's level or the machine does not have may be missing.
enum { OWN_LIMITS_TEXT_BYTES = 256 };
int record_own_limits(const struct result_file *file, char out[OWN_LIMITS_TEXT_BYTES]);

#endif
