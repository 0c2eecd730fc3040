// SPDX-License-Identifier: Apache-2.0
// Searches the configurations of a model for those that fit and serve a goal best.
#ifndef ZG_PLAN_SEARCH_H
#define ZG_PLAN_SEARCH_H

#include "plan/planner/plan_choice.h"
#include "plan/planner/plan_machine.h"
#include "plan/planner/plan_options.h"

#include <stdio.h>

// Tries worlds, placements, batches, checkpoints and sizes of buckets and prefetching, with the same number of
// sequences in a step as the options' configuration has in options->world, or the next larger one that a world divides.
// The goals "smallest" and "cheapest" try worlds of up to 1,024 devices unless given, "longest" ever longer sequences.
// Prints those that fit, the best first, as a table or as JSON lines, and writes the first one's configuration to
// options->write. ERR_CHECK: nothing fits; the message says what the closest one lacks.
int plan_search(const struct plan_options *options, const struct plan_machine *machine, FILE *out);

// Prints what was found, sorted by the goal. In plan_search_print.c.
int plan_search_print(const struct plan_choices *found, const struct plan_options *options, FILE *out);

#endif
