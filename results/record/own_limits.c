// SPDX-License-Identifier: Apache-2.0
#include "results/record/own_limits.h"

#include "results/limits/bands.h"
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

static const json_t *find(const struct result_file *file, const struct band *band)
{
    for (size_t i = 0; i < file->line_count; i++)
        if (is(file->lines[i], "band") && strcmp(text_of(file->lines[i], "id"), band->id) == 0)
            return file->lines[i];
    return NULL;
}

// What could not have been measured: another level's, or of a part that found no such device.
static bool may_be_missing(const struct result_file *file, const struct band *band)
{
    enum { UNTESTED_STATUS = 77 };
    if (band->full_only && strcmp(text_of(file->run, "level"), "quick") == 0)
        return true;
    for (size_t i = 0; i < file->line_count; i++) {
        const char *name = text_of(file->lines[i], "name");
        if (is(file->lines[i], "part") && strncmp(name, "bench-", 6) == 0 && bench_is_of(name + 6, band->bench) &&
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

static bool is_as_strict(const json_t *record, const struct band *band)
{
    double at_least = limit_of(record, "at_least"), at_most = limit_of(record, "at_most");
    return strcmp(text_of(record, "bench"), band->bench) == 0 &&
           strcmp(text_of(record, "metric"), band->of_ratio ? "ratio" : "median") == 0 &&
           strcmp(text_of(record, "unit"), band->unit) == 0 &&
           json_equal(json_object_get(record, "case"), band->of_case) &&
           (isnan(band->at_least) || at_least >= band->at_least * (1 - tolerance)) &&
           (isnan(band->at_most) || at_most <= band->at_most * (1 + tolerance));
}

int own_limits(const struct result_file *file, char out[OWN_LIMITS_TEXT_BYTES])
{
    struct bands bands = {0};
    size_t used = 0;
    out[0] = '\0';
    int rc = bands_add("default", &bands);
    for (size_t i = 0; rc == ERR_NONE && i < bands.count && used < OWN_LIMITS_TEXT_BYTES; i++) {
        const struct band *band = &bands.list[i];
        const json_t *record = find(file, band);
        if (record ? is_as_strict(record, band) : may_be_missing(file, band))
            continue;
        used += (size_t)snprintf(out + used, OWN_LIMITS_TEXT_BYTES - used, "%s%s %s", used > 0 ? ", " : "", band->id,
                                 record ? "is looser" : "is missing");
    }
    bands_free(&bands);
    return rc;
}
