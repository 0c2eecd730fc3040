// SPDX-License-Identifier: Apache-2.0
// Expressions: arithmetic as text, such as "12 * layers * hidden ^ 2". datasets/papers/README.md describes the
// language. Errors are ERR_USAGE, "FILE:LINE: KEY.PATH: ...".
#pragma once

#include "base/strict_json.h"

enum {
    EXPRESSION_PATH_BYTES = 128,
    EXPRESSION_TERM_MAX = 256,  // numbers, names and parentheses that a query evaluates; bounds its depth, too
};

// An expression is the string, or the number, at a key of an object.
struct expression {
    const struct strict_object *object;
    const char *key;
};

// The meaning of the names in expressions.
struct expression_names {
    // Evaluates a path, "NAME" or "NAME.NAME...", of an expression, which messages name.
    int (*value)(const struct expression_names *names, const struct expression *expression, const char *path,
                 double *out);
    const void *context;  // of `value`
    int *term_count;      // evaluated so far, of all expressions of a query
};

int expression_evaluate(const struct expression *expression, const struct expression_names *names, double *out);
