// SPDX-License-Identifier: Apache-2.0
// What a run of `zerogauge validate` consists of, as far as its file shows it: parts, their options, and how many
// samples a case has at least. RULES.md has the same numbers; a test compares the table with validate's plan.
#ifndef ZG_RUN_TABLE_H
#define ZG_RUN_TABLE_H

#include <stdbool.h>
#include <stddef.h>

struct run_row {
    const char *bench;  // null: the conformance suite
    size_t full_samples, quick_samples;
    bool between_hosts;  // only where there are several
};

// The rows in order; null past the end.
const struct run_row *run_row_at(size_t index);

// The row of a part called "arithmetic", "bench-NAME" or "bench-NAME-DEVICE"; null: validate has no such part.
const struct run_row *run_row_of(const char *part);

// True if validate passes this option to its parts. None of them changes how often or how long they measure.
bool run_option_is_known(const char *option);

#endif
