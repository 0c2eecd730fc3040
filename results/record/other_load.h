// SPDX-License-Identifier: Apache-2.0
// The share of CPU time that other processes used during a run: time that was neither idle nor used by this process or
// by children that it has waited for. Work that kernel threads do for the run counts as other.
#pragma once

// Seconds, summed over all processors.
struct other_load {
    double busy_s, total_s;  // since the system started
    double own_s;            // used by this process since it started
};

// Members are NaN where the system does not report them.
void other_load_now(struct other_load *out);

// From 0 to 1; NaN if unknown, or if no time has passed.
double other_load_share(const struct other_load *begin, const struct other_load *end);

// Sets busy_s and total_s from the first line of /proc/stat; NaN for any other line. hz: ticks per second.
void other_load_parse(const char *line, double hz, struct other_load *out);
