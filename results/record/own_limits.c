// SPDX-License-Identifier: Apache-2.0
#include "results/record/own_limits.h"

#include "results/limits/accepted_range.h"
#include "base/err.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double tolerance = 2e-5;  // RECORDS.md: numbers have at least six digits

static const char *text_of(const json_t *record, const char *key)
{
    const char *text = json_string_value(json_object_get(record, key));
    return text ? text : "";
}

static bool is(const json_t *record, const char *kind)
{
    return strcmp(text_of(record, "record"), kind) == 0;
}

static const json_t *find(const struct result_file *file, const struct accepted_range *range)
{
    for (size_t i = 0; i < file->line_count; i++)
        if (is(file->lines[i], "band") && strcmp(text_of(file->lines[i], "id"), range->id) == 0)
            return file->lines[i];
    return NULL;
}

// What could not have been measured: another level's, or of a part that found no such device.
static bool may_be_missing(const struct result_file *file, const struct accepted_range *range)
{
    enum { UNTESTED_STATUS = 77 };
    if (range->full_only && strcmp(text_of(file->run, "level"), "quick") == 0)
        return true;
    for (size_t i = 0; i < file->line_count; i++) {
        const char *name = text_of(file->lines[i], "name");
        if (is(file->lines[i], "part") && strncmp(name, "bench-", 6) == 0 && bench_is_of(name + 6, range->bench) &&
            json_integer_value(json_object_get(file->lines[i], "status")) == UNTESTED_STATUS)
            return true;
    }
    return false;
}

// NaN is no limit.
static double limit_of(const json_t *record, const char *key)
{
    const json_t *limit = json_object_get(record, key);
    return json_is_number(limit) ? json_number_value(limit) : NAN;
}

static bool is_as_strict(const json_t *record, const struct accepted_range *range)
{
    double at_least = limit_of(record, "at_least"), at_most = limit_of(record, "at_most");
    return strcmp(text_of(record, "bench"), range->bench) == 0 &&
           strcmp(text_of(record, "metric"), range->of_ratio ? "ratio" : "median") == 0 &&
           strcmp(text_of(record, "unit"), range->unit) == 0 &&
           json_equal(json_object_get(record, "case"), range->of_case) &&
           (isnan(range->at_least) || at_least >= range->at_least * (1 - tolerance)) &&
           (isnan(range->at_most) || at_most <= range->at_most * (1 + tolerance));
}

int own_limits(const struct result_file *file, char out[OWN_LIMITS_TEXT_BYTES])
{
    struct accepted_ranges ranges = {0};
    size_t used = 0;
    out[0] = '\0';
    int rc = accepted_ranges_add("default", &ranges);
    for (size_t i = 0; rc == ERR_NONE && i < ranges.count && used < OWN_LIMITS_TEXT_BYTES; i++) {
        const struct accepted_range *range = &ranges.list[i];
        const json_t *record = find(file, range);
        if (record ? is_as_strict(record, range) : may_be_missing(file, range))
            continue;
        used += (size_t)snprintf(out + used, OWN_LIMITS_TEXT_BYTES - used, "%s%s %s", used > 0 ? ", " : "", range->id,
                                 record ? "is looser" : "is missing");
    }
    accepted_ranges_free(&ranges);
    return rc;
}
