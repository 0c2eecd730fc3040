// SPDX-License-Identifier: Apache-2.0
// The hunt: draws random cases until its time is over, and shrinks those that fail.
#ifndef ZG_CHECK_HUNT_H
#define ZG_CHECK_HUNT_H

#include "conformance/run/hunt_setting.h"

// Writes FOLDER/find-1, find-2 and so on, and FOLDER/hunt.jsonl, and prints a paragraph on each find. Of finds that
// look alike (aspect and hint) only the first is shrunk. One that fails only with others is kept with them; it does
// not count to find_max, and one that looks like it is shrunk if it fails alone. An interrupt ends the hunt without an
// error and leaves the smallest case so far. ERR_USAGE: no case is within the claims, or the command cannot be started.
int check_hunt(const struct check_hunt *hunt, struct check_hunt_result *out);

#endif
