// SPDX-License-Identifier: Apache-2.0
// The list of cases of edition 1 of the suite. A case is frozen by the checksum of its files (datasets/cases/v1).
#ifndef ZG_EDITION_H
#define ZG_EDITION_H

#include "case.h"

enum { EDITION = 1 };

enum edition_level { LEVEL_QUICK, LEVEL_FULL };

// Calls visit for every case of a level, in a fixed order, its requirements filled in; resuming ones come as NAME.save
// and NAME.resume. Ends with the first code that is not ERR_NONE.
int edition_cases(enum edition_level level, int (*visit)(void *context, const struct check_case *c), void *context);

#endif
