// SPDX-License-Identifier: Apache-2.0
// Judges many cases in few launches, and says of each whether and how it fails.
#pragma once

#include "conformance/hunt/hunt_folder.h"
#include "conformance/run/check.h"

// How a case fails: its first failed check, in the order of the aspects.
struct check_failure {
    bool judged;  // some check passed or failed: the case was neither declined nor outside the claims
    bool broken;  // some check found no answer
    bool failed;
    enum aspect aspect;
    enum verdict verdict;  // FAIL or BROKEN
    enum hint hint;
    char where[256], bits[512], why[FINDING_TEXT_BYTES];  // the first difference, its values, the finding's text
};

struct check_batch {
    const struct check_setting *setting;  // its source, folder and `once` are the batch's own
    const char *folder;                   // an empty folder; empty again afterwards
    size_t launch_count;                  // counts up
};

// Names the cases, runs and judges them. like: only failures of this aspect and verdict count; null: any. What is
// without an answer because the command broke down is given to it again, alone. ERR_USAGE: interrupted, or the command
// cannot be started.
int check_batch(struct check_batch *batch, struct hunt_cases cases, const struct check_failure *like,
                struct check_failure failures[]);
