// SPDX-License-Identifier: Apache-2.0
// Which cases a run has: those that were asked for and are claimed, some of them twice.
#ifndef ZG_CHECK_SELECT_H
#define ZG_CHECK_SELECT_H

#include "conformance/run/check.h"

// Fills in cases and asked; what is not claimed is told to the judge. ERR_USAGE: nothing matches.
int check_select(const struct check_setting *setting, struct check_run *run);

// A case's name without the half that it is of a resuming pair.
void check_whole_name(const struct check_case *c, char out[CASE_NAME_BYTES]);

// The other half of a resuming pair; null for whole cases.
const struct check_case *check_other_half(const struct check_run *run, const struct check_case *c);

#endif
