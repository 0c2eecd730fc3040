// SPDX-License-Identifier: Apache-2.0
// Settings and numbers of results as text.
#ifndef ZG_RESULT_TEXT_H
#define ZG_RESULT_TEXT_H

#include <jansson.h>

#include <stddef.h>

// The settings of a case: "step=update, threads=2, block=1 MiB". The caller frees it; null: no memory.
char *settings_text(const json_t *settings);

// The same for the first `most` settings whose keys are not in `without`, which may be null.
char *settings_text_of(const json_t *settings, const json_t *without, size_t most);

// Up to four significant digits without trailing zeros: "4.7".
enum { NUMBER_TEXT_BYTES = 32 };
const char *number_text(double value, char out[NUMBER_TEXT_BYTES]);

// "32 MiB", in the largest unit in which the number is at least 1.
const char *bytes_text(double bytes, char out[NUMBER_TEXT_BYTES]);

#endif
