// SPDX-License-Identifier: Apache-2.0
// The cases of the suite. Version ZG_SUITE_VERSION (CMakeLists.txt) has those of version 1 and more; a version's cases
// are frozen by the checksums of their files (datasets/cases).
#pragma once

#include "conformance/cases/case.h"
#include "conformance/suite/covering.h"

#include <stdint.h>

enum suite_level { LEVEL_QUICK, LEVEL_FULL };

struct suite_choice {
    enum suite_level level;
    int version;    // from 1; 0: ZG_SUITE_VERSION
    uint64_t seed;  // 0: the frozen numbers; else names, gradients and, where factors meet, all else are drawn by it
};

// The version that is chosen.
int suite_version(const struct suite_choice *choice);

// Calls visit for every case, in a fixed order, with its requirements filled in. A case that resumes is two,
// NAME.save and NAME.resume. Returns the first code that is not ERR_NONE.
int suite_cases(const struct suite_choice *choice, int (*visit)(void *context, const struct check_case *c),
                void *context);

// The covering array of a choice, whose rows are its cases pair-001 and so on; the caller frees it.
int suite_pair_array(const struct suite_choice *choice, struct covering *out);

// The row of the array that a case is, by its name; -1: it is none.
int suite_pair_row(const struct check_case *c);

// The seed of a row's numbers.
uint64_t suite_pair_seed(const struct suite_choice *choice, size_t row);
