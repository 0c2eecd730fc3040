// SPDX-License-Identifier: Apache-2.0
// Checks one record against the format of RECORDS.md and schema.json.
#ifndef ZG_RECORD_CHECK_H
#define ZG_RECORD_CHECK_H

#include <jansson.h>

// Limits of a result file.
enum { RECORD_LINE_BYTES_MAX = 1 << 20, RECORD_FILE_BYTES_MAX = 16 << 20, RECORD_LINE_COUNT_MAX = 100000 };

// ERR_USAGE: "WHERE: KEY.PATH: is VALUE, expected WHAT". Ignores unknown keys.
int record_check(const char *where, const json_t *record);

// Removes unknown keys from a checked record, so that they take no memory.
void record_trim(json_t *record);

#endif
