// SPDX-License-Identifier: Apache-2.0
// Runs the checks and verifies the file as a whole: its end, its verdict, its digest.
#include "results/record/record_verify.h"

#include "results/record/record.h"
#include "base/err.h"
#include "base/safe_text.h"
#include "results/record/verify_internal.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 1024 };
static const double tolerance = 2e-5;  // RECORDS.md: numbers have at least six digits

void verify_refuse(struct verify *v, size_t line, const char *key, const char *format, ...)
{
    char message[MESSAGE_BYTES], location[MESSAGE_BYTES];
    v->refusal_count++;
    if (!v->out || v->refusal_count > VERIFY_LINE_MAX)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    snprintf(location, sizeof location, ":%zu: %s: ", line, key);
    text_terminal(v->out, v->file->path, 4);
    text_terminal(v->out, location, 4);
    text_terminal(v->out, message, 4);
    fputc('\n', v->out);
}

bool verify_same(double written, double recomputed)
{
    return fabs(written - recomputed) <= tolerance * fabs(recomputed);
}

bool verify_within(double shorter, double longer)
{
    return shorter <= longer * (1 + tolerance);
}

const json_t *verify_record(const struct verify *v, size_t line)
{
    assert(line >= 1 && line <= v->file->line_count);
    return v->file->lines[line - 1];
}

double verify_number(const json_t *record, const char *key)
{
    return json_number_value(json_object_get(record, key));
}

const char *verify_text(const json_t *record, const char *key)
{
    return json_string_value(json_object_get(record, key));
}

bool verify_is(const json_t *record, const char *name)
{
    return strcmp(verify_text(record, "record"), name) == 0;
}

bool verify_judges(const struct verify *v)
{
    const char *program = verify_text(v->file->run, "program");
    return strcmp(program, "bench") != 0 && strcmp(program, "parts") != 0;
}

const json_t *verify_finding(struct verify *v, const char *kind, const char *id, size_t line)
{
    const json_t *found = NULL;
    size_t count = 0;
    for (size_t i = v->first_finding[line]; i > 0; i = v->next_finding[i]) {
        const json_t *record = verify_record(v, i);
        if (strcmp(verify_text(record, "kind"), kind) != 0 || (id && strcmp(verify_text(record, "id"), id) != 0))
            continue;
        found = record;
        count++;
    }
    if (count == 1)
        return found;
    verify_refuse(v, line, "line", "has %zu findings of the kind %s%s%s, expected 1", count, kind, id ? " by " : "",
                  id ? id : "");
    return NULL;
}

void verify_finding_text(struct verify *v, size_t line, const json_t *finding, const char *expected)
{
    const char *text = finding ? verify_text(finding, "text") : expected, *other_words = NULL;
    if (json_integer_value(json_object_get(json_object_get(v->file->run, "suite"), "edition")) == 1)
        other_words = strstr(expected, ", expected ") ? strstr(expected, ", expected ") : strstr(expected, " reports ");
    size_t length = other_words ? (size_t)(other_words - expected) : SIZE_MAX;
    if (strcmp(verify_text(v->file->run, "program"), "validate") == 0 && strncmp(text, expected, length) != 0)
        verify_refuse(v, line, "text", "is %.300s, expected %.300s", text, expected);
}

// The records that findings of a kind refer to.
struct finding_kind {
    const char *name, *record, *or_record;
};

static const struct finding_kind *kind_of(const json_t *finding)
{
    static const struct finding_kind kinds[] = {{"arithmetic", "conformance", "conformance"},
                                                {"band", "bench", "skip"},
                                                {"health", "health", "health"},
                                                {"outlier", "bench", "bench"},
                                                {"part", "part", "part"}};
    size_t k = 0;
    while (strcmp(verify_text(finding, "kind"), kinds[k].name) != 0)
        k++;
    return &kinds[k];
}

// A finding must refer to a record of its kind.
static void verify_findings(struct verify *v)
{
    for (size_t f = 0; f < v->finding_count; f++) {
        size_t i = v->findings[f];
        const json_t *record = verify_record(v, i), *of = json_object_get(record, "line");
        size_t line = (size_t)json_integer_value(of);
        const struct finding_kind *kind = kind_of(record);
        if (json_is_null(of)) {
            if (strcmp(verify_text(record, "verdict"), "VALID") == 0)
                verify_refuse(v, i, "line", "is null, expected the line of the `%s` record that is VALID",
                              kind->record);
        } else if (line > v->file->line_count || (!verify_is(verify_record(v, line), kind->record) &&
                                                  !verify_is(verify_record(v, line), kind->or_record))) {
            verify_refuse(v, i, "line", "is %zu, expected the line of a `%s` record", line, kind->record);
        }
    }
}

static json_t *findings_of(const struct verify *v)
{
    json_t *findings = json_array();
    for (size_t i = 0; i < v->finding_count; i++)
        json_array_append(findings, (json_t *)(uintptr_t)verify_record(v, v->findings[i]));
    return findings;
}

static void verify_verdict(struct verify *v, size_t line, const json_t *end)
{
    json_t *reasons, *findings = findings_of(v);
    const json_t *written = json_object_get(end, "reasons");
    bool interrupted = strcmp(verify_text(end, "status"), "interrupted") == 0;
    const char *verdict = conclusion_of(findings, interrupted, &reasons), *said = verify_text(end, "verdict");
    if (strcmp(said ? said : "null", verdict ? verdict : "null") != 0)
        verify_refuse(v, line, "verdict", "is %s, expected %s from the findings", said ? said : "null",
                      verdict ? verdict : "null");
    if (!verdict && verify_judges(v))
        verify_refuse(v, line, "verdict", "is null, expected findings of a run that judges");
    if (!json_equal(written, reasons))
        verify_refuse(v, line, "reasons", "are not the texts of the %zu findings that decide, in their order",
                      json_array_size(reasons));
    json_decref(reasons);
    json_decref(findings);
}

static void verify_end(struct verify *v)
{
    const json_t *end = v->file->end;
    size_t line = v->file->line_count;
    if (!end) {
        verify_refuse(v, line, "record", "is not `end`: the run failed; nothing in the file is a result");
        return;
    }
    if (json_integer_value(json_object_get(end, "lines")) != (json_int_t)line - 1)
        verify_refuse(v, line, "lines", "is %lld, expected %zu",
                      (long long)json_integer_value(json_object_get(end, "lines")), line - 1);
    verify_verdict(v, line, end);
}

// Of a file that was changed this is the cause of what else is refused.
static void verify_digest(struct verify *v)
{
    const char *digest = v->file->end ? verify_text(v->file->end, "digest") : v->file->digest;
    if (strcmp(digest, v->file->digest) != 0)
        verify_refuse(v, v->file->line_count, "digest",
                      "is %s, expected %s of the lines before: they are not as they were written", digest,
                      v->file->digest);
}

// Backwards, so that each chain has its findings in the file's order.
static void index_findings(struct verify *v)
{
    for (size_t f = v->finding_count; f-- > 0;) {
        size_t line = v->findings[f];
        json_int_t of = json_integer_value(json_object_get(verify_record(v, line), "line"));
        if (of > 0 && of <= (json_int_t)v->file->line_count) {
            v->next_finding[line] = v->first_finding[of];
            v->first_finding[of] = line;
        }
    }
}

// Builds six lists in one allocation, which the caller frees. Null: no memory.
static size_t *index_lines(struct verify *v)
{
    size_t room = v->file->line_count + 1, *lists = calloc(6 * room, sizeof *lists);
    if (!lists)
        return NULL;
    v->ranges = lists;
    v->benches = lists + room;
    v->findings = lists + 2 * room;
    v->first_finding = lists + 3 * room;
    v->next_finding = lists + 4 * room;
    v->found = lists + 5 * room;
    for (size_t line = 1; line < room; line++) {
        const json_t *record = verify_record(v, line);
        if (verify_is(record, "band"))
            v->ranges[v->range_count++] = line;
        else if (verify_is(record, "bench"))
            v->benches[v->bench_count++] = line;
        else if (verify_is(record, "finding"))
            v->findings[v->finding_count++] = line;
    }
    index_findings(v);
    return lists;
}

static const double OTHER_LOAD_MOST = 0.05;

int record_verify(const struct result_file *file, FILE *out, size_t *refusal_count)
{
    assert(file->line_count > 0 && file->run == file->lines[0]);
    struct verify v = {.file = file, .out = out, .elapsed_s = INFINITY};
    size_t *lists = index_lines(&v);
    if (!lists)
        return err_set(ERR_MEMORY, "no memory to verify %s", file->path);
    if (file->end)
        v.elapsed_s = verify_number(file->end, "elapsed_s");
    v.is_busy = json_number_value(json_object_get(file->end, "other_load")) > OTHER_LOAD_MOST;
    verify_digest(&v);
    verify_machine(&v);
    verify_bench(&v);
    verify_steps(&v);
    if (v.range_count > VERIFY_RANGE_MAX)
        verify_refuse(&v, v.ranges[VERIFY_RANGE_MAX], "record", "exceeds the limit of %d `band` records",
                      VERIFY_RANGE_MAX);
    else
        verify_ranges(&v);
    verify_skips(&v);
    verify_health(&v);
    verify_parts(&v);
    verify_conformance(&v);
    verify_fits(&v);
    verify_findings(&v);
    if (strcmp(verify_text(file->run, "program"), "validate") == 0) {
        verify_run(&v);
        verify_suite(&v);
    }
    verify_whole(&v);
    int rc = verify_outliers(&v);
    verify_end(&v);
    free(lists);
    *refusal_count = v.refusal_count;
    return rc;
}

struct reasons {
    char *text;
    size_t used;
};

static void add(struct reasons *reasons, const char *text)
{
    if (reasons->used < UNRANKED_TEXT_BYTES)
        reasons->used += (size_t)snprintf(reasons->text + reasons->used, UNRANKED_TEXT_BYTES - reasons->used, "%s%s",
                                          reasons->used > 0 ? ", " : "", text);
}

void record_unranked(const struct result_file *file, char out[UNRANKED_TEXT_BYTES])
{
    struct reasons reasons = {.text = out};
    const char *level = json_string_value(json_object_get(file->run, "level"));
    const json_t *load = json_object_get(file->end, "other_load");
    char text[64];
    *out = '\0';
    if (strcmp(json_string_value(json_object_get(file->run, "program")), "validate") != 0)
        add(&reasons, "it is no run of validate");
    if (!level || strcmp(level, "full") != 0)
        add(&reasons, "its level is not full");
    if (json_is_true(json_object_get(json_object_get(file->run, "suite"), "dirty")))
        add(&reasons, "its sources are changed");
    if (!json_is_number(load)) {
        add(&reasons, "the load of other programs is unknown");
    } else if (json_number_value(load) > OTHER_LOAD_MOST) {
        snprintf(text, sizeof text, "other programs used %.0f %% of the processors", 100 * json_number_value(load));
        add(&reasons, text);
    }
}
