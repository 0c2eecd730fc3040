// SPDX-License-Identifier: Apache-2.0
// A plan as text, and as JSON.
#ifndef ZG_PLAN_PRINT_H
#define ZG_PLAN_PRINT_H

#include "plan/planner/plan.h"

#include <jansson.h>

#include <stdio.h>

// Tables of memory, lanes and the critical path, and what follows from them.
void plan_print(const struct plan_setting *setting, const struct plan *plan, FILE *out);

// How a plan of the last rank differs: ranks have equal room, and where the last ones have no states they have padding.
// Nothing where it does not.
void plan_print_last(const struct plan *plan, const struct plan *last, FILE *out);

// "device is 12 GiB short, the most of it activation (40 GiB)", for the first tier that does not fit; "" if all do.
enum { PLAN_REASON_BYTES = 160 };
const char *plan_reason(const struct plan *plan, char out[PLAN_REASON_BYTES]);

// The formula behind each number, and every figure of the machine with its source.
void plan_explain(const struct plan_setting *setting, const struct plan *plan, FILE *out);

// How long a node's drives last that bear so many terabytes; nothing where nothing is written to them.
void plan_print_endurance(const struct plan_setting *setting, const struct plan *plan, double tbw, FILE *out);

// A new object; null: no memory.
json_t *plan_json(const struct plan_setting *setting, const struct plan *plan);

#endif
