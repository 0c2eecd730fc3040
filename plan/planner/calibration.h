// SPDX-License-Identifier: Apache-2.0
// Makes a machine for `zerogauge plan --machine FILE` from the measurements of a validation; each figure's source is a
// line of the result file.
#pragma once

#include <jansson.h>

#include <stddef.h>

// records: of a result file, [count]. *out is a new object, or null if a required figure was not measured; *missing
// then describes it in words. ERR_MEMORY.
int calibration_make(json_t *const records[], size_t count, json_t **out, const char **missing);
