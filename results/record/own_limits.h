// SPDX-License-Identifier: Apache-2.0
// Whether a run was judged by the default limits (datasets/bands/default.json, as this program has them) or by looser
// ones of its own: then VALID says what its owner asked for, and ranks nothing.
#ifndef ZG_OWN_LIMITS_H
#define ZG_OWN_LIMITS_H

#include "results/record/record_read.h"

enum { OWN_LIMITS_TEXT_BYTES = 256 };

// The verdict, as people are shown it, of a file that says VALID by such limits.
#define OWN_VERDICT "VALID BY OWN LIMITS"

// Says which default limits are missing in a verified file, or looser than they are, "" where none is: then a run that
// is VALID is VALID by the default ones, too. Limits for what the run's level or the machine does not have may be
// missing.
int own_limits(const struct result_file *file, char out[OWN_LIMITS_TEXT_BYTES]);

#endif
