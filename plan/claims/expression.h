// SPDX-License-Identifier: Apache-2.0
// Expressions: arithmetic as text, such as "12 * layers * hidden ^ 2" or "zero0.step_s / zero2.step_s about 4 within
// 0.01". datasets/claims/README.md describes the language. Errors are ERR_USAGE, "FILE:LINE: KEY.PATH: ...".
#ifndef ZG_EXPRESSION_H
#define ZG_EXPRESSION_H

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

struct expression_result {
    double value;          // of a comparison: 1 if it holds, else 0
    double compared;       // left operand of the last comparison in the text; NAN: none
    int comparison_count;  // in the text
};

int expression_evaluate(const struct expression *expression, const struct expression_names *names,
                        struct expression_result *out);

#endif
