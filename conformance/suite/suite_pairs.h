// SPDX-License-Identifier: Apache-2.0
// The cases in which features meet, as rows of a covering array.
#pragma once

#include "conformance/cases/case.h"
#include "conformance/suite/covering.h"
#include "conformance/suite/suite_choice.h"

// The covering array of a choice, whose rows are its cases pair-001 and so on, and behind the first `pair_count`, from
// version 3 on, meet-001 and so on; the caller frees it.
struct suite_pairs {
    struct covering array;
    size_t pair_count;
};
int suite_pairs_open(const struct suite_choice *choice, struct suite_pairs *out);
void suite_pairs_close(struct suite_pairs *pairs);

// The row of the array that a case is, by its name; -1: it is none.
int suite_pair_row(const struct suite_pairs *pairs, const struct check_case *c);

// The seed of a row's numbers.
uint64_t suite_pair_seed(const struct suite_choice *choice, size_t row);

// Visits the cases of all rows as suite_cases does. The seed of the choice draws another array, and other numbers.
int suite_pairs_visit(const struct suite_choice *choice, int (*visit)(void *context, const struct check_case *c),
                      void *context);
