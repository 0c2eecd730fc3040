// SPDX-License-Identifier: Apache-2.0
// Shrinks a case that fails until no edit can be applied without it ceasing to fail: delta debugging (Zeller and
// Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002), whose parts are the edits of edit.h. Where no
// edit and no two edits are left, one more step may remove several tensors or ranks. Many candidates are judged
// together, so that a program under test starts seldom.
#pragma once

#include "conformance/hunt/hunt_case.h"

#include <signal.h>

enum { SHRINK_CANDIDATE_MAX = 160 };  // judged together

struct shrink_setting {
    // Sets fails[i] if candidate i fails in the way that is shrunk. An error ends the shrinking.
    int (*judge)(void *context, const struct hunt_case candidates[], int count, bool fails[]);
    // Reports the smallest case so far and how many were judged; may be null.
    void (*tell)(void *context, const struct hunt_case *best, int judged_count);
    void *context;
    double deadline_s;                         // of clock_now_s; 0: none
    const volatile sig_atomic_t *interrupted;  // may be null
};

struct shrink_result {
    int judged_count, round_count;  // candidates; calls of judge
    bool complete;                  // false: time or the user ended it; the case may have more than it needs
};

// h: a case that fails; replaced by smaller ones that fail, so that it is the smallest so far also after an error. The
// result depends on the answers of `judge` alone.
int shrink(const struct shrink_setting *setting, struct hunt_case *h, struct shrink_result *out);
