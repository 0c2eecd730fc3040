// SPDX-License-Identifier: Apache-2.0
// The units of samples (RECORDS.md, bench), and the duration of a sample in a unit.
#pragma once

#include <stdbool.h>

// True for units of time, in which lower is better: "ns", "us", "ms", "s", any of them with "_per_ITEM". Others are
// "ITEM/s", where an item may be GB or GFLOP.
bool unit_is_time(const char *unit);

// The seconds that a sample of `items` items took. Items and sample are positive.
double unit_duration_s(const char *unit, double sample, double items);
