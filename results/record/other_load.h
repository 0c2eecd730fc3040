// SPDX-License-Identifier: Apache-2.0
// How much of the processors' time others took while a run measured: what was neither idle nor this process's, nor its
// children's that it has waited for. Work that the kernel does for the run in threads of its own counts as of others.
#ifndef ZG_OTHER_LOAD_H
#define ZG_OTHER_LOAD_H

// Seconds, of all processors together.
struct other_load {
    double busy_s, total_s;  // since the system started
    double own_s;            // since this process did
};

// NaN in it where the system does not tell.
void other_load_now(struct other_load *out);

// From 0 to 1; NaN where it is not known, or no time has passed.
double other_load_share(const struct other_load *begin, const struct other_load *end);

// Sets busy_s and total_s from the first line of /proc/stat; NaN if it is none. hz: the ticks of a second.
void other_load_parse(const char *line, double hz, struct other_load *out);

#endif
