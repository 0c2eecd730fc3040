// SPDX-License-Identifier: Apache-2.0
// Points at which the level of a series changes: binary segmentation by the least absolute deviation, and the rank test
// (base/statistics.h) of what it finds.
#ifndef ZG_CHANGE_POINT_H
#define ZG_CHANGE_POINT_H

#include <stddef.h>

// A series is divided where the ranks of both sides differ at CHANGE_LEVEL, corrected for the number of places that
// were tried, and where their medians differ by CHANGE_LEAST; both sides have CHANGE_SIDE_LEAST values or more. Then
// each side is divided in turn.
#define CHANGE_LEVEL 0.01
#define CHANGE_LEAST 0.02
enum { CHANGE_SIDE_LEAST = 3, CHANGE_MAX = 64 };

struct change_point {
    size_t at;             // index of the first value after the change
    double before, after;  // medians of the values between the neighbouring changes
    double p;              // corrected
};

// Finds the changes of a series of positive values, in their order. Returns their number, at most CHANGE_MAX. count: at
// most STATISTICS_COUNT_MAX.
size_t change_points_find(const double *values, size_t count, struct change_point out[CHANGE_MAX]);

#endif
