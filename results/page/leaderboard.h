// SPDX-License-Identifier: Apache-2.0
// A table of all published results.
#ifndef ZG_LEADERBOARD_H
#define ZG_LEADERBOARD_H

#include <stdio.h>

// Writes a Markdown table of the files *.jsonl in the folder. Each is verified first; ERR_CHECK if one does not verify.
// Rows are machines, ranked ones first, then by name. Columns are benchmarks: the median ratio over their cases.
int leaderboard(const char *folder, FILE *out);

#endif
