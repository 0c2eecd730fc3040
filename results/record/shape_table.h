// SPDX-License-Identifier: Apache-2.0
// Initializers of struct shape, for tables of records. Sizes count characters or elements.
#ifndef ZG_SHAPE_TABLE_H
#define ZG_SHAPE_TABLE_H

#include "results/record/record_shape.h"

#include <math.h>

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

#endif
