// SPDX-License-Identifier: Apache-2.0
// A plan as one page: what each tier holds, by kind, and what each lane does during a step, the critical path in it.
#ifndef ZG_PLAN_HTML_H
#define ZG_PLAN_HTML_H

#include "plan/planner/plan.h"

// plan has its events. Writes a new file or replaces one. ERR_IO.
int plan_html(const struct plan_setting *setting, const struct plan *plan, const char *path);

#endif
