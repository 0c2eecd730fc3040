// SPDX-License-Identifier: Apache-2.0
#include "base/strict_json.h"

#include "base/err.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 1024, WORDS_BYTES = 256, KEYS_MAX = 32 };

struct strict_object strict_root(const struct json_text *text)
{
    return (struct strict_object){.file = text->name, .text = text, .value = text->root, .path = ""};
}

int strict_parse(const char *name, const char *text, size_t bytes, strict_reader *read, void *context)
{
    struct json_text json;
    TRY(json_text_parse(name, text, bytes, &json));
    const struct strict_object root = strict_root(&json);
    int rc = read(&root, context);
    json_text_close(&json);
    return rc;
}

// Writes PATH.KEY, or the one that is not empty; truncates long ones.
static void join(const char *path, const char *key, char out[STRICT_PATH_BYTES])
{
    snprintf(out, STRICT_PATH_BYTES, "%.120s%s%.120s", path, *path && *key ? "." : "", key);
}

int strict_fail(const struct strict_object *object, const char *key, const char *format, ...)
{
    char message[MESSAGE_BYTES], path[STRICT_PATH_BYTES], shown[TEXT_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    join(object->path, key, path);
    return err_set(ERR_USAGE, "%s:%d: %s%s%s", object->file, json_text_line(object->text, path),
                   text_message(shown, path, STRICT_PATH_BYTES), *path ? ": " : "", message);
}

static bool is_known(const char *const keys[], const char *key)
{
    for (size_t i = 0; keys[i]; i++)
        if (strcmp(keys[i] + (keys[i][0] == '?'), key) == 0)
            return true;
    return false;
}

static int refuse_unknown(const struct strict_object *object, const char *key, const char *const keys[])
{
    char known[512] = "";
    size_t used = 0;
    for (size_t i = 0; keys[i] && used < sizeof known; i++)
        used +=
            (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", keys[i] + (keys[i][0] == '?'));
    return strict_fail(object, key, "unknown key, expected %s", known);
}

int strict_keys(const struct strict_object *object, const char *const keys[])
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)object->value, key, value) {
        (void)value;
        if (!is_known(keys, key))
            return refuse_unknown(object, key, keys);
    }
    for (size_t i = 0; keys[i]; i++)
        if (keys[i][0] != '?' && !json_object_get(object->value, keys[i]))
            return strict_fail(object, keys[i], "missing");
    return ERR_NONE;
}

int strict_only(const struct strict_object *object, const char *keys)
{
    char text[WORDS_BYTES * 2], *rest = NULL;
    const char *list[KEYS_MAX + 1];
    size_t count = 0;
    assert(strlen(keys) < sizeof text);
    for (char *key = strtok_r(strcpy(text, keys), " ", &rest); key; key = strtok_r(NULL, " ", &rest)) {
        assert(count < KEYS_MAX);
        list[count++] = key;
    }
    list[count] = NULL;
    return strict_keys(object, list);
}

static int refuse(const struct strict_object *object, const char *key, const char *expected)
{
    char shown[TEXT_MESSAGE_BYTES];
    return strict_fail(object, key, "is %s, expected %s", json_message(shown, json_object_get(object->value, key)),
                       expected);
}

int strict_bool(const struct strict_object *object, const char *key, bool *out)
{
    const json_t *value = json_object_get(object->value, key);
    if (!json_is_boolean(value))
        return refuse(object, key, "true or false");
    *out = json_is_true(value);
    return ERR_NONE;
}

int strict_integer(const struct strict_object *object, const char *key, int64_t low, int64_t high, int64_t *out)
{
    assert(low <= high);
    const json_t *value = json_object_get(object->value, key);
    if (!json_is_integer(value) || json_integer_value(value) < low || json_integer_value(value) > high) {
        char expected[80];
        snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, low, high);
        return refuse(object, key, expected);
    }
    *out = json_integer_value(value);
    return ERR_NONE;
}

int strict_int(const struct strict_object *object, const char *key, int low, int high, int *out)
{
    int64_t value = 0;
    TRY(strict_integer(object, key, low, high, &value));
    *out = (int)value;
    return ERR_NONE;
}

int strict_size(const struct strict_object *object, const char *key, int64_t high, size_t *out)
{
    int64_t value = 0;
    TRY(strict_integer(object, key, 0, high, &value));
    *out = (size_t)value;
    return ERR_NONE;
}

int strict_real(const struct strict_object *object, const char *key, double *out)
{
    const json_t *value = json_object_get(object->value, key);
    if (!json_is_number(value) || !isfinite(json_number_value(value)))
        return refuse(object, key, "a number");
    *out = json_number_value(value);
    return ERR_NONE;
}

int strict_string(const struct strict_object *object, const char *key, char *out, size_t room)
{
    const json_t *value = json_object_get(object->value, key);
    size_t bytes = json_string_length(value);
    bool plain = json_is_string(value) && bytes < room;
    for (size_t i = 0; plain && i < bytes; i++) {
        unsigned char byte = (unsigned char)json_string_value(value)[i];
        plain = byte >= 0x20 && byte != 0x7f;
    }
    if (!plain) {
        char expected[80];
        snprintf(expected, sizeof expected, "a string of less than %zu bytes without control characters", room);
        return refuse(object, key, expected);
    }
    memcpy(out, json_string_value(value), bytes + 1);
    return ERR_NONE;
}

int strict_text(const struct strict_object *object, const char *key, const char **out)
{
    *out = json_string_value(json_object_get(object->value, key));
    return *out ? ERR_NONE : refuse(object, key, "a string");
}

int strict_word(const struct strict_object *object, const char *key, const char *const words[], int *out)
{
    const char *text = json_string_value(json_object_get(object->value, key));
    char expected[WORDS_BYTES] = "one of";
    for (int i = 0; words[i]; i++) {
        if (text && strcmp(text, words[i]) == 0) {
            *out = i;
            return ERR_NONE;
        }
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s \"%s\"", i ? "," : "", words[i]);
    }
    return refuse(object, key, expected);
}

int strict_object_of(const struct strict_object *object, const char *key, struct strict_object *out)
{
    *out = *object;
    out->value = json_object_get(object->value, key);
    if (!json_is_object(out->value))
        return refuse(object, key, "an object");
    join(object->path, key, out->path);
    return ERR_NONE;
}

int strict_array(const struct strict_object *object, const char *key, size_t low, size_t high, const json_t **out,
                 size_t *count)
{
    *out = json_object_get(object->value, key);
    *count = json_array_size(*out);
    if (!json_is_array(*out) || *count < low || *count > high) {
        char expected[80];
        snprintf(expected, sizeof expected, "an array of %zu to %zu elements", low, high);
        return json_is_array(*out) ? strict_fail(object, key, "has %zu elements, expected %s", *count, expected)
                                   : refuse(object, key, expected);
    }
    return ERR_NONE;
}

int strict_element(const struct strict_object *object, const char *key, const json_t *array, size_t i,
                   struct strict_object *out)
{
    char element[STRICT_PATH_BYTES], shown[TEXT_MESSAGE_BYTES];
    *out = *object;
    out->value = json_array_get(array, i);
    snprintf(element, sizeof element, "%.100s.%zu", key, i);
    join(object->path, element, out->path);
    if (!json_is_object(out->value))
        return strict_fail(object, key, "element %zu is %s, expected an object", i, json_message(shown, out->value));
    return ERR_NONE;
}

int strict_each(const struct strict_object *object, const char *key, size_t low, size_t high,
                strict_element_reader *read, void *context, size_t *count)
{
    const json_t *array;
    struct strict_object element;
    TRY(strict_array(object, key, low, high, &array, count));
    for (size_t i = 0; i < *count; i++) {
        TRY(strict_element(object, key, array, i, &element));
        TRY(read(&element, i, context));
    }
    return ERR_NONE;
}
