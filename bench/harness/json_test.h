// SPDX-License-Identifier: Apache-2.0
// For tests: members of JSON objects.
#pragma once

#include <jansson.h>

// Returns a member as text; "" if it is none.
static inline const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static inline double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

// Returns a setting of a benchmark's record.
static inline const char *case_text(const json_t *record, const char *key)
{
    return text_of(json_object_get(record, "case"), key);
}
