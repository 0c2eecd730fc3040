// SPDX-License-Identifier: Apache-2.0
// For tests of JSON Schemas: whether a reader takes exactly what the schema says. It is asked with a sample that has
// every key, changed in one place at a time. What `anyOf` and `oneOf` describe is left alone.
#ifndef ZG_SCHEMA_TEST_H
#define ZG_SCHEMA_TEST_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct schema_check {
    const json_t *schema;  // the root, for $ref
    json_t *sample;
    int (*read)(const char *text, size_t bytes);  // 0: it takes the text
    int changes;                                  // that were tried
};

static inline void schema_expect(struct schema_check *check, bool takes, const char *path, const char *what)
{
    char *text = json_dumps(check->sample, JSON_ENCODE_ANY);
    cr_expect_eq(check->read(text, strlen(text)) == 0, takes, "%s, %s: expected %s\n%s", path, what,
                 takes ? "to be taken" : "a refusal", text);
    check->changes++;
    free(text);
}

// Sets a value in its object or array; takes over `value`.
static inline void schema_set(json_t *parent, const char *key, size_t index, json_t *value)
{
    if (key)
        json_object_set_new(parent, key, value);
    else
        json_array_set_new(parent, index, value);
}

static inline void schema_try(struct schema_check *check, json_t *parent, const char *key, size_t index, json_t *value,
                              bool takes, const char *path)
{
    json_t *old = key ? json_object_get(parent, key) : json_array_get(parent, index);
    json_incref(old);
    char *what = json_dumps(value, JSON_ENCODE_ANY);
    schema_set(parent, key, index, value);
    schema_expect(check, takes, path, what);
    schema_set(parent, key, index, old);
    free(what);
}

static inline json_t *schema_letters(json_int_t count)
{
    char *text = calloc(1, (size_t)count + 1);
    memset(text, 'x', (size_t)count);
    json_t *value = json_string(text);
    free(text);
    return value;
}

static inline void schema_walk(struct schema_check *check, const json_t *schema, json_t *parent, const char *key,
                               size_t index, const char *path);

static inline void schema_walk_object(struct schema_check *check, const json_t *schema, json_t *object,
                                      const char *path)
{
    const json_t *properties = json_object_get(schema, "properties");
    const char *name;
    json_t *value;
    cr_expect(json_is_false(json_object_get(schema, "additionalProperties")), "%s", path);
    json_object_set_new(object, "zz", json_integer(1));
    schema_expect(check, false, path, "an unknown key");
    json_object_del(object, "zz");
    json_object_foreach(object, name, value)
        cr_expect_not_null(json_object_get(properties, name), "%s: \"%s\" is not in the schema", path, name);
    json_object_foreach((json_t *)(uintptr_t)properties, name, value) {
        char inner[256];
        size_t i;
        json_t *required, *kept = json_object_get(object, name);
        bool is_required = false;
        snprintf(inner, sizeof inner, "%.200s.%s", path, name);
        cr_assert_not_null(kept, "%s is not in the sample", inner);
        json_array_foreach(json_object_get(schema, "required"), i, required)
            is_required |= strcmp(json_string_value(required), name) == 0;
        json_incref(kept);
        json_object_del(object, name);
        schema_expect(check, !is_required, inner, "left out");
        json_object_set_new(object, name, kept);
        schema_walk(check, value, object, name, 0, inner);
    }
}

static inline void schema_walk_array(struct schema_check *check, const json_t *schema, json_t *parent, const char *key,
                                     size_t index, const char *path)
{
    json_t *array = key ? json_object_get(parent, key) : json_array_get(parent, index);
    json_t *items = json_object_get(schema, "items"), *unique = json_object_get(schema, "uniqueItems");
    schema_try(check, parent, key, index, json_array(), json_integer_value(json_object_get(schema, "minItems")) == 0,
               path);
    if (json_is_true(unique)) {
        json_t *twice = json_deep_copy(array);
        json_array_append(twice, json_array_get(array, 0));
        schema_try(check, parent, key, index, twice, false, path);
    }
    for (size_t i = 0; items && i < json_array_size(array); i++)
        schema_walk(check, items, array, NULL, i, path);
}

static inline void schema_walk_number(struct schema_check *check, const json_t *schema, json_t *parent, const char *key,
                                      size_t index, const char *path)
{
    const json_t *low = json_object_get(schema, "minimum"), *high = json_object_get(schema, "maximum");
    bool whole = strcmp(json_string_value(json_object_get(schema, "type")), "integer") == 0;
    schema_try(check, parent, key, index, json_string("1"), false, path);
    if (whole)
        schema_try(check, parent, key, index, json_real(1.5), false, path);
    if (whole && low) {
        schema_try(check, parent, key, index, json_integer(json_integer_value(low)), true, path);
        schema_try(check, parent, key, index, json_integer(json_integer_value(low) - 1), false, path);
    }
    if (whole && high) {
        schema_try(check, parent, key, index, json_integer(json_integer_value(high)), true, path);
        schema_try(check, parent, key, index, json_integer(json_integer_value(high) + 1), false, path);
    }
}

// The value at parent[key] (or [index]) against its schema.
static inline void schema_walk(struct schema_check *check, const json_t *schema, json_t *parent, const char *key,
                               size_t index, const char *path)
{
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    if (reference)  // "#/$defs/NAME"
        schema = json_object_get(json_object_get(check->schema, "$defs"), reference + strlen("#/$defs/"));
    const json_t *words = json_object_get(schema, "enum"), *only = json_object_get(schema, "const");
    const char *type = json_string_value(json_object_get(schema, "type"));
    json_t *word;
    size_t i;
    if (words || only || type)
        schema_try(check, parent, key, index, json_null(), false, path);
    json_array_foreach(words, i, word)
        schema_try(check, parent, key, index, json_incref(word), true, path);
    if (words || only) {
        schema_try(check, parent, key, index, json_string("no such word"), false, path);
        schema_try(check, parent, key, index, json_integer(99), false, path);
    }
    const json_t *length = json_object_get(schema, "maxLength");
    if (!type)
        return;
    if (strcmp(type, "object") == 0) {
        schema_walk_object(check, schema, key ? json_object_get(parent, key) : json_array_get(parent, index), path);
    } else if (strcmp(type, "array") == 0) {
        schema_walk_array(check, schema, parent, key, index, path);
    } else if (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0) {
        schema_walk_number(check, schema, parent, key, index, path);
    } else if (strcmp(type, "boolean") == 0 || strcmp(type, "string") == 0) {
        schema_try(check, parent, key, index, json_integer(1), false, path);
        if (length) {
            schema_try(check, parent, key, index, schema_letters(json_integer_value(length)), true, path);
            schema_try(check, parent, key, index, schema_letters(json_integer_value(length) + 1), false, path);
        }
    } else {
        cr_assert_fail("%s: the type \"%s\" is not known here", path, type);
    }
}

// schema_file: below conformance/schema. Returns how many changes were tried.
static inline int schema_check(const char *schema_file, const char *sample,
                               int (*read)(const char *text, size_t bytes))
{
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, "%s/conformance/schema/%s", ZG_SOURCE_DIR, schema_file);
    json_t *schema = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    cr_assert_not_null(schema, "%s:%d: %s", path, error.line, error.text);
    cr_expect_str_eq(json_string_value(json_object_get(schema, "$schema")),
                     "https://json-schema.org/draft/2020-12/schema");
    json_t *root = json_pack("[o]", json_loads(sample, 0, &error));
    cr_assert_not_null(root, "the sample, %d: %s", error.line, error.text);
    struct schema_check check = {.schema = schema, .sample = json_array_get(root, 0), .read = read};
    schema_expect(&check, true, "the sample", "whole");
    cr_assert(json_is_object(check.sample));
    schema_walk_object(&check, schema, check.sample, "");
    json_decref(root);
    json_decref(schema);
    return check.changes;
}

#endif
