// SPDX-License-Identifier: Apache-2.0
// Compares two result files case by case: better, worse, or within noise.
#ifndef ZG_COMPARE_H
#define ZG_COMPARE_H

#include "results/record/record_read.h"

#include <stdio.h>

// Significance level of the rank test (statistics.h), for each case separately.
#define COMPARE_LEVEL 0.01

enum comparison { COMPARISON_NOISE, COMPARISON_BETTER, COMPARISON_WORSE, COMPARISON_FEW };

// Compares record b with record a of the same case: better or worse if the ranks of their samples differ at
// COMPARE_LEVEL; COMPARISON_FEW if there are too few samples for any significant difference. *p: the test's p-value.
enum comparison compare_bench(const json_t *a, const json_t *b, double *p);

// Writes a table of the cases that both files have, in the order of b, and a list of those that only one has. ERR_IO,
// ERR_MEMORY.
int result_compare(const struct result_file *a, const struct result_file *b, FILE *out);

#endif
