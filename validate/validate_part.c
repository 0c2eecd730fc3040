// SPDX-License-Identifier: Apache-2.0
#include "validate/validate_part.h"

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "results/limits/accepted_range.h"
#include "results/record/record_check.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_BYTES_MAX = 32 << 20, PART_UNTESTED = 77 };

// Reads the last line of the file, or "".
static void last_line(const char *path, char *out, size_t bytes)
{
    launch_tail(path, out, bytes);
    size_t length = strlen(out);
    while (length > 0 && (out[length - 1] == '\n' || out[length - 1] == ' '))
        out[--length] = '\0';
    const char *line = strrchr(out, '\n');
    if (line)
        memmove(out, line + 1, strlen(line + 1) + 1);
}

static int take_bench(const char *where, const char *bench, json_t *record, json_t *records)
{
    const char *kind = json_string_value(json_object_get(record, "record"));
    const char *name = json_string_value(json_object_get(record, "name"));
    if (!kind || (strcmp(kind, "bench") != 0 && strcmp(kind, "skip") != 0))
        return err_set(ERR_USAGE, "%s: is not a record of a benchmark", where);
    TRY(record_check(where, record));
    if (!bench_is_of(bench, name))
        return err_set(ERR_USAGE, "%s: is a record of the benchmark \"%.64s\", expected \"%s\"", where, name, bench);
    return json_array_append(records, record) == 0 ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a record");
}

static json_t *copy_of(const json_t *record, const char *key)
{
    json_t *value = json_object_get(record, key);
    return value ? json_incref(value) : json_null();
}

// A report has a run record, then checks, requirements, and an end record with the verdict.
static int take_report(const char *where, const json_t *record, json_t *conformance, json_t *records)
{
    const char *kind = json_string_value(json_object_get(record, "record"));
    static const char *const of_run[] = {"implementation", "version",    "level",
                                         "seed",           "case_count", "requirement_count"};
    if (!kind)
        return err_set(ERR_USAGE, "%s: is not a record", where);
    if (strcmp(kind, "run") == 0) {
        for (size_t i = 0; i < sizeof of_run / sizeof *of_run; i++)
            json_object_set_new(conformance, of_run[i], copy_of(record, of_run[i]));
    } else if (strcmp(kind, "end") == 0) {
        json_object_set_new(conformance, "verdict", copy_of(record, "verdict"));
        json_object_set_new(conformance, "requirement_counts", copy_of(record, "requirement_counts"));
    } else if (strcmp(kind, "requirement") == 0) {
        json_t *requirement = json_copy((json_t *)(uintptr_t)record);
        if (!requirement || json_array_append_new(records, requirement) != 0)
            return err_set(ERR_MEMORY, "no memory for a record");
        return record_check(where, requirement);
    } else if (strcmp(kind, "check") != 0) {
        return err_set(ERR_USAGE, "%s: a conformance report contains no \"%.64s\" records", where, kind);
    }
    return ERR_NONE;
}

struct reading {
    const char *path, *bench;
    json_t *conformance, *records;
};

static int read_line(const struct reading *r, const char *line, size_t bytes, size_t number)
{
    char where[PATH_MAX + 32];
    const char *slash = strrchr(r->path, '/'), *name = slash ? slash + 1 : r->path;
    snprintf(where, sizeof where, "%s:%zu", name, number);
    json_t *record;
    if (bytes > RECORD_LINE_BYTES_MAX)
        return err_set(ERR_USAGE, "%s: is longer than %d bytes, the limit of a record", where, RECORD_LINE_BYTES_MAX);
    TRY(json_parse(name, (int)number, line, bytes, &record));
    int rc = json_is_object(record) ? ERR_NONE : err_set(ERR_USAGE, "%s: is not a JSON object", where);
    if (rc == ERR_NONE)
        rc = r->bench ? take_bench(where, r->bench, record, r->records)
                      : take_report(where, record, r->conformance, r->records);
    json_decref(record);
    return rc;
}

static int read_lines(const struct reading *r, const char *text, size_t bytes)
{
    size_t number = 0;
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        if (!end)
            return err_set(ERR_USAGE, "its last line is cut off");
        size_t line_bytes = (size_t)(end - (text + at));
        TRY(read_line(r, text + at, line_bytes, ++number));
        at += line_bytes + 1;
    }
    if (r->bench)
        return json_array_size(r->records) > 0 ? ERR_NONE : err_set(ERR_USAGE, "it printed no result");
    return record_check("its report", r->conformance);
}

// Reads what a command printed into records: lines of the benchmark of that name; null: a report of the conformance
// suite, of which `conformance` and `requirement` records remain. ERR_USAGE names the line and what is wrong with it.
static int part_read(const char *path, const char *bench, json_t *records)
{
    char *text = NULL;
    size_t bytes = 0;
    TRY(file_read_text(path, OUTPUT_BYTES_MAX, &text, &bytes));
    struct reading r = {.path = path, .bench = bench, .records = records};
    r.conformance = bench ? NULL : json_pack("{s:s}", "record", "conformance");
    int rc = bench || r.conformance ? read_lines(&r, text, bytes) : err_set(ERR_MEMORY, "no memory for a report");
    if (rc == ERR_NONE && r.conformance && json_array_insert(records, 0, r.conformance) != 0)
        rc = err_set(ERR_MEMORY, "no memory for a report");
    json_decref(r.conformance);
    free(text);
    return rc;
}

// Interprets how the command ended. Status 1: it found something wrong. The conformance suite writes its report even
// then.
static void judge_end(const struct validate_part *part, const char *error_path, struct part_run *run)
{
    char said[256];
    const struct launch_result *launch = &run->launch;
    int status = launch->end == LAUNCH_EXITED ? launch->status : -1;
    bool has_output = status == 0 || (status == 1 && !part->bench);
    bool is_absent = status == PART_UNTESTED && part->may_be_absent;
    run->state = has_output ? PART_DONE : is_absent ? PART_ABSENT : PART_FAILED;
    run->verdict = status == 0 ? FINDING_VALID : status == 1 ? FINDING_INVALID : FINDING_INCOMPLETE;
    if (status == 0)
        return;
    last_line(error_path, said, sizeof said);
    if (status == PART_UNTESTED && said[0])
        snprintf(run->reason, sizeof run->reason, "%s", said);
    else
        snprintf(run->reason, sizeof run->reason, "%.250s%s%.250s", launch->text, said[0] ? ": " : "", said);
}

// Composes the files' names; *out has no records yet.
static int begin(const struct validate_part *part, const struct part_setting *setting, struct part_run *out,
                 struct part_files *files)
{
    char name[VALIDATE_NAME_BYTES + 8];
    *files = (struct part_files){0};
    *out = (struct part_run){.records = json_array()};
    if (!out->records)
        return err_set(ERR_MEMORY, "no memory for the records of %s", part->name);
    snprintf(name, sizeof name, "%s.out", part->name);
    TRY(file_join(setting->folder, name, files->output_path));
    snprintf(name, sizeof name, "%s.err", part->name);
    return file_join(setting->folder, name, files->error_path);
}

int part_files_open(const struct validate_part *part, const struct part_setting *setting, struct part_run *out,
                    struct part_files *files)
{
    TRY(begin(part, setting, out, files));
    TRY(file_create_stream(files->output_path, files->output_path, &files->output));
    int rc = file_create_stream(files->error_path, files->error_path, &files->errors);
    if (rc != ERR_NONE)
        fclose(files->output);
    return rc;
}

int part_end(const struct validate_part *part, const struct part_files *files, struct part_run *out)
{
    judge_end(part, files->error_path, out);
    if (out->state != PART_DONE)
        return ERR_NONE;
    int rc = part_read(files->output_path, part->bench, out->records);
    if (rc == ERR_USAGE) {
        out->state = PART_FAILED;
        out->verdict = FINDING_INCOMPLETE;
        snprintf(out->reason, sizeof out->reason, "its output is not valid: %s", err_message());
        return ERR_NONE;
    }
    return rc;
}

int part_run(const struct validate_part *part, const struct part_setting *setting, struct part_run *out)
{
    assert(part->argv[0] && part->limit_s > 0);
    struct part_files files;
    TRY(begin(part, setting, out, &files));
    const struct launch_setting launch_setting = {
        .argv = part->argv,
        .output_path = files.output_path,
        .error_path = files.error_path,
        .time_limit_s = part->limit_s,
        .output_limit_bytes = OUTPUT_BYTES_MAX,
        .interrupted = setting->interrupted,
        .tick = setting->tick,
        .tick_context = setting->tick_context,
    };
    int rc = launch(&launch_setting, &out->launch);
    if (rc == ERR_USAGE) {
        out->not_started = true;
        out->state = PART_FAILED;
        out->verdict = FINDING_INCOMPLETE;
        snprintf(out->reason, sizeof out->reason, "%s", err_message());
        return ERR_NONE;
    }
    TRY(rc);
    return part_end(part, &files, out);
}

void part_run_free(struct part_run *run)
{
    json_decref(run->records);
    run->records = NULL;
}
