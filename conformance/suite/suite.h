// SPDX-License-Identifier: Apache-2.0
// The cases of the suite. Version ZG_SUITE_VERSION (CMakeLists.txt) has those of version 1 and more; a version's cases
// are frozen by the checksums of their files (datasets/cases).
#pragma once

#include "conformance/cases/case.h"
#include "conformance/suite/suite_choice.h"

// Calls visit for every case, in a fixed order, with its requirements filled in. A case that resumes is two,
// NAME.save and NAME.resume. Returns the first code that is not ERR_NONE.
int suite_cases(const struct suite_choice *choice, int (*visit)(void *context, const struct check_case *c),
                void *context);

// How many cases suite_cases visits for a level of a version, from 1, with the frozen numbers. It is known without
// making them: the covering array alone takes several times as long as the rest of a result file's verification.
int suite_case_count(enum suite_level level, int version);
