// SPDX-License-Identifier: Apache-2.0
// How much of what can meet does meet in the cases of a run.
#ifndef ZG_CHECK_COVER_H
#define ZG_CHECK_COVER_H

#include "conformance/run/check.h"

// Where the whole level is asked: adds the cases that are missing because others are not claimed, so that every tuple
// of factors that can occur within the claims does, and counts them into run->coverage.
int check_cover(const struct check_setting *setting, struct check_run *run);

// The coverage of a level's own cases.
int check_cover_level(const struct check_part *part, struct coverage *out);

// Prints a line. ERR_INTERNAL: a tuple that can occur does not.
int check_cover_print(const struct coverage *coverage);

#endif
