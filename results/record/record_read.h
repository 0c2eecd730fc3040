// SPDX-License-Identifier: Apache-2.0
// Result files as readers have them. They come from strangers: sizes are bounded, every record is held to the schema,
// and nothing is believed that was not recomputed (record_verify.h).
#ifndef ZG_RECORD_READ_H
#define ZG_RECORD_READ_H

#include "base/file.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

struct result_file {
    char *path;
    json_t **lines;  // every record of the file, in its order; lines[0] is the run record
    size_t line_count;
    const json_t *run;
    const json_t *end;               // null: the run failed
    char digest[FILE_DIGEST_BYTES];  // of the lines before `end`, as they are in the file
};

// Reads the whole file; ERR_USAGE names file and line of what is not as RECORDS.md and schema.json say, or too large.
// A file without an end record is read, with end == NULL. Keys that are not known are dropped. Closed with
// result_close.
int result_open(const char *path, struct result_file *out);
void result_close(struct result_file *file);

#endif
