// SPDX-License-Identifier: Apache-2.0
// A plan as text, as JSON, as a page, and as a configuration.
#pragma once

#include "plan/planner/plan.h"

#include <jansson.h>

#include <stdio.h>

// Prints tables of memory, lanes and the critical path, then step time, throughput and whether it fits.
void plan_print(const struct plan_setting *setting, const struct plan *plan, FILE *out);

// "fits", "tight" or "does not fit".
const char *plan_verdict_name(enum plan_verdict verdict);

// The word "fits" of records: true for no plan that is tight.
static inline bool plan_fits(const struct plan *plan)
{
    return plan->verdict == PLAN_FITS;
}

// "device is 12 GiB short, the largest kind is activation (40 GiB)" for the first tier that is short, or "device needs
// 78 GiB to 85 GiB, with what allocators add, and has 79.2 GiB" where none is; "" if all fit.
enum { PLAN_REASON_BYTES = 160 };
const char *plan_reason(const struct plan *plan, char out[PLAN_REASON_BYTES]);

// Prints the formula behind each number, and every figure of the machine with its source.
void plan_explain(const struct plan_setting *setting, const struct plan *plan, FILE *out);

// A new object; null: no memory. Without a machine times are 0 and rates mean nothing.
json_t *plan_json(const struct plan_setting *setting, const struct plan *plan);

// Prints a JSON object as one line and releases it. ERR_MEMORY, also for null.
int plan_print_record(json_t *record, FILE *out);

// Writes the configuration of `setting` for its model and world as JSON that DeepSpeed and `zerogauge train` read with
// the same meaning. What no key of DeepSpeed's says is in the section "zerogauge", which DeepSpeed skips; a line on
// stderr for each says what to call in its place. ERR_IO, also if the file exists.
int plan_write(const char *path, const struct plan_setting *setting);
