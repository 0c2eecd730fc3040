// SPDX-License-Identifier: Apache-2.0
// Queries: JSON that decides a claim about training. datasets/claims/README.md describes the form. An expression is a
// number, or an object that evaluates to one: a quantity of a plan, a paper's equation, a number that a paper prints, a
// value rounded to a format, or arithmetic of expressions. A query compares an expression with a value. Errors are
// "FILE:LINE: KEY.PATH: ..." (ERR_USAGE).
#ifndef ZG_QUERY_H
#define ZG_QUERY_H

#include "base/strict_json.h"

#include <stdbool.h>
#include <stdio.h>

// Deeper expressions are refused.
enum { QUERY_DEPTH_MAX = 24 };

static inline bool query_has(const struct strict_object *object, const char *key)
{
    return json_object_get(object->value, key);
}

// Evaluates the expression at a key of the object. depth: number of enclosing expressions.
int query_number(const struct strict_object *object, const char *key, int depth, double *out);

// Evaluates the query at a key of the object: *out says whether it holds. *measured: the compared number; NAN if there
// is not exactly one.
int query_holds(const struct strict_object *object, const char *key, bool *out, double *measured);

// Evaluate {"plan": ..., "quantity": ...} and {"accepts": ...}, which is 1 or 0. In query_plan.c.
int query_plan_number(const struct strict_object *expression, const char *key, int depth, double *out);
int query_accepts_number(const struct strict_object *expression, const char *key, int depth, double *out);

// Evaluates {"printed": TABLE, "row": ..., "column": ...}. In paper.c.
int query_printed_number(const struct strict_object *expression, const char *key, int depth, double *out);

// Parses a text, calls visit with its object and returns visit's result. `file` is the FILE of the messages.
int query_text(const char *file, const char *text, size_t bytes,
               int (*visit)(const struct strict_object *root, void *context), void *context);

// Prints a JSON object as one line and releases it. ERR_MEMORY, also for null.
int query_print(json_t *line, FILE *out);

#endif
