// SPDX-License-Identifier: Apache-2.0
// For tests of JSON Schemas: whether a schema takes a value. Knows the keywords that conformance/schema uses, and fails
// at every other.
#pragma once

#include <criterion/criterion.h>
#include <jansson.h>
#include <regex.h>
#include <stdint.h>
#include <string.h>

static inline json_t *schema_load(const char *schema_file)
{
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, "%s/conformance/schema/%s", ZG_SOURCE_DIR, schema_file);
    json_t *schema = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    cr_assert_not_null(schema, "%s:%d: %s", path, error.line, error.text);
    return schema;
}

static inline bool schema_is_type(const char *type, const json_t *value)
{
    return strcmp(type, "object") == 0    ? json_is_object(value)
           : strcmp(type, "array") == 0   ? json_is_array(value)
           : strcmp(type, "string") == 0  ? json_is_string(value)
           : strcmp(type, "integer") == 0 ? json_is_integer(value)
           : strcmp(type, "number") == 0  ? json_is_number(value)
           : strcmp(type, "boolean") == 0 ? json_is_boolean(value)
                                          : json_is_null(value);
}

static inline bool schema_matches(const char *pattern, const char *text)
{
    regex_t regex;
    cr_assert_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0, "%s", pattern);
    bool matches = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return matches;
}

static inline bool schema_takes(const json_t *root, const json_t *schema, const json_t *value);

static inline int schema_takers(const json_t *root, const json_t *schemas, const json_t *value)
{
    int count = 0;
    for (size_t i = 0; i < json_array_size(schemas); i++)
        count += schema_takes(root, json_array_get(schemas, i), value);
    return count;
}

static inline bool schema_takes_members(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    const char *name;
    json_t *member;
    for (size_t i = 0; i < json_array_size(required); i++)
        if (!json_object_get(value, json_string_value(json_array_get(required, i))))
            return false;
    json_object_foreach ((json_t *)(uintptr_t)value, name, member) {
        const json_t *inner = json_object_get(properties, name);
        if (inner ? !schema_takes(root, inner, member) : json_is_false(json_object_get(schema, "additionalProperties")))
            return false;
    }
    return true;
}

static inline bool schema_takes_elements(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *items = json_object_get(schema, "items"), *most = json_object_get(schema, "maxItems");
    size_t count = json_array_size(value);
    if (count < (size_t)json_integer_value(json_object_get(schema, "minItems")) ||
        (most && count > (size_t)json_integer_value(most)))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (items && !schema_takes(root, items, json_array_get(value, i)))
            return false;
        for (size_t k = 0; k < i && json_is_true(json_object_get(schema, "uniqueItems")); k++)
            if (json_equal(json_array_get(value, i), json_array_get(value, k)))
                return false;
    }
    return true;
}

// A keyword that constrains a value; true where it takes it.
static inline bool schema_keyword(const json_t *root, const json_t *schema, const char *key, const json_t *is,
                                  const json_t *value)
{
    if (strcmp(key, "const") == 0)
        return json_equal(is, value);
    if (strcmp(key, "enum") == 0) {
        bool found = false;
        for (size_t i = 0; i < json_array_size(is); i++)
            found |= json_equal(json_array_get(is, i), value);
        return found;
    }
    if (strcmp(key, "type") == 0) {
        bool found = json_is_string(is) && schema_is_type(json_string_value(is), value);
        for (size_t i = 0; i < json_array_size(is); i++)
            found |= schema_is_type(json_string_value(json_array_get(is, i)), value);
        return found;
    }
    if (strcmp(key, "minimum") == 0)
        return !json_is_number(value) || json_number_value(value) >= json_number_value(is);
    if (strcmp(key, "maximum") == 0)
        return !json_is_number(value) || json_number_value(value) <= json_number_value(is);
    if (strcmp(key, "maxLength") == 0)
        return !json_is_string(value) || json_string_length(value) <= (size_t)json_integer_value(is);
    if (strcmp(key, "pattern") == 0)
        return !json_is_string(value) || schema_matches(json_string_value(is), json_string_value(value));
    if (strcmp(key, "anyOf") == 0)
        return schema_takers(root, is, value) > 0;
    if (strcmp(key, "oneOf") == 0)
        return schema_takers(root, is, value) == 1;
    if (strcmp(key, "properties") == 0)
        return !json_is_object(value) || schema_takes_members(root, schema, value);
    if (strcmp(key, "items") == 0)
        return !json_is_array(value) || schema_takes_elements(root, schema, value);
    if (strcmp(key, "$ref") == 0) {  // "#/$defs/NAME"
        const json_t *target = json_object_get(json_object_get(root, "$defs"), json_string_value(is) + 8);
        cr_assert_not_null(target, "%s", json_string_value(is));
        return schema_takes(root, target, value);
    }
    // Keywords that are checked with properties and items, or that do not restrict the value.
    static const char *const others[] = {
        "required", "additionalProperties", "minItems", "maxItems", "uniqueItems", "$schema", "$comment", "$defs",
        "title",    "description"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(key, others[i]) == 0)
            return true;
    cr_assert_fail("the keyword \"%s\" is not known here", key);
    return false;
}

// root: for $ref.
static inline bool schema_takes(const json_t *root, const json_t *schema, const json_t *value)
{
    const char *key;
    json_t *is;
    json_object_foreach ((json_t *)(uintptr_t)schema, key, is)
        if (!schema_keyword(root, schema, key, is, value))
            return false;
    return true;
}

// True if a schema accepts a text; false also where the text is not JSON.
static inline bool schema_takes_text(const json_t *schema, const char *text)
{
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    bool takes = value && schema_takes(schema, schema, value);
    json_decref(value);
    return takes;
}
