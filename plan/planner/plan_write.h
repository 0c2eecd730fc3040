// SPDX-License-Identifier: Apache-2.0
// Writes a planned configuration as a file.
#ifndef ZG_PLAN_WRITE_H
#define ZG_PLAN_WRITE_H

#include "plan/planner/plan.h"

// Writes the configuration of `setting` for its model and world as JSON that DeepSpeed and `zerogauge train` read with
// the same meaning. What no key of DeepSpeed's says is in the section "zerogauge", which DeepSpeed skips; a line on
// stderr for each says what to call in its place. ERR_IO, also if the file exists.
int plan_write(const char *path, const struct plan_setting *setting);

#endif
