// SPDX-License-Identifier: Apache-2.0
// Queries: JSON that decides a statement about training, evaluated anew each time. datasets/claims/README.md describes
// the form. An expression is a number, or an object that gives one: what a plan holds or moves, a paper's equation, a
// number that a paper prints, a value rounded to a format, or arithmetic of expressions. A query compares an expression
// with a value. Errors are "FILE:LINE: KEY.PATH: ..." (ERR_USAGE).
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

// The expression at a key of the object; depth: of the expressions around it, 0 for none.
int query_number(const struct strict_object *object, const char *key, int depth, double *out);

// Whether the query at a key of the object holds. measured: what was compared; NAN where that is not one number.
int query_holds(const struct strict_object *object, const char *key, bool *out, double *measured);

// The expressions {"plan": ..., "quantity": ...} and {"accepts": ...}, which is 1 or 0: query_plan.c.
int query_plan_number(const struct strict_object *expression, const char *key, int depth, double *out);
int query_accepts_number(const struct strict_object *expression, const char *key, int depth, double *out);

// The number in {"printed": TABLE, "row": ..., "column": ...}: paper.c.
int query_printed_number(const struct strict_object *expression, const char *key, int depth, double *out);

// Parses a text, whose file is named in messages, and visits its object; returns what visit returns.
int query_text(const char *file, const char *text, size_t bytes,
               int (*visit)(const struct strict_object *root, void *context), void *context);

// Prints a line of JSON and frees it. ERR_MEMORY, also for null.
int query_print(json_t *line, FILE *out);

#endif
