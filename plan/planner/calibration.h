// SPDX-License-Identifier: Apache-2.0
// A validation's own figures as a machine that `zerogauge plan --machine FILE` takes: what this machine measured, each
// figure with the line that it is from.
#ifndef ZG_CALIBRATION_H
#define ZG_CALIBRATION_H

#include <jansson.h>

#include <stddef.h>

// Of the records of a result file, which are [count]. *out is new; null where a figure that every machine needs was not
// measured, which *missing then says in words. ERR_MEMORY.
int calibration_make(json_t *const records[], size_t count, json_t **out, const char **missing);

#endif
