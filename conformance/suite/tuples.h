// SPDX-License-Identifier: Apache-2.0
// The pairs of values of two factors, and the triples of factors that share state, which a covering array must have.
// They are sets of bits, so that what a value would bring is counted a word of them at a time.
#pragma once

#include "conformance/suite/factor.h"

// A point is a value of a factor; a set has bit P for point P.
enum { POINT_COUNT = FACTOR_COUNT * FACTOR_VALUE_MAX, POINT_WORD_COUNT = (POINT_COUNT + 63) / 64 };
struct point_set {
    uint64_t words[POINT_WORD_COUNT];
};

// Those that can occur and do not yet: by each point of a pair, and by each two of a triple, the set of the last ones.
struct tuples {
    bool triples;
    size_t missing_count;
    struct point_set pairs[POINT_COUNT], by_two[POINT_COUNT][POINT_COUNT];
};

// All that can occur within a space; the caller frees them. Null: no memory.
struct tuples *tuples_open(const struct factor_space *space, bool pairs, bool triples);

// How many of the missing ones an open factor of a vector makes with the values that are set, if it takes this one.
size_t tuples_gain(const struct tuples *tuples, const struct factor_vector *v, enum factor factor, int value);

// Those of a vector without open values are missing no more.
void tuples_cross_off(struct tuples *tuples, const struct factor_vector *v);

// A vector with the first missing one and nothing else: the order is by first point, second point, a pair, last point.
// There must be one.
void tuples_first(const struct tuples *tuples, struct factor_vector *v);
