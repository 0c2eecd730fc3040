// SPDX-License-Identifier: Apache-2.0
// Applies accepted ranges to results, and makes new ones from a run.
#include "results/limits/accepted_range.h"

#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "base/size.h"

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

// An "EMULATED" rate is a computed text, not a setting.
static bool names_a_case(const json_t *value)
{
    const char *word = json_string_value(value);
    return word ? strncmp(word, "EMULATED", 8) != 0 : json_is_integer(value) || json_is_boolean(value);
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

static void describe(const struct accepted_range *range, const json_t *record, double value, struct bench_finding *out)
{
    char label[BENCH_LABEL_BYTES];
    const char *baseline = json_string_value(json_object_get(json_object_get(record, "yardstick"), "name"));
    bool low = value<range->at_least, high = value> range->at_most;
    double limit = low || (!high && !isnan(range->at_least)) ? range->at_least : range->at_most;
    const char *bound = limit == range->at_least ? "at least" : "at most";
    const char *why = range->of_ratio && high ? ": faster than possible" : "";
    bench_label(record, label);
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
    describe(range, bench_record, value, out);
}

// --- new accepted ranges ---

// The tolerance as a share of the median: three times the distance between the 10 % and 90 % quantiles, from 0.1 to
// 0.5.
static double tolerance_of(const json_t *record)
{
    double median = json_number_value(json_object_get(record, "median"));
    double low = json_number_value(json_object_get(record, "p10"));
    double tolerance = 3 * (json_number_value(json_object_get(record, "p90")) - low) / median;
    return tolerance < 0.1 ? 0.1 : tolerance > 0.5 ? 0.5 : tolerance;
}

static json_t *saved_case(const json_t *record)
{
    const char *key;
    json_t *value, *of_case = json_object(), *all = json_object_get(record, "case");
    json_object_foreach (all, key, value) {
        if (names_a_case(value) && json_object_size(of_case) < ACCEPTED_RANGE_CASE_KEY_MAX)
            json_object_set(of_case, key, value);
    }
    return of_case;
}

static json_t *saved_range(const char *source, const json_t *record, size_t index)
{
    char id[BENCH_FINDING_ID_BYTES];
    double median = json_number_value(json_object_get(record, "median")), tolerance = tolerance_of(record);
    bool lower_is_better = json_is_true(json_object_get(record, "lower_is_better"));
    const char *name = json_string_value(json_object_get(record, "name"));
    snprintf(id, sizeof id, "%.40s-%zu", name, index + 1);
    return json_pack("{s:s, s:s, s:o, s:s, s:O, s:f, s:s}", "id", id, "bench", name, "case", saved_case(record),
                     "metric", "median", "unit", json_object_get(record, "unit"),
                     lower_is_better ? "at_most" : "at_least",
                     lower_is_better ? median * (1 + tolerance) : median * (1 - tolerance), "source", source);
}

static int write_new(const char *path, const char *text)
{
    FILE *file;
    int rc = file_create(path, &file);
    if (rc == ERR_NONE) {
        fprintf(file, "%s\n", text);
        rc = file_finish(file, path, ERR_NONE);
    }
    return rc == ERR_NONE ? ERR_NONE : err_prefix(rc, "--save-ranges");
}

int accepted_ranges_save(const char *path, const char *source, const json_t *const records[], size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, saved_range(source, records[i], i));
    json_t *root = json_pack("{s:i, s:s, s:o}", "schema", 1, "about", source, "bands", list);
    char *text = NULL;
    if (root && json_array_size(list) == count)
        text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    int rc = text ? write_new(path, text) : err_set(ERR_MEMORY, "no memory for %zu accepted ranges", count);
    free(text);
    json_decref(root);
    return rc;
}
