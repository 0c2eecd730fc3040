// SPDX-License-Identifier: Apache-2.0
// Evidence of sharding that is not the program's own word: one large case at every claimed stage, and the memory that
// the launched processes hold in it and what they send over TCP.
#pragma once

#include "conformance/run/check.h"
#include "conformance/spec/observation.h"

// Launches the setting's command for stage 0 and each claimed stage from 1 to 3, in folders of their own below
// setting->folder, of which only the output remains. An answer that is declined or wrong is no measurement.
// ERR_USAGE: the command cannot be started, or was interrupted.
int check_observe(const struct check_setting *setting, struct observations *out);
