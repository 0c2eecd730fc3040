// SPDX-License-Identifier: Apache-2.0
// The chapter of cases in which factors meet: each case is a row of a covering array. pair-001 and so on have all
// pairs; at the full level there are the rows that triples need in addition.
#ifndef ZG_SUITE_PAIR_H
#define ZG_SUITE_PAIR_H

#include "conformance/cases/case.h"
#include "conformance/suite/covering.h"
#include "conformance/suite/suite_choice.h"

// Visits the cases as suite_cases does. The seed of the choice draws another array, and other numbers.
int suite_pairs(const struct suite_choice *choice, int (*visit)(void *context, const struct check_case *c),
                void *context);

// The array of a choice; the caller frees it.
int suite_pair_array(const struct suite_choice *choice, struct covering *out);

// The row of the array that a case is, by its name; -1: it is none.
int suite_pair_row(const struct check_case *c);

// The seed of a row's numbers.
uint64_t suite_pair_seed(const struct suite_choice *choice, size_t row);

#endif
