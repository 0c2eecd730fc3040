// SPDX-License-Identifier: Apache-2.0
// Checks records against schema.json, which is compiled in: the part of JSON Schema that it uses, and messages made of
// it. A `title` there is the text of what is expected where type and limits do not say it.
#include "results/record/record_check.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 256, SHOWN_BYTES = 80, EXPECTED_BYTES = 512, PATTERN_MAX = 16 };

// Where a value is: a member, or without a key an element; the record itself has no `outer`. Messages alone need text.
struct place {
    const struct place *outer;
    const char *key;
    size_t index;
};

static json_t *whole, *definitions, *head;  // the schema, its $defs; what every record has
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *name_in(const json_t *reference)
{
    const char *text = json_string_value(json_object_get(reference, "$ref"));
    return text ? text + strlen("#/$defs/") : NULL;
}

static void load(void)
{
    json_t *names = json_array(), *kind;
    size_t i;
    whole = json_loads(record_schema_text, 0, NULL);
    definitions = json_object_get(whole, "$defs");
    json_array_foreach (json_object_get(whole, "oneOf"), i, kind)
        json_array_append_new(names, json_string(name_in(kind)));
    head = json_pack("{s:s, s:{s:{s:o}}, s:[s]}", "type", "object", "properties", "record", "enum", names, "required",
                     "record");
    assert(definitions && head);
}

static const json_t *resolved(const json_t *schema)
{
    const char *name = name_in(schema);
    return name ? json_object_get(definitions, name) : schema;
}

static bool has(const json_t *list, const json_t *value)
{
    size_t i = 0;
    while (i < json_array_size(list) && !json_equal(json_array_get(list, i), value))
        i++;
    return i < json_array_size(list);
}

static bool has_word(const json_t *list, const char *word)
{
    size_t i = 0;
    while (i < json_array_size(list) && strcmp(json_string_value(json_array_get(list, i)), word) != 0)
        i++;
    return i < json_array_size(list);
}

// A limit of the schema, or `without`.
static double limit(const json_t *schema, const char *key, double without)
{
    const json_t *value = json_object_get(schema, key);
    return value ? json_number_value(value) : without;
}

// True if the schema has this type, alone or among others.
static bool takes(const json_t *schema, const char *type)
{
    const json_t *types = json_object_get(schema, "type");
    return json_is_string(types) ? strcmp(json_string_value(types), type) == 0 : has_word(types, type);
}

static size_t character_count(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;  // the first byte of each character in UTF-8
    return count;
}

static bool is_like(const char *text, const char *pattern)
{
    static const char *known[PATTERN_MAX];  // each is compiled once
    static regex_t expressions[PATTERN_MAX];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    size_t i = 0;
    pthread_mutex_lock(&lock);
    for (; known[i] && known[i] != pattern; i++)
        assert(i + 1 < PATTERN_MAX);
    if (!known[i] && regcomp(&expressions[i], pattern, REG_EXTENDED | REG_NOSUB) == 0)
        known[i] = pattern;
    pthread_mutex_unlock(&lock);
    return known[i] == pattern && regexec(&expressions[i], text, 0, NULL, 0) == 0;
}

static bool text_fits(const char *text, const json_t *schema)
{
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    return (double)character_count(text) <= limit(schema, "maxLength", INFINITY) &&
           (!pattern || is_like(text, pattern));
}

static bool number_fits(double number, const json_t *schema)
{
    return number >= limit(schema, "minimum", -INFINITY) && number > limit(schema, "exclusiveMinimum", -INFINITY) &&
           number <= limit(schema, "maximum", INFINITY);
}

static bool names_fit(const json_t *value, const json_t *schema)
{
    const char *key;
    json_t *inner;
    double most = limit(json_object_get(schema, "propertyNames"), "maxLength", INFINITY);
    if ((double)json_object_size(value) > limit(schema, "maxProperties", INFINITY))
        return false;
    json_object_foreach ((json_t *)(uintptr_t)value, key, inner)
        if ((void)inner, (double)character_count(key) > most)
            return false;
    return true;
}

// Checks the value itself, not its elements.
static bool fits(const json_t *value, const json_t *schema)
{
    const json_t *constant = json_object_get(schema, "const"), *words = json_object_get(schema, "enum");
    double count = (double)json_array_size(value);
    if (constant || words)
        return constant ? json_equal(value, constant) : has(words, value);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return takes(schema, "object") && names_fit(value, schema);
    case JSON_ARRAY:
        return takes(schema, "array") && count >= limit(schema, "minItems", 0) &&
               count <= limit(schema, "maxItems", INFINITY);
    case JSON_STRING:
        return takes(schema, "string") && text_fits(json_string_value(value), schema);
    case JSON_INTEGER:
    case JSON_REAL:
        return (takes(schema, "number") || (json_is_integer(value) && takes(schema, "integer"))) &&
               number_fits(json_number_value(value), schema);
    case JSON_TRUE:
    case JSON_FALSE:
        return takes(schema, "boolean");
    case JSON_NULL:
        break;
    }
    return takes(schema, "null");
}

static void words_text(const json_t *words, char out[EXPECTED_BYTES])
{
    size_t used = (size_t)snprintf(out, EXPECTED_BYTES, "one of"), i;
    json_t *word;
    json_array_foreach (words, i, word)
        if (json_is_string(word) && used < EXPECTED_BYTES)
            used +=
                (size_t)snprintf(out + used, EXPECTED_BYTES - used, "%s \"%s\"", i ? "," : "", json_string_value(word));
}

static void range_text(const json_t *schema, char out[EXPECTED_BYTES])
{
    double above = limit(schema, "exclusiveMinimum", -INFINITY), least = limit(schema, "minimum", above);
    double most = limit(schema, "maximum", INFINITY);
    char low[64] = "", high[64] = "";
    if (isfinite(least))
        snprintf(low, sizeof low, " %s %.16g", isfinite(above) ? "above" : "from", least);
    if (isfinite(most))
        snprintf(high, sizeof high, " to %.16g", most);
    snprintf(out, EXPECTED_BYTES, "%s%s%s", takes(schema, "integer") ? "a whole number" : "a number", low, high);
}

static void expected_text(const json_t *schema, char out[EXPECTED_BYTES])
{
    const char *title = json_string_value(json_object_get(schema, "title"));
    const json_t *words = json_object_get(schema, "enum"), *names = json_object_get(schema, "propertyNames");
    if (title)
        snprintf(out, EXPECTED_BYTES, "%s", title);
    else if (words)
        words_text(words, out);
    else if (json_object_get(schema, "const"))
        strcpy(out, "true");
    else if (takes(schema, "string"))
        snprintf(out, EXPECTED_BYTES, "a string of at most %.0f characters", limit(schema, "maxLength", 0));
    else if (takes(schema, "boolean"))
        strcpy(out, "true or false");
    else if (takes(schema, "array"))
        snprintf(out, EXPECTED_BYTES, "an array of %.0f to %.0f elements", limit(schema, "minItems", 0),
                 limit(schema, "maxItems", 0));
    else if (names)
        snprintf(out, EXPECTED_BYTES, "an object of at most %.0f keys of at most %.0f characters",
                 limit(schema, "maxProperties", 0), limit(names, "maxLength", 0));
    else if (takes(schema, "object"))
        strcpy(out, "an object");
    else
        range_text(schema, out);
    if (!title && (takes(schema, "null") || (words && has(words, json_null()))))
        strncat(out, ", or null", EXPECTED_BYTES - strlen(out) - 1);
}

static size_t path_text(const struct place *place, char out[PATH_BYTES])
{
    size_t at = place->outer ? path_text(place->outer, out) : 0, room = PATH_BYTES - at;
    const char *dot = at > 0 ? "." : "", *key = place->key || place->outer ? place->key : "";
    int more = key ? snprintf(out + at, room, "%s%.100s", dot, key) : snprintf(out + at, room, ".%zu", place->index);
    return (size_t)more < room ? at + (size_t)more : PATH_BYTES - 1;
}

// where: null asks only for the code.
static int refuse(const char *where, const struct place *place, const json_t *value, const json_t *schema)
{
    char expected[EXPECTED_BYTES], shown[TEXT_MESSAGE_BYTES], shown_path[TEXT_MESSAGE_BYTES], path[PATH_BYTES];
    if (!where)
        return ERR_USAGE;
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    expected_text(schema, expected);
    text_message(shown, text ? text : "", SHOWN_BYTES);
    text_message(shown_path, path_text(place, path) > 0 ? path : "the record", PATH_BYTES);
    free(text);
    return value ? err_set(ERR_USAGE, "%s: %s: is %s, expected %s", where, shown_path, shown, expected)
                 : err_set(ERR_USAGE, "%s: %s: is missing, expected %s", where, shown_path, expected);
}

static int check(const char *where, const struct place *place, const json_t *value, const json_t *schema);

static int check_members(const char *where, const struct place *place, const json_t *value, const json_t *schema)
{
    const char *key;
    json_t *of_key;
    const json_t *others = json_object_get(schema, "additionalProperties");
    json_object_foreach (json_object_get(schema, "properties"), key, of_key)
        if (json_object_get(value, key) || has_word(json_object_get(schema, "required"), key))
            TRY(check(where, &(struct place){.outer = place, .key = key}, json_object_get(value, key), of_key));
    json_object_foreach ((json_t *)(uintptr_t)value, key, of_key)
        if (others)
            TRY(check(where, &(struct place){.outer = place, .key = key}, of_key, others));
    return ERR_NONE;
}

static int check(const char *where, const struct place *place, const json_t *value, const json_t *schema)
{
    json_t *one;
    size_t i;
    schema = resolved(schema);
    const json_t *choices = json_object_get(schema, "anyOf"), *items = json_object_get(schema, "items");
    json_array_foreach (choices, i, one)
        if (value && check(NULL, place, value, one) == ERR_NONE)
            return ERR_NONE;
    if (!value || choices || !fits(value, schema))
        return refuse(where, place, value, schema);
    json_array_foreach (value, i, one)
        TRY(check(where, &(struct place){.outer = place, .index = i}, one, items));
    return json_is_object(value) ? check_members(where, place, value, schema) : ERR_NONE;
}

int record_check(const char *where, const json_t *record)
{
    pthread_once(&once, load);
    TRY(check(where, &(struct place){0}, record, head));
    return check(where, &(struct place){0}, record,
                 json_object_get(definitions, json_string_value(json_object_get(record, "record"))));
}

static void trim(json_t *value, const json_t *schema)
{
    const char *key;
    void *next;
    json_t *inner;
    size_t i;
    schema = resolved(schema);
    json_t *items = json_object_get(schema, "items"), *properties = json_object_get(schema, "properties");
    json_array_foreach (value, i, inner)
        trim(inner, items);
    if (!properties)
        return;
    json_object_foreach_safe(value, next, key, inner)
    {
        const json_t *of_key = json_object_get(properties, key);
        if (of_key)
            trim(inner, of_key);
        else
            json_object_del(value, key);
    }
}

void record_trim(json_t *record)
{
    trim(record, json_object_get(definitions, json_string_value(json_object_get(record, "record"))));
}
