// SPDX-License-Identifier: Apache-2.0
// Selects the cases of a run: those that were asked for and are claimed, some of them twice.
#pragma once

#include "conformance/run/check.h"

// Fills in cases and asked, and adds UNSUPPORTED findings for cases that are not claimed. ERR_USAGE: no case matches.
int check_select(const struct check_setting *setting, struct check_run *run);

// Asks some cases twice, under another name, so that leftovers of other cases and chance show.
int check_repeat(const struct check_setting *setting, struct check_run *run);

// The other half of a resuming pair; null for whole cases.
const struct check_case *check_other_half(const struct check_run *run, const struct check_case *c);

// Where the whole level is asked: adds the cases that are missing because others are not claimed, so that every tuple
// of factors that can occur within the claims does, and counts them into run->coverage.
int check_cover(const struct check_setting *setting, struct check_run *run);

// The coverage of a level's own cases.
int check_cover_level(const struct check_part *part, struct coverage *out);

// Prints a line. ERR_INTERNAL: a tuple that can occur does not.
int check_cover_print(const struct coverage *coverage);
