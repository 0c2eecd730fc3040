// SPDX-License-Identifier: Apache-2.0
// The optimizer's compute baseline: the divisions and square roots of a step, its slowest arithmetic, on numbers that
// stay in the L1 cache. They bound the step where its memory streams are fast.
#ifndef ZG_DIVISIONS_H
#define ZG_DIVISIONS_H

#include <stddef.h>

// Computes one square root and `per_element` (1 to 3) divisions for each of `count` elements, split over `threads`.
// Returns one of the results, so that the compiler keeps them: near 1, or NaN if any is.
float divisions_step(size_t count, int per_element, int threads);

#endif
