// SPDX-License-Identifier: Apache-2.0
// Settings and numbers of results as text for people.
#ifndef ZG_RESULT_TEXT_H
#define ZG_RESULT_TEXT_H

#include <jansson.h>

#include <stddef.h>

// "step=update threads=2 block=1MiB": the settings of a case, to be freed; null without memory.
char *settings_text(const json_t *settings);

// The same of the first `most` settings whose keys `without` lacks, which may be null.
char *settings_text_of(const json_t *settings, const json_t *without, size_t most);

// "4.7", four digits that are as long as they need be.
enum { NUMBER_TEXT_BYTES = 32 };
const char *number_text(double value, char out[NUMBER_TEXT_BYTES]);

// "32 MiB", in the largest unit that leaves at least one.
const char *bytes_text(double bytes, char out[NUMBER_TEXT_BYTES]);

#endif
