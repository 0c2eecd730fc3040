// SPDX-License-Identifier: Apache-2.0
// The permitted shape of a value in a record: type, size, fields. Tables of shapes describe the records
// (record_check.c).
#pragma once

#include <jansson.h>

#include <math.h>
#include <stdbool.h>

enum shape_kind {
    SHAPE_TEXT,    // at most `high` characters, which `form` accepts if it is given
    SHAPE_WORD,    // one of `words`
    SHAPE_WHOLE,   // a whole number from `low` to `high`
    SHAPE_NUMBER,  // a number from `low` to `high`; above `low` where `above`
    SHAPE_BOOLEAN,
    SHAPE_TRUE,    // only true
    SHAPE_LIST,    // from `low` to `high` elements of the shape `element`
    SHAPE_OBJECT,  // with these `fields`; others are ignored
    SHAPE_NAMES,   // at most `high` keys of at most NAME_LENGTH_MAX characters; each value of the shape `element`
    SHAPE_DETAIL,  // as SHAPE_SCALAR, or an object of at most 64 keys of at most NAME_LENGTH_MAX characters, whose
                   // values are details in turn, at most two objects deep
    SHAPE_SCALAR,  // a text of at most `high` characters, a number, a boolean or null
};

enum { NAME_LENGTH_MAX = 64 };

struct shape_field;

struct shape {
    enum shape_kind kind;
    bool or_null, above;
    bool optional;  // as a field: it may be missing
    double low, high;
    const char *const *words;  // null-terminated
    bool (*form)(const char *text);
    const char *form_text;  // "a time such as ..."
    const struct shape *element;
    const struct shape_field *fields;  // one with a null key ends them
};

struct shape_field {
    const char *key;
    struct shape shape;
};

// ERR_USAGE: "WHERE: PATH: is VALUE, expected WHAT". A null pointer means that the value is missing.
int shape_check(const char *where, const char *path, const json_t *value, const struct shape *shape);

// Removes the keys that the shape does not name, at every depth.
void shape_trim(json_t *value, const struct shape *shape);

#define TEXT(characters)                                                                                               \
    {                                                                                                                  \
        .kind = SHAPE_TEXT, .high = (characters)                                                                       \
    }
#define TEXT_OR_NULL(characters)                                                                                       \
    {                                                                                                                  \
        .kind = SHAPE_TEXT, .high = (characters), .or_null = true                                                      \
    }
#define WORD(list)                                                                                                     \
    {                                                                                                                  \
        .kind = SHAPE_WORD, .words = (list)                                                                            \
    }
#define WHOLE(from, to)                                                                                                \
    {                                                                                                                  \
        .kind = SHAPE_WHOLE, .low = (from), .high = (to)                                                               \
    }
#define WHOLE_OR_NULL(from, to)                                                                                        \
    {                                                                                                                  \
        .kind = SHAPE_WHOLE, .low = (from), .high = (to), .or_null = true                                              \
    }
#define NUMBER(from)                                                                                                   \
    {                                                                                                                  \
        .kind = SHAPE_NUMBER, .low = (from), .high = INFINITY                                                          \
    }
#define NUMBER_OR_NULL(from)                                                                                           \
    {                                                                                                                  \
        .kind = SHAPE_NUMBER, .low = (from), .high = INFINITY, .or_null = true                                         \
    }
#define ABOVE_ZERO                                                                                                     \
    {                                                                                                                  \
        .kind = SHAPE_NUMBER, .above = true, .high = INFINITY                                                          \
    }
#define LIST(from, to, of)                                                                                             \
    {                                                                                                                  \
        .kind = SHAPE_LIST, .low = (from), .high = (to), .element = &(of)                                              \
    }
#define OBJECT(table)                                                                                                  \
    {                                                                                                                  \
        .kind = SHAPE_OBJECT, .fields = (table)                                                                        \
    }
#define NAMES(most, of)                                                                                                \
    {                                                                                                                  \
        .kind = SHAPE_NAMES, .high = (most), .element = &(of)                                                          \
    }
#define FORM(characters, test, text)                                                                                   \
    {                                                                                                                  \
        .kind = SHAPE_TEXT, .high = (characters), .form = (test), .form_text = (text)                                  \
    }

// Of bytes and of parameters: 2^53 - 1, the largest integer that every JSON reader represents exactly.
#define COUNT_MAX 9007199254740991.0

extern const struct shape_field record_machine_fields[];  // ended by zeros
