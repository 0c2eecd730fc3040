// SPDX-License-Identifier: Apache-2.0
#include "results/record/record.h"

#include "base/build.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "cli/info/info.h"
#include "results/record/record_check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

struct record_writer {
    char *path;
    int fd;
    XXH3_state_t *hash;
    size_t line_count;
    off_t bytes;
    bool closed;  // by `end`, or by a failed write
};

// Nine digits are finer than any clock here, and survive being read and written again.
enum { RECORD_DIGITS = 9 };

int record_create(const char *path, struct record_writer **out)
{
    struct record_writer *writer = calloc(1, sizeof *writer);
    *out = NULL;
    if (!writer)
        return err_set(ERR_MEMORY, "no memory to write %s", path);
    writer->fd = -1;
    writer->path = strdup(path);
    writer->hash = XXH3_createState();
    int rc = ERR_NONE;
    if (!writer->path || !writer->hash)
        rc = err_set(ERR_MEMORY, "no memory to write %s", path);
    else if ((rc = file_check_output(path, FILE_NEW)) == ERR_NONE)
        rc = file_create(path, &writer->fd);
    if (rc != ERR_NONE) {
        record_close(writer);
        return rc;
    }
    XXH3_128bits_reset(writer->hash);
    *out = writer;
    return ERR_NONE;
}

// Writes one complete line, or nothing.
static int put_line(struct record_writer *writer, const json_t *record, bool hashed)
{
    char *text = json_dumps(record, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(RECORD_DIGITS));
    if (!text)
        return err_set(ERR_MEMORY, "%s: no memory for a line", writer->path);
    size_t bytes = strlen(text);
    text[bytes++] = '\n';  // replaces the terminating zero
    int rc =
        bytes > RECORD_LINE_BYTES_MAX || (size_t)writer->bytes + bytes > RECORD_FILE_BYTES_MAX
            ? err_set(ERR_USAGE, "%s: a line of %zu bytes exceeds the limits of a result file", writer->path, bytes)
            : file_write(writer->fd, writer->path, text, bytes);
    if (rc != ERR_NONE) {
        // Without the partial line the earlier ones stay readable.
        writer->closed = true;
        if (ftruncate(writer->fd, writer->bytes) != 0)
            rc = err_prefix(rc, "the last line is incomplete");
    } else {
        writer->bytes += (off_t)bytes;
        writer->line_count++;
        if (hashed)
            XXH3_128bits_update(writer->hash, text, bytes);
    }
    free(text);
    return rc;
}

// ERR_INTERNAL: readers would refuse this record, which is the writing program's fault.
static int refuse(const struct record_writer *writer, const json_t *record)
{
    char where[PATH_MAX + 32];
    const char *name = json_string_value(json_object_get(record, "record"));
    bool is_run = name && strcmp(name, "run") == 0;
    if (writer->closed)
        return err_set(ERR_INTERNAL, "%s: is closed to further records", writer->path);
    if (writer->line_count + 1 > RECORD_LINE_COUNT_MAX)
        return err_set(ERR_USAGE, "%s: a result file has at most %d lines", writer->path, RECORD_LINE_COUNT_MAX);
    snprintf(where, sizeof where, "%s:%zu", writer->path, writer->line_count + 1);
    if (record_check(where, record) != ERR_NONE)
        return err_prefix(ERR_INTERNAL, "a record that readers would refuse");
    if (is_run != (writer->line_count == 0))
        return err_set(ERR_INTERNAL, "%s: the first record must be `run`, and no other", where);
    return ERR_NONE;
}

int record_append(struct record_writer *writer, json_t *record)
{
    if (!record)
        return err_set(ERR_MEMORY, "%s: no memory for a record", writer->path);
    const char *name = json_string_value(json_object_get(record, "record"));
    int rc = name && strcmp(name, "end") == 0
                 ? err_set(ERR_INTERNAL, "%s: `end` is written by record_end", writer->path)
                 : refuse(writer, record);
    if (rc == ERR_NONE)
        rc = put_line(writer, record, true);
    json_decref(record);
    return rc;
}

size_t record_line_count(const struct record_writer *writer)
{
    return writer->line_count;
}

int record_end(struct record_writer *writer, json_t *end)
{
    char digest[FILE_DIGEST_BYTES];
    digest_text(XXH3_128bits_digest(writer->hash), digest);
    if (!end || json_object_set_new(end, "lines", json_integer((json_int_t)writer->line_count)) != 0 ||
        json_object_set_new(end, "digest", json_string(digest)) != 0) {
        json_decref(end);
        return err_set(ERR_MEMORY, "%s: no memory for a record", writer->path);
    }
    int rc = refuse(writer, end);
    if (rc == ERR_NONE)
        rc = put_line(writer, end, false);
    json_decref(end);
    writer->closed = true;
    TRY(rc);
    char folder[strlen(writer->path) + 2];
    TRY(file_sync(writer->fd, writer->path));
    return file_sync_folder(file_folder(writer->path, folder));
}

void record_close(struct record_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0)
        close(writer->fd);
    if (writer->hash)
        XXH3_freeState(writer->hash);
    free(writer->path);
    free(writer);
}

json_t *record_run(const char *program, const char *level, int argc, const char *const *argv, const char *const *paths)
{
    char started[CLOCK_UTC_BYTES];
    clock_utc_text(time(NULL), started);
    json_t *command = json_array();
    for (int i = 0; i < argc; i++)
        json_array_append_new(command, text_json(argv[i]));
    return json_pack("{s:s, s:i, s:s, s:o, s:o, s:s, s:o, s:o}", "record", "run", "schema", 1, "program", program,
                     "level", level ? json_string(level) : json_null(), "command", command, "started", started, "suite",
                     build_facts(), "machine", info_machine(paths));
}
