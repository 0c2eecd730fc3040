// SPDX-License-Identifier: Apache-2.0
// What samples say: medians and quantiles, the spread, and whether two sets of samples differ by more than chance.
// Values are finite; counts are at least 1 unless said otherwise. Nothing is kept or changed.
#ifndef ZG_STATISTICS_H
#define ZG_STATISTICS_H

#include <stddef.h>

// A longer array of samples is taken nowhere.
enum { STATISTICS_COUNT_MAX = 1000 };

// Interpolates linearly between the sorted values: 0 is the least, 1 the largest of them.
double statistics_quantile(const double *values, size_t count, double q);
double statistics_median(const double *values, size_t count);

// The median distance from the median; 0 for one value.
double statistics_mad(const double *values, size_t count);

double statistics_sum(const double *values, size_t count);

// The two-sided Mann-Whitney U test: how likely ranks are that lie at least as far apart as these if both sets come
// from one distribution. Equal values share the mean of their ranks. Up to STATISTICS_EXACT_MAX values in all it counts
// every way to divide them; beyond, it takes the normal approximation, corrected for ties and for continuity.
enum { STATISTICS_EXACT_MAX = 40 };
double statistics_rank_test(const double *a, size_t a_count, const double *b, size_t b_count);

#endif
