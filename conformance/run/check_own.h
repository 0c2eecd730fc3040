// SPDX-License-Identifier: Apache-2.0
// Cases in memory as the source of a run: those of somebody's folder, or candidates of a hunt.
#pragma once

#include "conformance/hunt/hunt_folder.h"
#include "conformance/run/check.h"

// The source of these cases, which must outlive it. Their names are all different.
struct check_source check_own_source(const struct hunt_cases *cases);

// Reads the cases in a folder whose names match one of the shell patterns (NULL at the end; null: all). A name whose
// topic no chapter of SPEC.md has becomes "pair-own.NAME", which the requirements about features together cover;
// patterns may have either name. ERR_USAGE: as hunt_folder_read; a name is too long for that; two are equal; or none
// matches.
int check_own_open(const char *folder, char *const *patterns, struct hunt_cases *out);
