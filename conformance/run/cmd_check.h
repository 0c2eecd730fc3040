// SPDX-License-Identifier: Apache-2.0
// The command line of `zerogauge check`.
#pragma once

#include "conformance/run/check.h"
#include "conformance/run/expect.h"

enum { CHECK_TIME_LIMIT_S = 60 };  // without a new file of answers, unless given

struct check_options {
    char **cases, **requirements;  // NULL at the end; may be null
    char *level, *claims, *out, *plugin, *explain, *memory, *output, *write_cases, *case_dir, *expect,
        *wrapper;                   // may be null
    struct expectations *expected;  // that file, read where --expect is given
    int update, list, json, keep, strict, observes, find_max, suite_version;
    long long seed;
    bool hunts, limits_time, chooses_version;  // these options are given
    double hunt_minutes;
    double time_limit_s;
};

// Runs a part of the suite and reports. rest: the command after --, NULL at the end; empty: the plug-in or the
// reference answers, on the ranks of a launcher unless `ranks` is null. status: the exit status of the run's verdict.
struct check_ranks;
int check_and_report(const struct check_options *a, const struct check_part *part, const char *const *rest,
                     struct check_ranks *ranks, const volatile sig_atomic_t *interrupted, int *status);

// Prints the part's cases, and how far they cover what can meet; or writes them to a new folder, which is empty again
// after an error. ERR_USAGE: interrupted.
int check_list_cases(const struct check_part *part);
int check_write_cases(const struct check_part *part, const char *path, const volatile sig_atomic_t *interrupted);

// The options and the command that repeat a run, quoted for a shell; and the options that choose a part of the level:
// null for all of it, "" for the cases of a folder. The caller frees the texts.
int check_command_text(const struct check_options *a, const struct check_part *part, const char *const *rest,
                       char **out);
int check_part_text(const struct check_part *part, bool own, char **out);

// Hunts with the setting's command, and prints what it finds. line: its options and itself, for a shell; reference: a
// command that answers right, or null. status: 1 if anything is found, 77 if nothing could be judged.
int check_hunt_and_report(const struct check_options *a, const struct check_setting *setting, const char *line,
                          const char *const *reference, int *status);
