// SPDX-License-Identifier: Apache-2.0
// The records of RECORDS.md as tables. schema.json has the same for other programs; a test checks that both agree.
#include "results/record/record_check.h"

#include "base/err.h"
#include "results/record/record_shape.h"
#include "base/statistics.h"
#include "base/unit.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static bool is_pattern(const char *text, const char *pattern)
{
    for (; *pattern; text++, pattern++)
        if (*pattern == '0' ? !isdigit((unsigned char)*text) : *text != *pattern)
            return false;
    return !*text;
}

static bool is_time(const char *text)
{
    return is_pattern(text, "0000-00-00T00:00:00Z");
}

static bool is_hexadecimal(const char *text, size_t digits)
{
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static bool is_digest(const char *text)
{
    return is_hexadecimal(text, 32);
}

static bool is_commit(const char *text)
{
    return is_hexadecimal(text, 40);
}

static const char *const conformance_verdicts[] = {"CONFORMS", "CONFORMS-PARTLY", "FAILS", "NOTHING-JUDGED", NULL};
static const char *const requirement_verdicts[] = {"UNSUPPORTED", "PASS", "EQUIVALENT", "BOUNDED",
                                                   "PARTLY",      "FAIL", "BROKEN",     NULL};
static const char *const verdicts[] = {"VALID", "INVALID", "INCOMPLETE", NULL};
static const char *const kinds[] = {"arithmetic", "band", "health", "outlier", "part", NULL};
static const char *const statuses[] = {"complete", "interrupted", NULL};
static const char *const metrics[] = {"ratio", "median", NULL};

static const struct shape short_text = TEXT(256), argument = TEXT(4096), reason = TEXT(2048), sample = ABOVE_ZERO,
                          scalar = {.kind = SHAPE_SCALAR, .high = 256}, detail = {.kind = SHAPE_DETAIL, .high = 256};

static const struct shape_field suite_fields[] = {
    {"version", TEXT(64)},
    {"edition", WHOLE(1, 1000)},
    {"commit",
     {.kind = SHAPE_TEXT, .high = 40, .form = is_commit, .form_text = "40 hexadecimal digits", .or_null = true}},
    {"dirty", {.kind = SHAPE_BOOLEAN, .or_null = true}},
    {"compiler", TEXT(256)},
    {"flags", TEXT(4096)},
    {"libraries", NAMES(64, short_text)},
    {"openblas_warning", {.kind = SHAPE_TEXT, .high = 256, .optional = true}},
    {0},
};

static const struct shape_field host_fields[] = {
    {"host", TEXT(256)},
    {"rank", WHOLE(0, 1000000)},
    {"rank_count", WHOLE(1, 1000000)},
    {"machine", OBJECT(record_machine_fields)},
    {0},
};

static const struct shape host = OBJECT(host_fields);

static const struct shape_field run_fields[] = {
    {"schema", WHOLE(1, 1)},
    {"program", TEXT(64)},
    {"level", TEXT_OR_NULL(64)},
    {"command", LIST(1, 1024, argument)},
    {"started", FORM(20, is_time, "a time such as \"2026-01-31T12:00:00Z\"")},
    {"suite", OBJECT(suite_fields)},
    {"machine", OBJECT(record_machine_fields)},
    {"other_hosts", {.kind = SHAPE_LIST, .low = 0, .high = 256, .element = &host, .optional = true}},
    {0},
};

static const struct shape_field part_fields[] = {
    {"name", TEXT(128)},
    {"command", LIST(1, 1024, argument)},
    {"begin_s", NUMBER(0)},
    {"end_s", NUMBER(0)},
    {"status", WHOLE_OR_NULL(0, 255)},
    {"signal", WHOLE_OR_NULL(1, 64)},
    {"reason", TEXT_OR_NULL(2048)},
    {"budget_s", {.kind = SHAPE_NUMBER, .above = true, .high = INFINITY, .or_null = true, .optional = true}},
    {"rank", {.kind = SHAPE_WHOLE, .low = 0, .high = 1000000, .optional = true}},
    {"host", {.kind = SHAPE_TEXT, .high = 256, .optional = true}},
    {0},
};

#define COUNT(name)                                                                                                    \
    {                                                                                                                  \
        name, WHOLE(0, 1000000)                                                                                        \
    }
static const struct shape_field count_fields[] = {
    COUNT("PASS"), COUNT("EQUIVALENT"), COUNT("BOUNDED"), COUNT("FAIL"), COUNT("BROKEN"), COUNT("UNSUPPORTED"), {0}};

static const struct shape_field conformance_fields[] = {
    {"implementation", TEXT(256)},
    {"level", TEXT(64)},
    {"verdict", WORD(conformance_verdicts)},
    {"case_count", {.kind = SHAPE_WHOLE, .low = 0, .high = 1000000, .optional = true}},
    {"requirement_counts", OBJECT(count_fields)},
    {0},
};

static const struct shape_field requirement_fields[] = {
    {"id", TEXT(32)},
    {"must", {.kind = SHAPE_BOOLEAN}},
    {"chapter", TEXT(256)},
    {"title", TEXT(1024)},
    {"verdict", WORD(requirement_verdicts)},
    {"finding_counts", OBJECT(count_fields)},
    {"rules", LIST(0, 256, reason)},
    {0},
};

#define UNIT FORM(64, unit_is_known, "a unit such as \"ns_per_param\", \"ms\", \"GB/s\" or \"tokens/s\"")
static const struct shape_field baseline_fields[] = {
    {"name", TEXT(128)},    {"samples", LIST(1, STATISTICS_COUNT_MAX, sample)},
    {"median", ABOVE_ZERO}, {"p10", ABOVE_ZERO},
    {"p90", ABOVE_ZERO},    {"unit", UNIT},
    {"items", ABOVE_ZERO},  {0},
};

static const struct shape_field interval_fields[] = {
    {"lane", TEXT(64)}, {"begin_ms", NUMBER(0)}, {"end_ms", NUMBER(0)}, {0}};
static const struct shape interval = OBJECT(interval_fields);

static const struct shape_field bench_fields[] = {
    {"name", TEXT(64)},
    {"case", NAMES(32, scalar)},
    {"samples", LIST(1, STATISTICS_COUNT_MAX, sample)},
    {"median", ABOVE_ZERO},
    {"p10", ABOVE_ZERO},
    {"p90", ABOVE_ZERO},
    {"unit", UNIT},
    {"lower_is_better", {.kind = SHAPE_BOOLEAN}},
    {"items", ABOVE_ZERO},
    {"elapsed_s", ABOVE_ZERO},
    {"verified", {.kind = SHAPE_TRUE}},
    {"yardstick", {.kind = SHAPE_OBJECT, .fields = baseline_fields, .or_null = true}},
    {"ratio", {.kind = SHAPE_NUMBER, .above = true, .high = INFINITY, .or_null = true}},
    {"detail", {.kind = SHAPE_NAMES, .high = 32, .element = &detail, .optional = true}},
    {"timeline", {.kind = SHAPE_LIST, .low = 1, .high = 2000, .element = &interval, .optional = true}},
    {0},
};

static const struct shape_field skip_fields[] = {
    {"name", TEXT(64)},
    {"case", NAMES(32, scalar)},
    {"needs_bytes", WHOLE(1, COUNT_MAX)},
    {"available_bytes", WHOLE(0, COUNT_MAX)},
    {0},
};

static const struct shape_field counter_fields[] = {
    {"before", {.kind = SHAPE_NUMBER, .low = -INFINITY, .high = INFINITY, .or_null = true}},
    {"after", {.kind = SHAPE_NUMBER, .low = -INFINITY, .high = INFINITY, .or_null = true}},
    {0},
};
static const struct shape counter = {.kind = SHAPE_OBJECT, .fields = counter_fields, .or_null = true};
static const struct shape_field health_fields[] = {{"counters", NAMES(64, counter)}, {0}};

static const struct shape_field fit_fields[] = {
    {"model", TEXT(128)},
    {"params", WHOLE(1, COUNT_MAX)},
    {"world", WHOLE(1, 1000000)},
    {"preset", TEXT(128)},
    {"fits", {.kind = SHAPE_BOOLEAN, .or_null = true}},
    {"device_bytes", WHOLE(0, COUNT_MAX)},
    {"host_bytes", WHOLE(0, COUNT_MAX)},
    {"nvme_bytes", WHOLE(0, COUNT_MAX)},
    {"device_available_bytes", WHOLE_OR_NULL(0, COUNT_MAX)},
    {"host_available_bytes", WHOLE_OR_NULL(0, COUNT_MAX)},
    {"nvme_available_bytes", WHOLE_OR_NULL(0, COUNT_MAX)},
    {"reason", TEXT_OR_NULL(2048)},
    {0},
};

static const struct shape_field range_fields[] = {
    {"id", TEXT(128)},
    {"bench", TEXT(64)},
    {"case", NAMES(32, scalar)},
    {"metric", WORD(metrics)},
    {"unit",
     {.kind = SHAPE_TEXT, .high = 64, .form = unit_is_known, .form_text = "a unit of samples", .or_null = true}},
    {"at_least", NUMBER_OR_NULL(0)},
    {"at_most", NUMBER_OR_NULL(0)},
    {"source", TEXT(1024)},
    {0},
};

static const struct shape_field finding_fields[] = {
    {"kind", WORD(kinds)},
    {"verdict", WORD(verdicts)},
    {"id", TEXT(128)},
    {"line", WHOLE_OR_NULL(1, RECORD_LINE_COUNT_MAX)},
    {"value", {.kind = SHAPE_NUMBER, .low = -INFINITY, .high = INFINITY, .or_null = true}},
    {"text", TEXT(2048)},
    {0},
};

static const struct shape_field end_fields[] = {
    {"status", WORD(statuses)},
    {"verdict", {.kind = SHAPE_WORD, .words = verdicts, .or_null = true}},
    {"reasons", LIST(0, 1000, reason)},
    {"elapsed_s", NUMBER(0)},
    {"other_load", {.kind = SHAPE_NUMBER, .high = 1, .or_null = true}},
    {"lines", WHOLE(1, RECORD_LINE_COUNT_MAX)},
    {"digest", FORM(32, is_digest, "32 hexadecimal digits")},
    {0},
};

static const struct {
    const char *name;
    struct shape shape;
} records[] = {
    {"run", OBJECT(run_fields)},
    {"part", OBJECT(part_fields)},
    {"conformance", OBJECT(conformance_fields)},
    {"requirement", OBJECT(requirement_fields)},
    {"bench", OBJECT(bench_fields)},
    {"skip", OBJECT(skip_fields)},
    {"health", OBJECT(health_fields)},
    {"fit", OBJECT(fit_fields)},
    {"band", OBJECT(range_fields)},
    {"finding", OBJECT(finding_fields)},
    {"end", OBJECT(end_fields)},
};
enum { RECORD_KIND_COUNT = sizeof records / sizeof records[0] };

// Null: not a known record.
static const struct shape *shape_of(const json_t *record)
{
    const char *name = json_string_value(json_object_get(record, "record"));
    for (size_t i = 0; name && i < RECORD_KIND_COUNT; i++)
        if (strcmp(name, records[i].name) == 0)
            return &records[i].shape;
    return NULL;
}

int record_check(const char *where, const json_t *record)
{
    const char *words[RECORD_KIND_COUNT + 1] = {0};
    const struct shape *shape = shape_of(record);
    for (size_t i = 0; i < RECORD_KIND_COUNT; i++)
        words[i] = records[i].name;
    const struct shape_field heads[] = {{"record", WORD(words)}, {0}};
    const struct shape head = OBJECT(heads);
    TRY(shape_check(where, "", record, &head));
    return shape_check(where, "", record, shape);
}

void record_trim(json_t *record)
{
    const struct shape *shape = shape_of(record);
    json_t *name = json_incref(json_object_get(record, "record"));
    shape_trim(record, shape);
    json_object_set_new(record, "record", name);
}
