// SPDX-License-Identifier: Apache-2.0
// A covering array: a short list of vectors in which every pair of values of two factors occurs, and every triple of
// factors that share state. D. M. Cohen et al., "The AETG System: An Approach to Testing Based on Combinatorial
// Design", IEEE Transactions on Software Engineering 23 (1997).
#pragma once

#include "conformance/suite/factor.h"

enum covering_strength { COVERING_PAIRS, COVERING_TRIPLES };  // triples: pairs, too

struct covering {
    struct factor_vector *rows;  // owned
    size_t count, room;
};

// Appends vectors until every tuple that can occur within the space does. The rows that are there count; the seed
// decides which are chosen. ERR_MEMORY.
int covering_extend(struct covering *covering, const struct factor_space *space, enum covering_strength strength,
                    uint64_t seed);
int covering_append(struct covering *covering, const struct factor_vector *row);
void covering_free(struct covering *covering);

// The tuples that can occur within a space, and how many of them do in some row. Counted anew from the rows alone.
// Triples are counted for their strength alone, else 0.
struct coverage {
    size_t pairs, pairs_covered, triples, triples_covered;
    char missing[128];  // one that does not occur: "stage 3 and tied yes"; "": there is none
};
int covering_count(const struct covering *covering, const struct factor_space *space, enum covering_strength strength,
                   struct coverage *out);
