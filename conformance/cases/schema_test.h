// SPDX-License-Identifier: Apache-2.0
// For tests of JSON Schemas: whether a reader takes exactly what the schema says. It is asked with a sample that has
// every key, changed in one place at a time. What `anyOf` and `oneOf` describe is left alone.
#pragma once

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdint.h>
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
    json_object_set_new(object, "zz", json_integer(1));
    schema_expect(check, !json_is_false(json_object_get(schema, "additionalProperties")), path, "an unknown key");
    json_object_del(object, "zz");
    json_object_foreach (object, name, value)
        cr_expect_not_null(json_object_get(properties, name), "%s: \"%s\" is not in the schema", path, name);
    json_object_foreach ((json_t *)(uintptr_t)properties, name, value) {
        char inner[256];
        size_t i;
        json_t *required, *kept = json_object_get(object, name);
        bool is_required = false;
        snprintf(inner, sizeof inner, "%.200s.%s", path, name);
        cr_assert_not_null(kept, "%s is not in the sample", inner);
        json_array_foreach (json_object_get(schema, "required"), i, required)
            is_required |= strcmp(json_string_value(required), name) == 0;
        json_incref(kept);
        json_object_del(object, name);
        schema_expect(check, !is_required, inner, "left out");
        json_object_set_new(object, name, kept);
        schema_walk(check, value, object, name, 0, inner);
    }
}

// An object whose keys are names that the schema does not know.
static inline void schema_walk_names(struct schema_check *check, const json_t *schema, json_t *object, const char *path)
{
    const json_t *names = json_object_get(schema, "propertyNames");
    json_int_t most = json_integer_value(json_object_get(schema, "maxProperties"));
    json_int_t longest = json_integer_value(json_object_get(names, "maxLength"));
    const char *first = json_object_iter_key(json_object_iter(object));
    cr_assert(first && most && longest, "%s: the sample, or the schema, lacks what is tested", path);
    json_t *value = json_object_get(object, first), *filled = json_copy(object);
    for (json_int_t length = longest; length <= longest + 1; length++) {
        json_t *name = schema_letters(length);
        json_object_set(object, json_string_value(name), value);
        schema_expect(check, length == longest, path, "a long key");
        json_object_del(object, json_string_value(name));
        json_decref(name);
    }
    for (json_int_t i = 0; json_object_size(object) <= (size_t)most; i++) {
        char name[32];
        snprintf(name, sizeof name, "zz%lld", (long long)i);
        schema_expect(check, true, path, "one more key");
        json_object_set(object, name, value);
    }
    schema_expect(check, false, path, "too many keys");
    json_object_clear(object);
    schema_expect(check, true, path, "no keys");
    json_object_update(object, filled);
    json_decref(filled);
    schema_walk(check, json_object_get(schema, "additionalProperties"), object,
                json_object_iter_key(json_object_iter(object)), 0, path);
}

static inline void schema_walk_array(struct schema_check *check, const json_t *schema, json_t *parent, const char *key,
                                     size_t index, const char *path)
{
    json_t *array = key ? json_object_get(parent, key) : json_array_get(parent, index);
    json_t *items = json_object_get(schema, "items"), *unique = json_object_get(schema, "uniqueItems");
    const json_t *most = json_object_get(schema, "maxItems");
    schema_try(check, parent, key, index, json_array(), json_integer_value(json_object_get(schema, "minItems")) == 0,
               path);
    if (json_is_true(unique)) {
        json_t *twice = json_deep_copy(array);
        json_array_append(twice, json_array_get(array, 0));
        schema_try(check, parent, key, index, twice, false, path);
    } else if (most) {
        json_t *filled = json_copy(array);
        cr_assert_gt(json_array_size(array), 0, "%s: the sample has no element", path);
        while (json_array_size(filled) < (size_t)json_integer_value(most))
            json_array_append(filled, json_array_get(array, 0));
        json_array_append(filled, json_array_get(array, 0));
        schema_try(check, parent, key, index, filled, false, path);
    }
    for (size_t i = 0; items && i < json_array_size(array); i++)
        schema_walk(check, items, array, NULL, i, path);
}

static inline void schema_walk_number(struct schema_check *check, const json_t *schema, json_t *parent, const char *key,
                                      size_t index, bool whole, const char *path)
{
    const json_t *low = json_object_get(schema, "minimum"), *high = json_object_get(schema, "maximum");
    const json_t *above = json_object_get(schema, "exclusiveMinimum");
    if (whole)
        schema_try(check, parent, key, index, json_real(1.5), false, path);
    if (low) {
        schema_try(check, parent, key, index, json_integer(json_integer_value(low)), true, path);
        schema_try(check, parent, key, index, json_integer(json_integer_value(low) - 1), false, path);
    }
    if (high) {
        schema_try(check, parent, key, index, json_integer(json_integer_value(high)), true, path);
        schema_try(check, parent, key, index, json_integer(json_integer_value(high) + 1), false, path);
    }
    if (above) {
        schema_try(check, parent, key, index, json_integer(json_integer_value(above)), false, path);
        schema_try(check, parent, key, index, json_real(json_number_value(above) + 1e-9), true, path);
    }
}

static inline bool schema_has_type(const json_t *schema, const char *name)
{
    const json_t *type = json_object_get(schema, "type");
    json_t *one;
    size_t i;
    json_array_foreach (type, i, one)
        if (strcmp(json_string_value(one), name) == 0)
            return true;
    return json_is_string(type) && strcmp(json_string_value(type), name) == 0;
}

// One value of each kind that the schema does not allow; and null, if it does.
static inline void schema_walk_types(struct schema_check *check, const json_t *schema, json_t *parent, const char *key,
                                     size_t index, const char *path)
{
    const struct {
        const char *name;
        json_t *value;
    } kinds[] = {{"string", json_string("1")}, {"boolean", json_true()},  {"number", json_integer(1)},
                 {"array", json_array()},      {"object", json_object()}, {"null", json_null()}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bool is_null = json_is_null(kinds[i].value), has = schema_has_type(schema, kinds[i].name);
        has |= strcmp(kinds[i].name, "number") == 0 && schema_has_type(schema, "integer");
        if (!has || is_null)
            schema_try(check, parent, key, index, json_incref(kinds[i].value), has, path);
        json_decref(kinds[i].value);
    }
}

static inline void schema_walk_words(struct schema_check *check, const json_t *schema, json_t *parent, const char *key,
                                     size_t index, const char *path)
{
    const json_t *words = json_object_get(schema, "enum");
    json_t *word;
    size_t i;
    bool or_null = false;
    json_array_foreach (words, i, word) {
        schema_try(check, parent, key, index, json_incref(word), true, path);
        or_null |= json_is_null(word);
    }
    schema_try(check, parent, key, index, json_null(), or_null, path);
    schema_try(check, parent, key, index, json_string("no such word"), false, path);
    schema_try(check, parent, key, index, json_integer(99), false, path);
}

static inline void schema_walk_text(struct schema_check *check, const json_t *schema, json_t *parent, const char *key,
                                    size_t index, const char *path)
{
    const json_t *length = json_object_get(schema, "maxLength");
    bool pattern = json_object_get(schema, "pattern") != NULL;
    if (pattern)
        schema_try(check, parent, key, index, json_string("no such word"), false, path);
    if (length) {
        if (!pattern)
            schema_try(check, parent, key, index, schema_letters(json_integer_value(length)), true, path);
        schema_try(check, parent, key, index, schema_letters(json_integer_value(length) + 1), false, path);
    }
}

// The value at parent[key] (or [index]) against its schema.
static inline void schema_walk(struct schema_check *check, const json_t *schema, json_t *parent, const char *key,
                               size_t index, const char *path)
{
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    if (reference) {  // "#/$defs/NAME"
        schema = json_object_get(json_object_get(check->schema, "$defs"), reference + strlen("#/$defs/"));
        cr_assert_not_null(schema, "%s: %s", path, reference);
    }
    if (json_object_get(schema, "enum") || json_object_get(schema, "const")) {
        schema_walk_words(check, schema, parent, key, index, path);
        return;
    }
    if (!json_object_get(schema, "type"))
        return;
    schema_walk_types(check, schema, parent, key, index, path);
    json_t *object = key ? json_object_get(parent, key) : json_array_get(parent, index);
    if (schema_has_type(schema, "object") && json_is_object(json_object_get(schema, "additionalProperties")))
        schema_walk_names(check, schema, object, path);
    else if (schema_has_type(schema, "object"))
        schema_walk_object(check, schema, object, path);
    else if (schema_has_type(schema, "array"))
        schema_walk_array(check, schema, parent, key, index, path);
    if (schema_has_type(schema, "integer") || schema_has_type(schema, "number"))
        schema_walk_number(check, schema, parent, key, index, schema_has_type(schema, "integer"), path);
    if (schema_has_type(schema, "string"))
        schema_walk_text(check, schema, parent, key, index, path);
}

// schema_file: below the repository's root. definition: one of its $defs, or null for the whole. Returns how many
// changes were tried.
static inline int schema_check(const char *schema_file, const char *definition, const char *sample,
                               int (*read)(const char *text, size_t bytes))
{
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", ZG_SOURCE_DIR, schema_file);
    json_t *schema = json_load_file(path, JSON_REJECT_DUPLICATES, &error), *top = schema;
    cr_assert_not_null(schema, "%s:%d: %s", path, error.line, error.text);
    cr_expect_str_eq(json_string_value(json_object_get(schema, "$schema")),
                     "https://json-schema.org/draft/2020-12/schema");
    if (definition)
        top = json_object_get(json_object_get(schema, "$defs"), definition);
    cr_assert_not_null(top, "%s: %s", path, definition);
    json_t *root = json_pack("[o]", json_loads(sample, 0, &error));
    cr_assert_not_null(root, "the sample, %d: %s", error.line, error.text);
    struct schema_check check = {.schema = schema, .sample = json_array_get(root, 0), .read = read};
    schema_expect(&check, true, "the sample", "whole");
    cr_assert(json_is_object(check.sample));
    schema_walk_object(&check, top, check.sample, "");
    json_decref(root);
    json_decref(schema);
    return check.changes;
}
