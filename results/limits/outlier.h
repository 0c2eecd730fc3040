// SPDX-License-Identifier: Apache-2.0
// Ranks that should be equal and are not. `bench ranks` measures each rank alone and all together, `bench links` the
// links between their hosts; in each of these groups a rank is an outlier when it is slow beyond
//
//     centre + OUTLIER_DEVIATIONS x max(1.4826 x MAD, OUTLIER_FLOOR x centre)
//
// of the ranks' times, where the centre is their median, and MAD the median distance from it; 1.4826 MAD estimates the
// standard deviation of a normal distribution. Half of the ranks can be slow and the centre still stands. The floor is
// what equal ranks differ by without a fault: it alone decides where the others agree better than that, and of two
// ranks, whose median and MAD say nothing: there the centre is the faster one. A rank that is fast is none.
//
// Hosts that measured the same case of a benchmark are compared in the same way, by their median times. There are many
// cases, some of which vary by more than the floor from run to run: so a host is an outlier only where, besides, nine
// tenths of its samples are slower than nine tenths of those of the host in the middle.
#ifndef ZG_OUTLIER_H
#define ZG_OUTLIER_H

#include "results/limits/finding.h"

// 3.5: Iglewicz and Hoaglin's threshold. With the floor: no rank is an outlier that takes less than 1.35 times as long.
static const double OUTLIER_DEVIATIONS = 3.5, OUTLIER_FLOOR = 0.1;

// For `count` times, 2 or more: whether the one at `index` is an outlier. *centre is what it is compared with.
bool outlier_is(const double *times, size_t count, size_t index, double *centre);

// Whether the record is one that is compared with its peers: of these two, or of one host among others.
bool outlier_has_peers(const json_t *record);

// One finding for each outlier among the records, and one VALID one for each group of these two that has none.
int outliers_find(const struct result_line *lines, size_t count, struct bench_findings *out);

#endif
