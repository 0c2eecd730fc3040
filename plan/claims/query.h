// SPDX-License-Identifier: Apache-2.0
// Queries: JSON that decides a statement about training, evaluated anew each time. datasets/claims/README.md describes
// the form. An expression is a number, or an object that stands for one: what a plan holds or moves, a paper's
// equation, a number that a paper prints, what a format makes of a value, or arithmetic of expressions. A query
// compares an expression with a value. Errors are "FILE:LINE: KEY.PATH: ..." (ERR_USAGE).
#ifndef ZG_QUERY_H
#define ZG_QUERY_H

#include "base/strict_json.h"

#include <stdbool.h>

// Deeper expressions are refused.
enum { QUERY_DEPTH_MAX = 24 };

// The expression at a key of the object.
int query_number(const struct strict_object *object, const char *key, double *out);

// Whether the query at a key of the object holds. measured: what was compared; NAN where that is not one number.
int query_holds(const struct strict_object *object, const char *key, bool *out, double *measured);

// The expression in {"plan": ..., "quantity": ...}: query_plan.c.
int query_plan_number(const struct strict_object *expression, double *out);

// 1 where the configuration in {"accepts": ...} is accepted, 0 where it is refused: query_plan.c.
int query_accepts_number(const struct strict_object *expression, double *out);

// The number in {"printed": TABLE, "row": ..., "column": ...}: paper.c.
int query_printed_number(const struct strict_object *expression, double *out);

#endif
