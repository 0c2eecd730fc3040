// SPDX-License-Identifier: Apache-2.0
// Statistics of samples: median, quantiles, spread, and a test whether two sets of samples differ by more than chance.
// Values are finite; counts are from 1 to STATISTICS_COUNT_MAX.
#pragma once

#include <stddef.h>

// The largest number of samples that any caller takes.
enum { STATISTICS_COUNT_MAX = 1000 };

// Sorts any number of values, ascending.
void statistics_sort(double *values, size_t count);

// The quantile q, from 0 (the least value) to 1 (the largest), by linear interpolation between the sorted values; of
// values that are sorted already, the second.
double statistics_quantile(const double *values, size_t count, double q);
double statistics_sorted_quantile(const double *sorted, size_t count, double q);
double statistics_median(const double *values, size_t count);

// The median absolute deviation from the median; 0 for one value.
double statistics_mad(const double *values, size_t count);

// The p-value of the two-sided Mann-Whitney U test: the probability of ranks at least as far apart as these if both
// sets come from one distribution. Equal values share the mean of their ranks. For up to STATISTICS_EXACT_MAX values in
// total the test counts every division; beyond, it uses the normal approximation, corrected for ties and continuity.
enum { STATISTICS_EXACT_MAX = 40 };
double statistics_rank_test(const double *a, size_t a_count, const double *b, size_t b_count);
