// SPDX-License-Identifier: Apache-2.0
// Checks one record against the format of RECORDS.md and schema.json.
#pragma once

#include "base/file.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

// Limits of a result file.
enum { RECORD_LINE_BYTES_MAX = 1 << 20, RECORD_FILE_BYTES_MAX = 16 << 20, RECORD_LINE_COUNT_MAX = 100000 };

// ERR_USAGE: "WHERE: KEY.PATH: is VALUE, expected WHAT". Ignores unknown keys.
int record_check(const char *where, const json_t *record);

// Removes unknown keys from a checked record, so that they take no memory.
void record_trim(json_t *record);

struct result_file {
    char *path;
    json_t **lines;  // all records in order; lines[0] is the run record
    size_t line_count;
    const json_t *run;
    const json_t *end;               // null: the run failed
    char digest[FILE_DIGEST_BYTES];  // computed over the bytes of the lines before `end`
};

// Reads the whole file. ERR_USAGE names file and line of what is too large or not as RECORDS.md and schema.json
// require. A file without an end record is read, with end == NULL. Drops unknown keys. Close with result_close.
int result_open(const char *path, struct result_file *out);

// The same for a file's text of at most RECORD_FILE_BYTES_MAX bytes, which is not kept.
int result_parse(const char *path, const char *text, size_t bytes, struct result_file *out);

void result_close(struct result_file *file);
