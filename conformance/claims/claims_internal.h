// SPDX-License-Identifier: Apache-2.0
// Words of the claims that the parts of claims.h share.
#pragma once

#include "conformance/claims/claims.h"

enum { STAGE_COUNT = 4 };

extern const char *const claims_tiers[];  // as in enum ledger_tier; null at the end
extern const char *const claims_knobs[];  // as in enum claims_knob; null at the end
