// SPDX-License-Identifier: Apache-2.0
#include "results/record/record_shape.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 256, SHOWN_BYTES = 80, EXPECTED_BYTES = 512 };

static size_t character_count(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;  // the first byte of each character in UTF-8
    return count;
}

static void words_text(const char *const *words, char out[EXPECTED_BYTES])
{
    size_t used = (size_t)snprintf(out, EXPECTED_BYTES, "one of");
    for (size_t i = 0; words[i] && used < EXPECTED_BYTES; i++)
        used += (size_t)snprintf(out + used, EXPECTED_BYTES - used, "%s \"%s\"", i ? "," : "", words[i]);
}

static void range_text(const struct shape *shape, char out[EXPECTED_BYTES])
{
    const char *what = shape->kind == SHAPE_WHOLE ? "a whole number" : "a number";
    char low[64] = "", high[64] = "";
    if (isfinite(shape->low))
        snprintf(low, sizeof low, " %s %.16g", shape->above ? "above" : "from", shape->low);
    if (isfinite(shape->high))
        snprintf(high, sizeof high, " to %.16g", shape->high);
    snprintf(out, EXPECTED_BYTES, "%s%s%s", what, low, high);
}

static void expected_text(const struct shape *shape, char out[EXPECTED_BYTES])
{
    switch (shape->kind) {
    case SHAPE_TEXT:
        if (shape->form)
            snprintf(out, EXPECTED_BYTES, "%s", shape->form_text);
        else
            snprintf(out, EXPECTED_BYTES, "a string of at most %.0f characters", shape->high);
        break;
    case SHAPE_WORD:
        words_text(shape->words, out);
        break;
    case SHAPE_WHOLE:
    case SHAPE_NUMBER:
        range_text(shape, out);
        break;
    case SHAPE_BOOLEAN:
        strcpy(out, "true or false");
        break;
    case SHAPE_TRUE:
        strcpy(out, "true");
        break;
    case SHAPE_LIST:
        snprintf(out, EXPECTED_BYTES, "an array of %.0f to %.0f elements", shape->low, shape->high);
        break;
    case SHAPE_OBJECT:
        strcpy(out, "an object");
        break;
    case SHAPE_NAMES:
        snprintf(out, EXPECTED_BYTES, "an object of at most %.0f keys of at most %d characters", shape->high,
                 NAME_LENGTH_MAX);
        break;
    case SHAPE_SCALAR:
    case SHAPE_DETAIL:
        snprintf(out, EXPECTED_BYTES, "a string of at most %.0f characters, a number, true, false or null%s",
                 shape->high, shape->kind == SHAPE_DETAIL ? ", or objects of these, at most two deep" : "");
        break;
    }
    if (shape->or_null)
        strncat(out, ", or null", EXPECTED_BYTES - strlen(out) - 1);
}

static bool text_fits(const json_t *value, const struct shape *shape)
{
    const char *text = json_string_value(value);
    return text && (double)character_count(text) <= shape->high && (!shape->form || shape->form(text));
}

static bool is_word(const json_t *value, const char *const *words)
{
    const char *text = json_string_value(value);
    for (size_t i = 0; text && words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}

static bool number_fits(const json_t *value, const struct shape *shape)
{
    if (!(shape->kind == SHAPE_WHOLE ? json_is_integer(value) : json_is_number(value)))
        return false;
    double number = json_number_value(value);
    return (shape->above ? number > shape->low : number >= shape->low) && number <= shape->high;
}

static bool names_fit(const json_t *value, const struct shape *shape)
{
    const char *key;
    json_t *inner;
    if (!json_is_object(value) || (double)json_object_size(value) > shape->high)
        return false;
    json_object_foreach ((json_t *)(uintptr_t)value, key, inner)
        if ((void)inner, character_count(key) > NAME_LENGTH_MAX)
            return false;
    return true;
}

static bool list_fits(const json_t *value, const struct shape *shape)
{
    double count = (double)json_array_size(value);
    return json_is_array(value) && count >= shape->low && count <= shape->high;
}

static bool scalar_fits(const json_t *value, const struct shape *shape)
{
    return json_is_number(value) || json_is_boolean(value) || json_is_null(value) || text_fits(value, shape);
}

static bool detail_fits(const json_t *value, const struct shape *shape, int depth)
{
    const struct shape names = {.kind = SHAPE_NAMES, .high = 64};
    const char *key;
    json_t *inner;
    if (!json_is_object(value) || depth == 0)
        return scalar_fits(value, shape);
    if (!names_fit(value, &names))
        return false;
    json_object_foreach ((json_t *)(uintptr_t)value, key, inner)
        if (!detail_fits(inner, shape, depth - 1))
            return false;
    return true;
}

// Checks the value itself, not its elements.
static bool fits(const json_t *value, const struct shape *shape)
{
    if (json_is_null(value))
        return shape->or_null || shape->kind == SHAPE_SCALAR || shape->kind == SHAPE_DETAIL;
    switch (shape->kind) {
    case SHAPE_TEXT:
        return text_fits(value, shape);
    case SHAPE_WORD:
        return is_word(value, shape->words);
    case SHAPE_WHOLE:
    case SHAPE_NUMBER:
        return number_fits(value, shape);
    case SHAPE_BOOLEAN:
        return json_is_boolean(value);
    case SHAPE_TRUE:
        return json_is_true(value);
    case SHAPE_LIST:
        return list_fits(value, shape);
    case SHAPE_OBJECT:
        return json_is_object(value);
    case SHAPE_NAMES:
        return names_fit(value, shape);
    case SHAPE_SCALAR:
        return scalar_fits(value, shape);
    case SHAPE_DETAIL:
        return detail_fits(value, shape, 2);
    }
    return false;
}

static int refuse(const char *where, const char *path, const json_t *value, const struct shape *shape)
{
    char expected[EXPECTED_BYTES], shown[TEXT_MESSAGE_BYTES], shown_path[TEXT_MESSAGE_BYTES];
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    expected_text(shape, expected);
    text_message(shown, text ? text : "", SHOWN_BYTES);
    text_message(shown_path, *path ? path : "the record", PATH_BYTES);
    free(text);
    return value ? err_set(ERR_USAGE, "%s: %s: is %s, expected %s", where, shown_path, shown, expected)
                 : err_set(ERR_USAGE, "%s: %s: is missing, expected %s", where, shown_path, expected);
}

static int check_fields(const char *where, const char *path, const json_t *value, const struct shape *shape)
{
    for (const struct shape_field *field = shape->fields; field->key; field++) {
        char inner[PATH_BYTES];
        const json_t *found = json_object_get(value, field->key);
        if (!found && field->shape.optional)
            continue;
        snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", field->key);
        TRY(shape_check(where, inner, found, &field->shape));
    }
    return ERR_NONE;
}

int shape_check(const char *where, const char *path, const json_t *value, const struct shape *shape)
{
    char inner[PATH_BYTES];
    const char *key;
    json_t *element;
    size_t i;
    if (!value || !fits(value, shape))
        return refuse(where, path, value, shape);
    if (json_is_null(value))
        return ERR_NONE;
    if (shape->kind == SHAPE_OBJECT)
        return check_fields(where, path, value, shape);
    if (shape->kind == SHAPE_LIST) {
        json_array_foreach (value, i, element) {
            snprintf(inner, sizeof inner, "%.200s.%zu", path, i);
            TRY(shape_check(where, inner, element, shape->element));
        }
    } else if (shape->kind == SHAPE_NAMES) {
        json_object_foreach ((json_t *)(uintptr_t)value, key, element) {
            snprintf(inner, sizeof inner, "%.100s.%.100s", path, key);
            TRY(shape_check(where, inner, element, shape->element));
        }
    }
    return ERR_NONE;
}

void shape_trim(json_t *value, const struct shape *shape)
{
    const char *key;
    void *next;
    json_t *inner;
    size_t i;
    if (shape->kind == SHAPE_LIST)
        json_array_foreach (value, i, inner)
            shape_trim(inner, shape->element);
    if (shape->kind != SHAPE_OBJECT || !json_is_object(value))
        return;
    json_object_foreach_safe(value, next, key, inner)
    {
        const struct shape_field *field = shape->fields;
        while (field->key && strcmp(field->key, key) != 0)
            field++;
        if (field->key)
            shape_trim(inner, &field->shape);
        else
            json_object_del(value, key);
    }
}
