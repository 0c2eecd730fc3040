// SPDX-License-Identifier: Apache-2.0
// A plan as an HTML page: bytes of each tier by kind, and the busy times of each lane during a step with the critical
// path.
#ifndef ZG_PLAN_HTML_H
#define ZG_PLAN_HTML_H

#include "plan/planner/plan.h"

// The plan must have its events. Writes a new file or replaces one. ERR_IO, ERR_MEMORY.
int plan_html(const struct plan_setting *setting, const struct plan *plan, const char *path);

#endif
