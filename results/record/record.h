// SPDX-License-Identifier: Apache-2.0
// Writes a result file (RECORDS.md) line by line, so that measurements survive a later crash; only the `end` record
// makes it a result.
#pragma once

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

struct record_writer;

// Creates the file; ERR_USAGE if it exists. Close with record_close.
int record_create(const char *path, struct record_writer **out);

// Appends one record and makes it visible to readers. Takes ownership of the object, also on failure. A null record is
// ERR_MEMORY.
int record_append(struct record_writer *writer, json_t *record);

// Lines so far: the `line` of the record appended last.
size_t record_line_count(const struct record_writer *writer);

// Appends `end` with `lines` and `digest` added to the other keys, and makes the file durable.
// Takes ownership of the object. Nothing can be appended afterwards.
int record_end(struct record_writer *writer, json_t *end);

// Without a preceding record_end the file shows a failed run. Null is ignored.
void record_close(struct record_writer *writer);

// The `run` record of a program ("validate", "bench") with this command line; describes the build and the machine.
// paths: folders whose disks are described, null at the end; may be null. level may be null. Null: no memory.
json_t *record_run(const char *program, const char *level, int argc, const char *const *argv, const char *const *paths);

enum { CONCLUSION_REASON_MAX = 1000 };

// findings: an array of `finding` records. Returns "VALID", "INVALID" or "INCOMPLETE"; null if there are no findings.
// *reasons: a new array of the texts that decide; null: no memory.
const char *conclusion_of(const json_t *findings, bool interrupted, json_t **reasons);

// The `end` record of a run with these findings, for record_end. other_load: from 0 to 1, or NaN. Null: no memory.
json_t *conclusion_end(const json_t *findings, bool interrupted, double elapsed_s, double other_load);
