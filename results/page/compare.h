// SPDX-License-Identifier: Apache-2.0
// Two result files, case by case: what is better, worse, or within noise.
#ifndef ZG_COMPARE_H
#define ZG_COMPARE_H

#include "results/record/record_read.h"

#include <stdio.h>

// The level of the rank test (statistics.h), for each case alone.
#define COMPARE_LEVEL 0.01

enum comparison { COMPARISON_NOISE, COMPARISON_BETTER, COMPARISON_WORSE, COMPARISON_FEW };

// Of b against a, two records of one case: better or worse where the ranks of their samples differ at COMPARE_LEVEL;
// COMPARISON_FEW where so few samples could not, however far apart. p: the test's value.
enum comparison compare_bench(const json_t *a, const json_t *b, double *p);

// A table of the cases that both files have, in the order of b, and a list of those that one has alone. ERR_IO,
// ERR_MEMORY.
int result_compare(const struct result_file *a, const struct result_file *b, FILE *out);

#endif
