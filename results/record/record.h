// SPDX-License-Identifier: Apache-2.0
// A result file (RECORDS.md) as it is written: line by line, so that what was measured is there whatever happens next;
// only the `end` record makes it a result.
#ifndef ZG_RECORD_H
#define ZG_RECORD_H

#include <jansson.h>

#include <stddef.h>

struct record_writer;

// Makes the file; one that exists is refused with ERR_USAGE. Closed with record_close.
int record_create(const char *path, struct record_writer **out);

// Appends one record and makes it visible to readers. Takes the object over, also on failure. Null: ERR_MEMORY.
int record_append(struct record_writer *writer, json_t *record);

// Lines so far: the `line` of the record appended last.
size_t record_line_count(const struct record_writer *writer);

// Appends `end` with `lines` and `digest` added to the other keys, and makes the file durable.
// Takes the object over. Nothing can be appended afterwards.
int record_end(struct record_writer *writer, json_t *end);

// Without record_end before it, the file stays as that of a failed run.
void record_close(struct record_writer *writer);

// The `run` record for a program ("validate", "bench") started with this command line: suite and machine as they are.
// `paths` are the folders whose disks are described, null-terminated; may be null.
json_t *record_run(const char *program, const char *level, int argc, const char *const *argv, const char *const *paths);

#endif
