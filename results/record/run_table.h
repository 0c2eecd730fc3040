// SPDX-License-Identifier: Apache-2.0
// What a run of `zerogauge validate` consists of, as far as its file shows it: parts, their options, and how many
// samples a case has at least. RULES.md has the same numbers; a test compares the table with validate's plan.
#ifndef ZG_RUN_TABLE_H
#define ZG_RUN_TABLE_H

#include <stdbool.h>
#include <stddef.h>

// A quick run has at least this many samples a case: parts whose time is over end with so few.
enum { RUN_QUICK_SAMPLES = 3 };

struct run_row {
    const char *bench;    // null: the conformance suite
    size_t full_samples;  // the least of a full run
    bool between_hosts;   // only where there are several
};

// The rows in order; null past the end.
const struct run_row *run_row_at(size_t index);

// The row of a part called "arithmetic", "bench-NAME" or "bench-NAME-DEVICE"; null: validate has no such part.
const struct run_row *run_row_of(const char *part);

// True if validate passes this option to parts of a quick or a full run. In a full one, none of them changes how often
// or how long they measure.
bool run_option_is_known(const char *option, bool quick);

#endif
