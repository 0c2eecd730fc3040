// SPDX-License-Identifier: Apache-2.0
// A find of the hunt, and its files.
#ifndef ZG_HUNT_FIND_H
#define ZG_HUNT_FIND_H

#include "conformance/hunt/shrink.h"
#include "conformance/run/hunt_setting.h"

enum { FIND_SIZE_BYTES = 128 };

struct hunt_find {
    int index;        // from 1
    uint64_t number;  // of the drawn case
    struct check_failure failure;
    char note[CASE_NOTE_BYTES];  // the features that were drawn
    char drawn[FIND_SIZE_BYTES], left[FIND_SIZE_BYTES];
    struct shrink_result shrinking;
    bool alone;        // false: the cases of its launch are kept, as it fails only with them
    bool right;        // the reference answers the case right
    bool right_known;  // the reference was asked
    double seconds;
};

// Writes find-INDEX with the cases, and a script for a report where the implementation is known.
int hunt_find_write(const struct check_hunt *hunt, const struct hunt_find *find, struct hunt_cases cases);

// Prints it, and adds its line to hunt.jsonl.
int hunt_find_report(const struct check_hunt *hunt, const struct hunt_find *find, FILE *record);

// The last line of hunt.jsonl.
int hunt_record_end(const struct check_hunt *hunt, const struct check_hunt_result *result, FILE *record);

#endif
