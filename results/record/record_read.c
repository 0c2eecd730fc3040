// SPDX-License-Identifier: Apache-2.0

#include "base/digest.h"
#include "base/err.h"
#include "base/json.h"
#include "results/record/record_check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHERE_BYTES = PATH_MAX + 32 };

static size_t count_lines(const char *text, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += text[i] == '\n';
    return count;
}

static bool is_record(const json_t *record, const char *name)
{
    return strcmp(json_string_value(json_object_get(record, "record")), name) == 0;
}

// Parses, checks and appends one line.
static int take_line(struct result_file *file, const char *line, size_t bytes)
{
    char where[WHERE_BYTES];
    snprintf(where, sizeof where, "%s:%zu", file->path, file->line_count + 1);
    if (bytes > RECORD_LINE_BYTES_MAX)
        return err_set(ERR_USAGE, "%s: has %zu bytes; a line has at most %d", where, bytes, RECORD_LINE_BYTES_MAX);
    if (file->end)
        return err_set(ERR_USAGE, "%s: a line after the `end` record", where);
    json_t *record;
    TRY(json_parse(file->path, (int)file->line_count + 1, line, bytes, &record));
    file->lines[file->line_count] = record;
    file->line_count++;
    TRY(record_check(where, record));
    if (is_record(record, "run") != (file->line_count == 1))
        return err_set(ERR_USAGE, "%s: expected %s", where,
                       file->line_count == 1 ? "the `run` record first" : "no second `run` record");
    record_trim(record);
    if (is_record(record, "end"))
        file->end = record;
    return ERR_NONE;
}

static int take_lines(struct result_file *file, const char *text, size_t bytes)
{
    size_t count = count_lines(text, bytes), at = 0, hashed = 0;
    if (bytes == 0)
        return err_set(ERR_USAGE, "%s: is empty; expected a result file", file->path);
    if (text[bytes - 1] != '\n')
        return err_set(ERR_USAGE, "%s:%zu: the last line is cut off: its writer did not finish", file->path, count + 1);
    if (count > RECORD_LINE_COUNT_MAX)
        return err_set(ERR_USAGE, "%s: has %zu lines; a result file has at most %d", file->path, count,
                       RECORD_LINE_COUNT_MAX);
    if (!(file->lines = calloc(count, sizeof *file->lines)))
        return err_set(ERR_MEMORY, "no memory to read %s", file->path);
    for (size_t i = 0; i < count; i++) {
        size_t length = (size_t)((const char *)memchr(text + at, '\n', bytes - at) - (text + at));
        TRY(take_line(file, text + at, length));
        if (!file->end)
            hashed = at + length + 1;
        at += length + 1;
    }
    digest_text(XXH3_128bits(text, hashed), file->digest);
    return ERR_NONE;
}

int result_open(const char *path, struct result_file *out)
{
    char *text;
    size_t bytes;
    *out = (struct result_file){0};
    TRY(file_read_text(path, RECORD_FILE_BYTES_MAX, &text, &bytes));
    int rc = result_parse(path, text, bytes, out);
    free(text);
    return rc;
}

int result_parse(const char *path, const char *text, size_t bytes, struct result_file *out)
{
    *out = (struct result_file){.path = strdup(path)};
    int rc = out->path ? take_lines(out, text, bytes) : err_set(ERR_MEMORY, "no memory to read %s", path);
    if (rc == ERR_NONE)
        out->run = out->lines[0];
    else
        result_close(out);
    return rc;
}

void result_close(struct result_file *file)
{
    for (size_t i = 0; i < file->line_count; i++)
        json_decref(file->lines[i]);
    free(file->lines);
    free(file->path);
    *file = (struct result_file){0};
}
