// SPDX-License-Identifier: Apache-2.0
#include "results/record/parts.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "results/record/record.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FIELD_COUNT = 5, PARTS_BYTES_MAX = 1 << 20, STATUS_SKIPPED = 77, STATUS_MOST = 255 };

struct line {
    const char *name, *command;
    double begin_s, end_s;  // since the epoch
    long status;
};

static bool read_number(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end > text && *end == '\0' && *out >= 0 && *out < 1e11;
}

static bool read_line(char *text, struct line *out)
{
    char *fields[FIELD_COUNT] = {text}, *end;
    for (int i = 1; i < FIELD_COUNT; i++) {
        char *tab = strchr(fields[i - 1], '\t');
        if (!tab)
            return false;
        *tab = '\0';
        fields[i] = tab + 1;
    }
    out->name = fields[0];
    out->command = fields[4];
    out->status = strtol(fields[3], &end, 10);
    return *out->name && *out->command && end > fields[3] && *end == '\0' && out->status >= 0 &&
           out->status <= STATUS_MOST && read_number(fields[1], &out->begin_s) && read_number(fields[2], &out->end_s) &&
           out->begin_s <= out->end_s;
}

static json_t *words_of(const char *command)
{
    json_t *words = json_array();
    for (const char *at = command; *at;) {
        size_t length = strcspn(at, " ");
        char word[256];
        if (length > 0 && json_array_size(words) < 64) {
            snprintf(word, sizeof word, "%.*s", (int)length, at);
            json_array_append_new(words, text_json(word));
        }
        at += length + (at[length] == ' ');
    }
    return words;
}

static json_t *part_of(const struct line *line, double started)
{
    const char *reason = line->status == 0 ? NULL : line->status == STATUS_SKIPPED ? "skipped" : "failed";
    return json_pack("{s:s, s:o, s:o, s:f, s:f, s:i, s:n, s:s?}", "record", "part", "name", text_json(line->name),
                     "command", words_of(line->command), "begin_s", line->begin_s - started, "end_s",
                     line->end_s - started, "status", (int)line->status, "signal", "reason", reason);
}

static json_t *run_of(double started, int argc, const char *const *argv)
{
    char text[CLOCK_UTC_BYTES];
    json_t *run = record_run("parts", NULL, argc, argv, NULL);
    clock_utc_text((time_t)started, text);
    if (run)
        json_object_set_new(run, "started", json_string(text));
    return run;
}

// text: cut into lines here.
static int write_parts(const char *path, char *text, struct record_writer *writer, int argc, const char *const *argv)
{
    struct line line = {0};
    double started = NAN, last = 0;
    size_t number = 0;
    char *rest;
    for (char *at = strtok_r(text, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
        number++;
        if (!read_line(at, &line))
            return err_set(ERR_USAGE,
                           "%s: line %zu: expected name, begin, end, exit status and command, with tabs between them",
                           path, number);
        if (number == 1) {
            started = floor(line.begin_s);
            TRY(record_append(writer, run_of(started, argc, argv)));
        }
        if (line.begin_s < started)
            return err_set(ERR_USAGE, "%s: line %zu: begins before the first line does", path, number);
        TRY(record_append(writer, part_of(&line, started)));
        last = fmax(last, line.end_s - started);
    }
    if (number == 0)
        return err_set(ERR_USAGE, "%s: has no lines", path);
    json_t *none = json_array();
    int code = record_end(writer, conclusion_end(none, false, last, NAN));
    json_decref(none);
    return code;
}

int parts_record(const char *path, const char *out, int argc, const char *const *argv)
{
    struct record_writer *writer;
    char *text;
    size_t bytes;
    TRY(file_read_text(path, PARTS_BYTES_MAX, &text, &bytes));
    int code = record_create(out, &writer);
    if (code == ERR_NONE) {
        code = write_parts(path, text, writer, argc, argv);
        record_close(writer);
        if (code != ERR_NONE)
            (void)unlink(out);
    }
    free(text);
    return code;
}
