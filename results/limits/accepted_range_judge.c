// SPDX-License-Identifier: Apache-2.0
// Applies accepted ranges to results.
#include "results/limits/accepted_range.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "base/size.h"
#include "results/limits/bench_finding.h"
#include "base/array.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *limit_json(double limit)
{
    return isnan(limit) ? json_null() : json_real(limit);
}

json_t *accepted_range_json(const struct accepted_range *range)
{
    return json_pack("{s:s, s:s, s:s, s:O, s:s, s:o, s:o, s:o, s:s}", "record", "band", "id", range->id, "bench",
                     range->bench, "case", range->of_case, "metric", range->of_ratio ? "ratio" : "median", "unit",
                     *range->unit ? json_string(range->unit) : json_null(), "at_least", limit_json(range->at_least),
                     "at_most", limit_json(range->at_most), "source", range->source);
}

bool bench_is_of(const char *bench, const char *name)
{
    size_t length = bench ? strlen(bench) : 0;
    return bench && strncmp(name, bench, length) == 0 && (name[length] == '\0' || name[length] == '_');
}

static const char PART_PREFIX[] = "bench-", PART_OF_LINK[] = "bench-pcie";
enum { PART_PREFIX_LENGTH = sizeof PART_PREFIX - 1 };

bool part_is_of_device(const char *part)
{
    bool is_bench = strncmp(part, PART_PREFIX, PART_PREFIX_LENGTH) == 0;
    return strcmp(part, PART_OF_LINK) == 0 || (is_bench && strchr(part + PART_PREFIX_LENGTH, '-'));
}

bool accepted_range_is_of_part(const struct accepted_range *range, const char *part)
{
    char bench[BENCH_FINDING_ID_BYTES];
    const char *device = json_string_value(json_object_get(range->of_case, "device"));
    if (strncmp(part, PART_PREFIX, PART_PREFIX_LENGTH) != 0)
        return false;
    snprintf(bench, sizeof bench, "%s", part + PART_PREFIX_LENGTH);
    char *dash = strchr(bench, '-');
    if (dash)
        *dash = '\0';
    if (!bench_is_of(bench, range->bench))
        return false;
    if (strcmp(part, PART_OF_LINK) == 0)
        return true;
    return dash ? device && strcmp(device, dash + 1) == 0 : !device;
}

bool accepted_range_applies(const struct accepted_range *range, const json_t *bench_record)
{
    const char *name = json_string_value(json_object_get(bench_record, "name")), *key;
    const json_t *of_case = json_object_get(bench_record, "case");
    json_t *value;
    if (!name || strcmp(name, range->bench) != 0)
        return false;
    // Ranges are for processors unless they name a device.
    if (json_object_get(of_case, "device") && !json_object_get(range->of_case, "device"))
        return false;
    json_object_foreach (range->of_case, key, value) {
        if (!json_equal(value, json_object_get(of_case, key)))
            return false;
    }
    return true;
}

const char *bench_label(const json_t *bench_record, char out[BENCH_LABEL_BYTES])
{
    char bytes[SIZE_TEXT_BYTES], shown[TEXT_MESSAGE_BYTES];
    const char *key, *name = json_string_value(json_object_get(bench_record, "name"));
    json_t *value, *of_case = json_object_get(bench_record, "case");
    int used = snprintf(out, BENCH_LABEL_BYTES, "%s", name ? name : "?");
    json_object_foreach (of_case, key, value) {
        size_t room = (size_t)used < BENCH_LABEL_BYTES ? BENCH_LABEL_BYTES - (size_t)used : 0;
        char *at = out + (BENCH_LABEL_BYTES - room);
        size_t length = strlen(key);
        if (json_is_string(value))
            used += snprintf(at, room, " %s", json_string_value(value));
        else if (json_is_integer(value) && length > 6 && strcmp(key + length - 6, "_bytes") == 0)
            used += snprintf(at, room, " %.*s=%s", (int)length - 6, key,
                             size_short_text((uint64_t)json_integer_value(value), bytes));
        else if (json_is_integer(value))
            used += snprintf(at, room, " %s=%" JSON_INTEGER_FORMAT, key, json_integer_value(value));
        else if (json_is_true(value))
            used += snprintf(at, room, " %s", key);
    }
    // A long text may end within a character, and escapes take more room.
    size_t limit = BENCH_LABEL_BYTES - 4;
    while (strlen(text_message(shown, out, limit)) >= BENCH_LABEL_BYTES)
        limit /= 2;
    return strcpy(out, shown);
}

static void describe(const struct accepted_range *range, const json_t *record, const char *label, double value,
                     struct bench_finding *out)
{
    const char *baseline = json_string_value(json_object_get(json_object_get(record, "yardstick"), "name"));
    bool low = value<range->at_least, high = value> range->at_most;
    double limit = low || (!high && !isnan(range->at_least)) ? range->at_least : range->at_most;
    const char *bound = limit == range->at_least ? "at least" : "at most";
    const char *why = range->of_ratio && high ? ": faster than possible" : "";
    if (range->of_ratio)
        snprintf(out->text, sizeof out->text, "%s: %s reaches %.1f %% of %s, expected %s %.4g %%%s", range->id, label,
                 100 * value, baseline ? baseline : "its baseline", bound, 100 * limit, why);
    else
        snprintf(out->text, sizeof out->text, "%s: %s has %.4g %s, expected %s %.4g", range->id, label, value,
                 range->unit, bound, limit);
}

void accepted_range_judge(const struct accepted_range *range, const json_t *bench_record, size_t line,
                          struct bench_finding *out)
{
    char label[BENCH_LABEL_BYTES];
    const json_t *number = json_object_get(bench_record, range->of_ratio ? "ratio" : "median");
    const char *unit = json_string_value(json_object_get(bench_record, "unit"));
    *out = (struct bench_finding){.kind = "band", .verdict = FINDING_INCOMPLETE, .line = line, .value = NAN};
    snprintf(out->id, sizeof out->id, "%s", range->id);
    bench_label(bench_record, label);
    if (!json_is_number(number)) {
        snprintf(out->text, sizeof out->text, "%s: %s has no baseline in this run, so there is no ratio", range->id,
                 label);
        return;
    }
    if (!range->of_ratio && (!unit || strcmp(unit, range->unit) != 0)) {
        snprintf(out->text, sizeof out->text, "%s: %s is in %s, the accepted range in %s", range->id, label,
                 unit ? unit : "?", range->unit);
        return;
    }
    double value = json_number_value(number);
    out->value = value;
    out->verdict = value < range->at_least || value > range->at_most ? FINDING_INVALID : FINDING_VALID;
    describe(range, bench_record, label, value, out);
}

const char *finding_verdict_name(enum finding_verdict verdict)
{
    static const char *const names[] = {
        [FINDING_VALID] = "VALID", [FINDING_INCOMPLETE] = "INCOMPLETE", [FINDING_INVALID] = "INVALID"};
    return names[verdict];
}

int bench_findings_add(struct bench_findings *findings, const struct bench_finding *finding)
{
    assert(finding->kind && *finding->id && *finding->text);
    TRY(array_grow(&findings->list, &findings->room, findings->count, sizeof *findings->list, "findings"));
    findings->list[findings->count++] = *finding;
    return ERR_NONE;
}

void bench_findings_free(struct bench_findings *findings)
{
    free(findings->list);
    *findings = (struct bench_findings){0};
}

enum finding_verdict bench_findings_verdict(const struct bench_findings *findings)
{
    enum finding_verdict verdict = FINDING_VALID;
    for (size_t i = 0; i < findings->count; i++)
        if (findings->list[i].verdict > verdict)
            verdict = findings->list[i].verdict;
    return verdict;
}

json_t *bench_finding_json(const struct bench_finding *finding)
{
    json_t *line = finding->line > 0 ? json_integer((json_int_t)finding->line) : json_null();
    json_t *value = isfinite(finding->value) ? json_real(finding->value) : json_null();
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:s}", "record", "finding", "kind", finding->kind, "verdict",
                     finding_verdict_name(finding->verdict), "id", finding->id, "line", line, "value", value, "text",
                     finding->text);
}

json_t *bench_findings_json(const struct bench_findings *findings)
{
    json_t *array = json_array();
    for (size_t i = 0; i < findings->count; i++)
        if (json_array_append_new(array, bench_finding_json(&findings->list[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}
