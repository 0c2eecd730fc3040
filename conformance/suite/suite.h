// SPDX-License-Identifier: Apache-2.0
// The list of cases of the suite, version ZG_SUITE_VERSION (CMakeLists.txt). A case is frozen by the checksum of its
// files (datasets/cases/v1).
#ifndef ZG_SUITE_H
#define ZG_SUITE_H

#include "conformance/cases/case.h"

enum suite_level { LEVEL_QUICK, LEVEL_FULL };

// Calls visit for every case of a level, in a fixed order, with its requirements filled in. A case that resumes comes
// as two, NAME.save and NAME.resume. Returns the first code that is not ERR_NONE.
int suite_cases(enum suite_level level, int (*visit)(void *context, const struct check_case *c), void *context);

#endif
