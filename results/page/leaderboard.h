// SPDX-License-Identifier: Apache-2.0
// All published results side by side.
#ifndef ZG_LEADERBOARD_H
#define ZG_LEADERBOARD_H

#include <stdio.h>

// A table in Markdown of the files *.jsonl in the folder, each verified; one that does not hold ends it with ERR_CHECK,
// as a folder of published results has none. Rows are machines, columns benchmarks: the median share of its limit over
// the cases of a benchmark. Those VALID first, then by name.
int leaderboard(const char *folder, FILE *out);

#endif
