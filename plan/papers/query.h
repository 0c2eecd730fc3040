// SPDX-License-Identifier: Apache-2.0
// Queries: expressions (expression.h) that recompute a number of a paper. datasets/papers/README.md describes them. A
// name in an expression denotes a number, another expression, or an object: a plan, whose numbers are at "NAME.PATH", a
// paper's equation with values for its names, or a number that a paper prints. Errors are ERR_USAGE, "FILE:LINE:
// KEY.PATH: ...".
#pragma once

#include "plan/papers/expression.h"

#include <stdbool.h>

// The sources of a query's numbers.
struct query_basis {
    bool plan;      // a run of the stages
    bool equation;  // a paper's own equation
};

// Explains names: by the member "given" of an object, which may lack it, then by the scope around it, and last by the
// papers' equations.
struct query_scope {
    const struct strict_object *object;
    const struct query_scope *outer;  // null: none
    struct query_basis *basis;        // of the outermost scope: what the query uses is noted here; may be null
};

static inline bool query_has(const struct strict_object *object, const char *key)
{
    return json_object_get(object->value, key);
}

// Evaluates the number or expression at a key of the object.
int query_number(const struct query_scope *scope, const struct strict_object *object, const char *key, double *out);

// Evaluates the number at a path of a plan. In query_plan.c.
int query_plan_number(const struct strict_object *plan, const char *path, double *out);

// Reads {"printed": TABLE, "row": ..., "column": ...}; evaluates a paper's equation, which an expression names. In
// paper.c.
int query_printed_number(const struct strict_object *cell, double *out);
int query_equation_number(const char *name, const struct expression *expression, const struct expression_names *names,
                          double *out);
