// SPDX-License-Identifier: Apache-2.0
// Reads result files, which are untrusted: sizes are bounded and every record is checked against the schema. Trust no
// figure before record_verify.h has recomputed it.
#ifndef ZG_RECORD_READ_H
#define ZG_RECORD_READ_H

#include "base/file.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

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
void result_close(struct result_file *file);

#endif
