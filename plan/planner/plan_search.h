// SPDX-License-Identifier: Apache-2.0
// Searches the configurations of a model for the fastest one that fits.
#ifndef ZG_PLAN_SEARCH_H
#define ZG_PLAN_SEARCH_H

#include "plan/planner/plan_machine.h"
#include "plan/planner/plan_options.h"

#include <stdio.h>

// Tries worlds, placements, batches, checkpoints and buckets with the same number of sequences in a step as the
// options' configuration has in options->world. Prints those that fit, the fastest first, as a table or as JSON lines,
// and writes the first one's configuration to options->write. ERR_CHECK: nothing fits.
int plan_search(const struct plan_options *options, const struct plan_machine *machine, FILE *out);

// Writes a configuration that `zerogauge train` and DeepSpeed read. ERR_IO, also if the file exists.
int plan_write(const char *path, const struct config *config);

#endif
