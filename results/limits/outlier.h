// SPDX-License-Identifier: Apache-2.0
// Outliers: ranks and hosts that are slower than their peers. `bench ranks` measures each rank alone and all together,
// `bench links` the links between their hosts. In each of these groups a rank is an outlier if its time exceeds
//
//     centre + OUTLIER_DEVIATIONS x max(1.4826 x MAD, OUTLIER_FLOOR x centre)
//
// where the centre is the median of the ranks' times and MAD the median distance from it; 1.4826 MAD estimates the
// standard deviation of a normal distribution. Up to half of the ranks can be slow without moving the centre. The floor
// is the difference between equal ranks without a fault; it decides where the other ranks agree better than that. Two
// ranks have no meaningful median: there the centre is the faster one and the floor decides. Fast ranks are no
// outliers.
//
// Hosts that measured the same case of a benchmark are compared in the same way, by their median times. Some of the
// many cases vary by more than the floor from run to run, so a host is an outlier only if, in addition, nine tenths of
// its samples are slower than nine tenths of the median host's.
#pragma once

#include "results/limits/bench_finding.h"

// 3.5 is Iglewicz and Hoaglin's threshold. With the floor, an outlier takes at least 1.35 times as long as the centre.
static const double OUTLIER_DEVIATIONS = 3.5, OUTLIER_FLOOR = 0.1, MAD_TO_DEVIATION = 1.4826;

// Returns the time beyond which one of `count` times, 2 or more, is an outlier. *centre: what they are compared with.
double outlier_limit(const double *times, size_t count, double *centre);

// Returns whether the time at `index` is an outlier among `count` times, 2 or more. *centre: what it is compared with.
bool outlier_is(const double *times, size_t count, size_t index, double *centre);

// Returns whether the record is compared with peers: a result of `ranks` or `links`, or one host's among several.
bool outlier_has_peers(const json_t *record);

// Adds a finding for each outlier among the records, and a VALID one for each group of `ranks` or `links` without any.
// ERR_MEMORY.
int outliers_find(const struct result_line *lines, size_t count, struct bench_findings *out);
