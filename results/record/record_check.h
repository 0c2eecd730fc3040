// SPDX-License-Identifier: Apache-2.0
// Whether one record is as RECORDS.md and schema.json say.
#ifndef ZG_RECORD_CHECK_H
#define ZG_RECORD_CHECK_H

#include <jansson.h>

// A file may have no more than this.
enum { RECORD_LINE_BYTES_MAX = 1 << 20, RECORD_FILE_BYTES_MAX = 16 << 20, RECORD_LINE_COUNT_MAX = 100000 };

// ERR_USAGE: "WHERE: KEY.PATH: is VALUE, expected WHAT". Keys that are not known are not looked at.
int record_check(const char *where, const json_t *record);

// Takes the keys that are not known out of a record that was checked, so that they cost no memory.
void record_trim(json_t *record);

#endif
