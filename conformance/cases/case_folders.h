// SPDX-License-Identifier: Apache-2.0
// The folders that a command receives: the cases in {cases}, and the checkpoint of a case in {state}.
#pragma once

#include "conformance/cases/case.h"

#include <jansson.h>
#include <limits.h>

// Reads CASES/order.json: an array of names of folders next to it, without paths. The caller owns *out. ERR_USAGE: the
// file is missing or holds something else.
int case_order_read(const char *cases, json_t **out);

// The same without the cases of other numbers of ranks. A case that cannot be read stays in the list. ERR_USAGE: no
// case is left.
int case_order_of_world(const char *cases, int world, json_t **out);

// Writes CASES/order.json: an array of names.
int case_order_write(const char *cases, const json_t *names);

// The checkpoint's folder of a half of a case that resumes: STATE/NAME for NAME.save and NAME.resume; STATE/NAME~2 for
// NAME.save~2, and for NAME.resume~2 if that folder exists. state may be null, which is ERR_USAGE.
int case_state_folder(const struct check_case *c, const char *state, char out[PATH_MAX]);
