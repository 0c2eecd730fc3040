// SPDX-License-Identifier: Apache-2.0
// The command line of `zerogauge check`.
#ifndef ZG_CMD_CHECK_H
#define ZG_CMD_CHECK_H

#include "conformance/run/check.h"

enum { CHECK_TIME_LIMIT_S = 600 };  // unless given

struct check_options {
    char **cases, **requirements;                                                   // NULL at the end; may be null
    char *level, *claims, *out, *plugin, *explain, *memory, *output, *write_cases;  // may be null
    int list, json, keep, strict, suite_version;
    long long seed;
    double time_limit_s;
};

// Runs a part of the suite and reports. rest: the command after --, NULL at the end; empty: the plug-in or the
// reference answers, on the ranks of a launcher unless `ranks` is null. status: the exit status of the run's verdict.
struct check_ranks;
int check_and_report(const struct check_options *a, const struct check_part *part, const char *const *rest,
                     struct check_ranks *ranks, const volatile sig_atomic_t *interrupted, int *status);

#endif
