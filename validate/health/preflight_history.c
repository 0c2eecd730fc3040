// SPDX-License-Identifier: Apache-2.0
// How often nodes failed: a file of JSON lines, one for each preflight of a node. A node that fails now and then is
// not repaired by passing once.
#include "validate/health/preflight.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { DAY_S = 24 * 60 * 60, COUNTED_DAYS = 30, KEPT_DAYS = 90, FAILURES_MOST = 2, LIMIT_BYTES = 256 << 20 };

static const char *text_of(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    return text ? text : "";
}

// Since 1970; -1: no time.
static int64_t time_of(const json_t *line)
{
    struct tm utc = {0};
    const char *end = strptime(text_of(line, "started"), "%Y-%m-%dT%H:%M:%SZ", &utc);
    return end && *end == '\0' ? (int64_t)timegm(&utc) : -1;
}

// Reads the lines that are young enough to be kept.
static int read_lines(const char *path, int64_t now_s, json_t *lines)
{
    char *text, *rest;
    size_t bytes;
    struct stat status;
    int number = 0, code = ERR_NONE;
    if (stat(path, &status) != 0)
        return ERR_NONE;
    TRY(file_read_text(path, LIMIT_BYTES, &text, &bytes));
    for (char *line = strtok_r(text, "\n", &rest); line && code == ERR_NONE; line = strtok_r(NULL, "\n", &rest)) {
        json_t *value = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        int64_t time_s = time_of(value);
        number++;
        if (strcmp(text_of(value, "record"), "preflight-history") != 0 || time_s < 0)
            code = err_set(ERR_USAGE, "--history %s: line %d is none of a preflight", path, number);
        else if (now_s - time_s <= KEPT_DAYS * DAY_S)
            json_array_append(lines, value);
        json_decref(value);
    }
    free(text);
    return code;
}

static bool is_host_of(const json_t *line, const json_t *other)
{
    return strcmp(text_of(line, "host"), text_of(other, "host")) == 0;
}

// One line for a host, of whichever of its ranks failed, with the time of the node that keeps the history: a host whose
// clock has lost the year would lose its failures.
static json_t *line_of(const struct preflight *p, const json_t *node, json_t *const nodes[], int count)
{
    char started[CLOCK_UTC_BYTES];
    size_t index;
    json_t *check, *failed = json_array();
    clock_utc_text(p->started_s, started);
    for (int i = 0; i < count; i++)
        json_array_foreach (json_object_get(nodes[i], "checks"), index, check)
            if (is_host_of(nodes[i], node) && strcmp(text_of(check, "state"), "FAIL") == 0)
                json_array_append(failed, json_object_get(check, "check"));
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:o, s:b}", "record", "preflight-history", "schema", 1, "host",
                     text_of(node, "host"), "started", started, "verdict", json_array_size(failed) > 0 ? "FAIL" : "ok",
                     "failed", failed, "repaired", p->after_repair != NULL);
}

static int count_failures(const json_t *lines, const json_t *node, int64_t now_s)
{
    size_t index;
    json_t *line;
    int count = 0;
    json_array_foreach (lines, index, line) {
        if (!is_host_of(line, node) || now_s - time_of(line) > COUNTED_DAYS * DAY_S)
            continue;
        count = json_is_true(json_object_get(line, "repaired")) ? 0 : count;
        count += strcmp(text_of(line, "verdict"), "FAIL") == 0;
    }
    return count;
}

static int write_lines(const char *path, const json_t *lines)
{
    struct file_output file;
    size_t index;
    json_t *line;
    TRY(file_output_open(path, FILE_REPLACED, &file));
    json_array_foreach (lines, index, line) {
        json_dumpf(line, file.out, 0);
        fputc('\n', file.out);
    }
    return file_output_close(&file, ERR_NONE);
}

int preflight_history(const struct preflight *p, json_t *const nodes[], int count)
{
    json_t *lines = json_array();
    int code = read_lines(p->history, p->started_s, lines);
    for (int i = 0; i < count && code == ERR_NONE; i++) {
        char text[120];
        int first = 0;
        while (!is_host_of(nodes[first], nodes[i]))
            first++;
        if (first < i)
            continue;
        json_array_append_new(lines, line_of(p, nodes[i], nodes, count));
        int failures = count_failures(lines, nodes[i], p->started_s);
        if (failures <= FAILURES_MOST)
            continue;
        snprintf(text, sizeof text, "failed %d times in %d days: take it out of service until it is repaired", failures,
                 COUNTED_DAYS);
        preflight_fail(nodes[i], "history", text);
    }
    if (code == ERR_NONE)
        code = write_lines(p->history, lines);
    json_decref(lines);
    return code;
}
