// SPDX-License-Identifier: Apache-2.0
// The folders that a command is given: which cases are in {cases}, and where in {state} a case's checkpoint goes.
#ifndef ZG_CASE_FOLDERS_H
#define ZG_CASE_FOLDERS_H

#include "conformance/cases/case.h"

#include <jansson.h>
#include <limits.h>

// CASES/order.json: an array of names, each of which is that of a folder beside it and leads nowhere else. The caller
// owns *out. ERR_USAGE: it is something else.
int case_order_read(const char *cases, json_t **out);

// Of a half of a case that resumes: STATE/NAME of NAME.save and NAME.resume; STATE/NAME~2 of NAME.save~2, and of
// NAME.resume~2 if there is such a folder. state may be null, which is ERR_USAGE.
int case_state_folder(const struct check_case *c, const char *state, char out[PATH_MAX]);

#endif
