// SPDX-License-Identifier: Apache-2.0
#include "results/page/result_view.h"

#include "base/err.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const json_t *view_record(const struct result_view *view, size_t line)
{
    assert(line >= 1 && line <= view->file->line_count);
    return view->file->lines[line - 1];
}

const char *view_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double view_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

bool view_is(const json_t *record, const char *kind)
{
    return strcmp(view_text(record, "record"), kind) == 0;
}

char *case_key(const json_t *record)
{
    json_t *key = json_pack("[O, O, O]", json_object_get(record, "name"), json_object_get(record, "unit"),
                            json_object_get(record, "case"));
    char *text = key ? json_dumps(key, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
    json_decref(key);
    return text;
}

json_t *case_row(const json_t *record)
{
    char *text = settings_text(json_object_get(record, "case"));
    json_t *row = text ? json_pack("[s, s]", view_text(record, "name"), text) : NULL;
    free(text);
    return row;
}

char *command_text(const json_t *command)
{
    char *text;
    size_t bytes, i;
    const json_t *word;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    json_array_foreach (command, i, word)
        fprintf(out, "%s%s", i ? " " : "", json_string_value(word));
    return fclose(out) == 0 ? text : (free(text), NULL);
}

static int fill(struct bench_view *bench, const json_t *record, size_t line)
{
    const json_t *baseline = json_object_get(record, "yardstick");
    *bench = (struct bench_view){
        .record = record,
        .line = line,
        .name = view_text(record, "name"),
        .unit = view_text(record, "unit"),
        .baseline = json_string_value(json_object_get(baseline, "name")),
        .text = settings_text(json_object_get(record, "case")),
        .median = view_number(record, "median"),
        .p10 = view_number(record, "p10"),
        .p90 = view_number(record, "p90"),
        .ratio = view_number(record, "ratio"),
        .baseline_median = view_number(baseline, "median"),
        .at_least = NAN,
        .at_most = NAN,
    };
    return bench->text ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a case");
}

static int compare_lines(const void *line, const void *bench)
{
    size_t a = *(const size_t *)line, b = ((const struct bench_view *)bench)->line;
    return (a > b) - (a < b);
}

static bool is_worse(const char *verdict, const char *than)
{
    return !than || strcmp(verdict, "INVALID") == 0 || strcmp(than, "VALID") == 0;
}

// Applies a finding, and the accepted range that it names, to the judged case.
static void judge(struct result_view *view, const json_t *finding, const json_t *const *ranges, size_t range_count)
{
    size_t line = (size_t)json_integer_value(json_object_get(finding, "line"));
    struct bench_view *bench = bsearch(&line, view->benches, view->bench_count, sizeof *view->benches, compare_lines);
    if (!bench)
        return;
    if (is_worse(view_text(finding, "verdict"), bench->verdict))
        bench->verdict = view_text(finding, "verdict");
    for (size_t i = 0; i < range_count; i++) {
        if (strcmp(view_text(ranges[i], "metric"), "ratio") != 0 ||
            strcmp(view_text(ranges[i], "id"), view_text(finding, "id")) != 0)
            continue;
        bench->at_least = fmax(bench->at_least, view_number(ranges[i], "at_least"));
        bench->at_most = fmin(bench->at_most, view_number(ranges[i], "at_most"));
    }
}

int result_open_verified(const char *path, struct result_file *out)
{
    size_t refusal_count;
    TRY(result_open(path, out));
    int rc = record_verify(out, stderr, &refusal_count);
    if (rc == ERR_NONE && refusal_count > 0)
        rc = err_set(ERR_CHECK, "%s: %zu statement%s not verify", path, refusal_count,
                     refusal_count == 1 ? " does" : "s do");
    if (rc != ERR_NONE)
        result_close(out);
    return rc;
}

int result_view_open(const struct result_file *file, struct result_view *out)
{
    assert(file->end);
    const char *verdict = json_string_value(json_object_get(file->end, "verdict"));
    *out = (struct result_view){.file = file, .verdict = verdict ? verdict : "MEASURED"};
    out->benches = calloc(file->line_count, sizeof *out->benches);
    const json_t **ranges = calloc(file->line_count, sizeof *ranges);
    size_t range_count = 0;
    int rc = out->benches && ranges ? ERR_NONE : err_set(ERR_MEMORY, "no memory to show %s", file->path);
    for (size_t line = 1; rc == ERR_NONE && line <= file->line_count; line++) {
        const json_t *record = view_record(out, line);
        if (view_is(record, "bench"))
            rc = fill(&out->benches[out->bench_count++], record, line);
        else if (view_is(record, "band"))
            ranges[range_count++] = record;
    }
    for (size_t line = 1; rc == ERR_NONE && line <= file->line_count; line++)
        if (view_is(view_record(out, line), "finding"))
            judge(out, view_record(out, line), ranges, range_count);
    free(ranges);
    if (rc == ERR_NONE && strcmp(out->verdict, "VALID") == 0)
        rc = record_own_limits(file, out->own_limits);
    if (*out->own_limits)
        out->verdict = OWN_VERDICT;
    if (rc == ERR_NONE && strcmp(out->verdict, "VALID") == 0)
        record_unranked(file, out->unranked);
    return rc;
}

void result_view_close(struct result_view *view)
{
    for (size_t i = 0; i < view->bench_count; i++)
        free(view->benches[i].text);
    free(view->benches);
    *view = (struct result_view){0};
}

const char *number_text(double value, char out[NUMBER_TEXT_BYTES])
{
    // Uses an exponent only where digits become hard to count.
    double size = fabs(value);
    int digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
    if (value != 0 && (size >= 1e7 || size < 1e-3))
        snprintf(out, NUMBER_TEXT_BYTES, "%.3e", value);
    else
        snprintf(out, NUMBER_TEXT_BYTES, "%.*f", digits, value);
    if (strchr(out, '.') && !strchr(out, 'e')) {
        size_t end = strlen(out);
        while (out[end - 1] == '0')
            end--;
        out[out[end - 1] == '.' ? end - 1 : end] = '\0';
    }
    return out;
}

const char *bytes_text(double bytes, char out[NUMBER_TEXT_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++)
        bytes /= 1024;
    snprintf(out, NUMBER_TEXT_BYTES, "%.4g %s", bytes, units[unit]);
    return out;
}

static void setting_text(FILE *out, const char *key, const json_t *value)
{
    static const char suffix[] = "_bytes";
    char number[NUMBER_TEXT_BYTES];
    size_t length = strlen(key), tail = sizeof suffix - 1;
    bool is_bytes = length > tail && strcmp(key + length - tail, suffix) == 0 && json_is_integer(value);
    fprintf(out, "%.*s=", (int)(is_bytes ? length - tail : length), key);
    if (is_bytes)
        fputs(bytes_text(json_number_value(value), number), out);
    else if (json_is_integer(value))
        fprintf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        fputs(number_text(json_real_value(value), number), out);
    else if (json_is_string(value))
        fputs(json_string_value(value), out);
    else
        fputs(json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "none", out);
}

char *settings_text_of(const json_t *settings, const json_t *without, size_t most)
{
    char *text = NULL;
    size_t bytes, count = 0;
    const char *key;
    json_t *value;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    json_object_foreach ((json_t *)(uintptr_t)settings, key, value) {
        if (count == most || json_object_get(without, key))
            continue;
        fputs(count++ ? ", " : "", out);
        setting_text(out, key, value);
    }
    return fclose(out) == 0 ? text : (free(text), NULL);
}

char *settings_text(const json_t *settings)
{
    return settings_text_of(settings, NULL, SIZE_MAX);
}
