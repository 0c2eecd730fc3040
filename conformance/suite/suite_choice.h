// SPDX-License-Identifier: Apache-2.0
// Which cases of the suite.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum suite_level { LEVEL_QUICK, LEVEL_FULL };

struct suite_choice {
    enum suite_level level;
    int version;    // from 1; 0: ZG_SUITE_VERSION
    uint64_t seed;  // 0: the frozen numbers; else names, gradients and, where factors meet, all else are drawn by it
    bool leaves_meetings;  // without the cases where factors meet, whose covering array takes most of suite_cases' time
};

// The version that is chosen.
static inline int suite_version(const struct suite_choice *choice)
{
    return choice->version > 0 ? choice->version : ZG_SUITE_VERSION;
}
