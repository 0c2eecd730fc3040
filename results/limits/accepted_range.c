// SPDX-License-Identifier: Apache-2.0
// Reads files of accepted ranges strictly.
#include "results/limits/accepted_range.h"

#include "base/err.h"
#include "base/file.h"
#include "base/strict_json.h"
#include "base/safe_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const RANGES_KEYS[] = {"schema", "about", "bands", NULL};
static const char *const RANGE_KEYS[] = {"id",    "bench",     "metric",   "source", "?case",
                                         "?unit", "?at_least", "?at_most", "?level", NULL};

void accepted_ranges_free(struct accepted_ranges *ranges)
{
    for (size_t i = 0; i < ranges->count; i++)
        json_decref(ranges->list[i].of_case);
    free(ranges->list);
    *ranges = (struct accepted_ranges){0};
}

// Cases are matched by strings, integers and booleans; real numbers are measurements.
static bool is_scalar(const json_t *value)
{
    return json_is_string(value) || json_is_integer(value) || json_is_boolean(value);
}

static int parse_case(const struct strict_object *object, json_t **out)
{
    const char *key;
    json_t *value;
    struct strict_object of_case;
    if (!json_object_get(object->value, "case"))
        return (*out = json_object()) ? ERR_NONE : err_set(ERR_MEMORY, "no memory for an accepted range");
    TRY(strict_object_of(object, "case", &of_case));
    if (json_object_size(of_case.value) > ACCEPTED_RANGE_CASE_KEY_MAX)
        return strict_fail(object, "case", "has %zu keys, at most %d are expected", json_object_size(of_case.value),
                           ACCEPTED_RANGE_CASE_KEY_MAX);
    json_object_foreach ((json_t *)(uintptr_t)of_case.value, key, value) {
        char shown[TEXT_MESSAGE_BYTES];
        if (!is_scalar(value))
            return strict_fail(&of_case, key, "is %s, expected a string, a whole number, true or false",
                               json_message(shown, value));
    }
    // The parsed text is freed before the range.
    *out = json_deep_copy(of_case.value);
    return *out ? ERR_NONE : err_set(ERR_MEMORY, "no memory for an accepted range");
}

static int parse_limit(const struct strict_object *object, const char *key, double *out)
{
    *out = NAN;
    if (!json_object_get(object->value, key))
        return ERR_NONE;
    TRY(strict_real(object, key, out));
    return *out > 0 ? ERR_NONE : strict_fail(object, key, "is %g, expected more than 0", *out);
}

static int parse_metric(const struct strict_object *object, struct accepted_range *out)
{
    static const char *const metrics[] = {"ratio", "median", NULL};
    int metric;
    bool has_unit = json_object_get(object->value, "unit") != NULL;
    TRY(strict_word(object, "metric", metrics, &metric));
    out->of_ratio = metric == 0;
    if (out->of_ratio && has_unit)
        return strict_fail(object, "unit", "a ratio has no unit");
    if (!out->of_ratio && !has_unit)
        return strict_fail(object, "unit", "is missing; a median has a unit");
    return has_unit ? strict_string(object, "unit", out->unit, sizeof out->unit) : ERR_NONE;
}

static int parse_level(const struct strict_object *object, bool *full_only)
{
    static const char *const levels[] = {"quick", "full", NULL};
    int level = 0;
    if (json_object_get(object->value, "level"))
        TRY(strict_word(object, "level", levels, &level));
    *full_only = level == 1;
    return ERR_NONE;
}

// Reads everything but the case.
static int parse_range(const struct strict_object *object, struct accepted_range *out)
{
    TRY(strict_keys(object, RANGE_KEYS));
    TRY(strict_string(object, "id", out->id, sizeof out->id));
    TRY(strict_string(object, "bench", out->bench, sizeof out->bench));
    TRY(strict_string(object, "source", out->source, sizeof out->source));
    TRY(parse_metric(object, out));
    TRY(parse_limit(object, "at_least", &out->at_least));
    TRY(parse_limit(object, "at_most", &out->at_most));
    TRY(parse_level(object, &out->full_only));
    if (!*out->id || !*out->bench || !*out->source)
        return strict_fail(object, !*out->id ? "id" : !*out->bench ? "bench" : "source", "is empty");
    if (isnan(out->at_least) && isnan(out->at_most))
        return strict_fail(object, "at_least", "is missing, and so is at_most: give at least one of them");
    if (out->at_least > out->at_most)
        return strict_fail(object, "at_least", "is %g, more than at_most, which is %g", out->at_least, out->at_most);
    return ERR_NONE;
}

// Takes ownership of the accepted range.
static int put(struct accepted_ranges *ranges, const struct accepted_range *range)
{
    for (size_t i = 0; i < ranges->count; i++) {
        if (strcmp(ranges->list[i].id, range->id) == 0) {
            json_decref(ranges->list[i].of_case);
            ranges->list[i] = *range;
            return ERR_NONE;
        }
    }
    if (ranges->count == ranges->room) {
        size_t room = ranges->room ? 2 * ranges->room : 32;
        struct accepted_range *list = room <= ACCEPTED_RANGE_MAX ? realloc(ranges->list, room * sizeof *list) : NULL;
        if (!list)
            return err_set(ERR_MEMORY, "no memory for more than %zu accepted ranges", ranges->count);
        ranges->list = list;
        ranges->room = room;
    }
    ranges->list[ranges->count++] = *range;
    return ERR_NONE;
}

static int parse_one(const struct strict_object *object, struct accepted_ranges *ranges)
{
    struct accepted_range range = {0};
    TRY(parse_range(object, &range));
    TRY(parse_case(object, &range.of_case));
    int rc = put(ranges, &range);
    if (rc != ERR_NONE)
        json_decref(range.of_case);
    return rc;
}

// Within one file an id must be unique.
static int refuse_duplicates(const struct strict_object *root, const json_t *array, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct strict_object object;
        const char *id = json_string_value(json_object_get(json_array_get(array, i), "id"));
        for (size_t k = 0; id && k < i; k++) {
            const char *other = json_string_value(json_object_get(json_array_get(array, k), "id"));
            if (!other || strcmp(id, other) != 0)
                continue;
            TRY(strict_element(root, "bands", array, i, &object));
            return strict_fail(&object, "id", "\"%.64s\" is also the id of another accepted range of this file", id);
        }
    }
    return ERR_NONE;
}

static int parse_root(const struct strict_object *root, struct accepted_ranges *ranges)
{
    char about[4096];
    int schema;
    const json_t *array;
    size_t count;
    TRY(strict_keys(root, RANGES_KEYS));
    TRY(strict_int(root, "schema", 1, 1, &schema));
    TRY(strict_string(root, "about", about, sizeof about));
    TRY(strict_array(root, "bands", 1, ACCEPTED_RANGE_MAX, &array, &count));
    TRY(refuse_duplicates(root, array, count));
    for (size_t i = 0; i < count; i++) {
        struct strict_object object;
        TRY(strict_element(root, "bands", array, i, &object));
        TRY(parse_one(&object, ranges));
    }
    return ERR_NONE;
}

int accepted_ranges_parse(const char *name, const char *text, size_t bytes, struct accepted_ranges *ranges)
{
    struct json_text json;
    TRY(json_text_parse(name, text, bytes, &json));
    struct strict_object root = strict_root(&json);
    int rc = parse_root(&root, ranges);
    json_text_close(&json);
    return rc;
}

static int unknown_set(const char *name)
{
    char known[256] = "";
    size_t used = 0;
    for (const struct accepted_range_set *set = accepted_range_sets; set->name && used < sizeof known; set++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", set->name);
    return err_set(ERR_USAGE,
                   "--ranges %.200s: no such file, and no set of accepted ranges of that name is built in; "
                   "built in are %s",
                   name, known);
}

int accepted_ranges_add(const char *name, struct accepted_ranges *ranges)
{
    char *text;
    size_t bytes;
    if (!strchr(name, '/') && access(name, F_OK) != 0) {
        for (const struct accepted_range_set *set = accepted_range_sets; set->name; set++)
            if (strcmp(set->name, name) == 0)
                return accepted_ranges_parse(name, set->text, set->bytes, ranges);
        return unknown_set(name);
    }
    TRY(file_read_text(name, JSON_TEXT_BYTES_MAX, &text, &bytes));
    int rc = accepted_ranges_parse(name, text, bytes, ranges);
    free(text);
    return rc;
}
