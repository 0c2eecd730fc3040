// SPDX-License-Identifier: Apache-2.0
// The other baseline of the optimizer: the divisions and square roots of a step, which take a processor longer than
// all else of its arithmetic, on numbers that stay in the nearest cache. Where the streams are fast, this is the limit.
#ifndef ZG_DIVISIONS_H
#define ZG_DIVISIONS_H

#include <stddef.h>

// For each of `count` elements one square root and `per_element` divisions, 1 to 3, cut over `threads`. Returns one
// of the results, which tend to 1, so that they have a use; not a number shows as that.
float divisions_step(size_t count, int per_element, int threads);

#endif
