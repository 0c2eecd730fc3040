// SPDX-License-Identifier: Apache-2.0
// The setting of a hunt, and its counts.
#ifndef ZG_HUNT_SETTING_H
#define ZG_HUNT_SETTING_H

#include "conformance/run/check_batch.h"

struct check_hunt {
    struct check_setting setting;  // its part, source and folder are ignored
    double minutes;
    int find_max;                  // end after this many that are shrunk; 0: when the time is over
    const char *folder;            // an empty folder for what is found
    const char *work;              // an empty folder for cases and answers
    const char *const *reference;  // a command that answers right; null: it is the one that is judged
    const char *command;           // the options and the command that are judged, for a shell
    const char *upstream;          // whose script a find gets: "torch", "deepspeed"; null: neither
};

struct check_hunt_result {
    uint64_t drawn_count, judged_count;  // cases that were drawn; those that were claimed and not declined
    size_t launch_count;
    int find_count;
    double seconds;
};

#endif
