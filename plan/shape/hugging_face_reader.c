// SPDX-License-Identifier: Apache-2.0
#include "plan/shape/hugging_face_internal.h"

#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool hugging_face_trait(const struct hugging_face_reader *reader, const char *trait,
                        char value[HUGGING_FACE_TRAIT_BYTES])
{
    size_t length = strlen(trait);
    for (const char *word = reader->type->traits; word && *word; word += strspn(word, " ")) {
        size_t all = strcspn(word, " ");
        if (strncmp(word, trait, length) == 0 && (all == length || word[length] == '=')) {
            size_t from = all > length ? length + 1 : length;
            snprintf(value, HUGGING_FACE_TRAIT_BYTES, "%.*s", (int)(all - from), word + from);
            return true;
        }
        word += all;
    }
    value[0] = '\0';
    return false;
}

bool hugging_face_is_trait(const struct hugging_face_reader *reader, const char *trait)
{
    char value[HUGGING_FACE_TRAIT_BYTES];
    return hugging_face_trait(reader, trait, value);
}

size_t hugging_face_trait_number(const struct hugging_face_reader *reader, const char *trait, size_t without)
{
    char value[HUGGING_FACE_TRAIT_BYTES];
    return hugging_face_trait(reader, trait, value) ? strtoul(value, NULL, 10) : without;
}

int shape_read_size(const struct strict_object *object, const char *key, int64_t high, size_t *out)
{
    TRY(strict_size(object, key, high, out));
    return *out > 0 ? ERR_NONE : strict_fail(object, key, "is 0, expected at least 1");
}

bool hugging_face_has(struct hugging_face_reader *reader, const char *key)
{
    const json_t *value = json_object_get(reader->object.value, key);
    json_object_set_new(reader->used, key, json_true());
    return value && !json_is_null(value);
}

// Some files give a size for each block. They may not differ.
static int read_equal(struct hugging_face_reader *reader, const char *key, int64_t high, size_t *out)
{
    const json_t *array = json_object_get(reader->object.value, key), *first = json_array_get(array, 0);
    for (size_t i = 0; i < json_array_size(array); i++)
        if (!json_is_integer(json_array_get(array, i)) || !json_equal(json_array_get(array, i), first))
            return strict_fail(&reader->object, key, "has blocks that differ, expected one number");
    int64_t value = json_integer_value(first);
    if (value < 1 || value > high)
        return strict_fail(&reader->object, key, "is out of range, expected 1 to %lld", (long long)high);
    *out = (size_t)value;
    return ERR_NONE;
}

int hugging_face_size(struct hugging_face_reader *reader, const char *keys, int64_t high, size_t without, size_t *out)
{
    char text[160], *at = NULL;
    bool found = false;
    snprintf(text, sizeof text, "%s", keys);
    *out = without;
    for (char *key = strtok_r(text, " ", &at); key; key = strtok_r(NULL, " ", &at)) {
        bool has = hugging_face_has(reader, key);
        if (!has || found)
            continue;
        found = true;
        const json_t *value = json_object_get(reader->object.value, key);
        if (json_is_array(value))
            TRY(read_equal(reader, key, high, out));
        else if (without == 0 || !json_is_string(value) || strcmp(json_string_value(value), "auto") != 0)
            TRY(shape_read_size(&reader->object, key, high, out));
    }
    return found || without > 0 ? ERR_NONE : shape_read_size(&reader->object, text, high, out);
}

int hugging_face_count(struct hugging_face_reader *reader, const char *key, int64_t high, size_t *out)
{
    *out = 0;
    return hugging_face_has(reader, key) ? strict_size(&reader->object, key, high, out) : ERR_NONE;
}

int hugging_face_flag(struct hugging_face_reader *reader, const char *key, bool *out)
{
    return hugging_face_has(reader, key) ? strict_bool(&reader->object, key, out) : ERR_NONE;
}

void hugging_face_note(struct hugging_face_reader *reader, const char *format, ...)
{
    size_t used = strlen(reader->notes);
    va_list list;
    va_start(list, format);
    vsnprintf(reader->notes + used, HUGGING_FACE_NOTES_BYTES - used, format, list);
    va_end(list);
    used = strlen(reader->notes);
    snprintf(reader->notes + used, HUGGING_FACE_NOTES_BYTES - used, "\n");
}
