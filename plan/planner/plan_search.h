// SPDX-License-Identifier: Apache-2.0
// Changes of a configuration: which of them make it fit, and which of all that fit is the fastest.
#ifndef ZG_PLAN_SEARCH_H
#define ZG_PLAN_SEARCH_H

#include "plan/planner/plan.h"
#include "plan/planner/plan_options.h"

#include <stdio.h>

enum { CHOICE_CHANGE_MAX = 12, CHOICE_CHANGE_BYTES = 96 };

// A configuration that was tried.
struct plan_choice {
    char changes[CHOICE_CHANGE_MAX][CHOICE_CHANGE_BYTES];  // [change_count], "path.to.key=value"
    size_t change_count;
    char label[128];              // of a search: "64 ranks; zero3, all on nvme; checkpoints; 2 x 4 sequences"
    struct plan_setting setting;  // its configuration is the caller's room
    struct plan plan;
};

// Tries changes of one thing at a time; prints those after which it fits, the fastest first, or that none does. Nothing
// where the plan fits. ERR_USAGE, ERR_MEMORY.
int plan_advise(const struct plan_options *options, const struct plan_machine *machine, const struct plan *plan,
                FILE *out);

// Tries worlds, placements, batches, checkpoints and buckets with the same number of sequences in a step, that of the
// options' configuration in options->world, and prints those that fit, the fastest first: a table, or JSON lines. The
// first one's configuration goes to options->write. ERR_CHECK if nothing fits.
int plan_search(const struct plan_options *options, const struct plan_machine *machine, FILE *out);

// Writes a configuration that `zerogauge train` and DeepSpeed read. ERR_IO, for a file that exists, too.
int plan_write(const char *path, const struct config *config);

#endif
