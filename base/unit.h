// SPDX-License-Identifier: Apache-2.0
// The units of samples (RECORDS.md, bench), and how long a sample took by its unit.
#ifndef ZG_UNIT_H
#define ZG_UNIT_H

#include <stdbool.h>

// "ns", "us", "ms", "s", any of them with "_per_ITEM", or "ITEM/s" where an item may be GB or GFLOP.
bool unit_is_known(const char *unit);

// Whether less is better: times. The unit is known.
bool unit_is_time(const char *unit);

// Seconds that a sample of so many items took. The unit is known.
double unit_duration_s(const char *unit, double sample, double items);

#endif
