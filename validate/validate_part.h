// SPDX-License-Identifier: Apache-2.0
// One part of a validation: runs its command under limits and reads its output strictly.
#pragma once

#include "base/process/launch.h"
#include "results/limits/bench_finding.h"
#include "validate/validate_plan.h"

#include <jansson.h>

#include <limits.h>
#include <signal.h>
#include <stdio.h>

enum part_state { PART_NOT_RUN, PART_DONE, PART_ABSENT, PART_FAILED };

struct part_run {
    struct launch_result launch;
    bool not_started;
    enum part_state state;
    enum finding_verdict verdict;           // of a non-zero exit status. The suite's status 1 is INVALID and PART_DONE.
    char reason[BENCH_FINDING_TEXT_BYTES];  // one line; "" after status 0
    json_t *records;                        // array for the result file, owned
};

struct part_setting {
    const char *folder;
    const volatile sig_atomic_t *interrupted;     // may be null
    void (*tick)(void *context, double seconds);  // may be null
    void *tick_context;
};

// Runs the part with its output in two files of the folder, NAME.out and NAME.err, which stay. Returns errors of this
// program only; *out describes what the command does wrong. Call part_run_free in every case.
int part_run(const struct validate_part *part, const struct part_setting *setting, struct part_run *out);

// The steps of part_run for a part that runs in this process: part_files_open creates the two files; part_end evaluates
// out->launch, which the caller has filled, and the closed files.
struct part_files {
    char output_path[PATH_MAX], error_path[PATH_MAX];
    FILE *output, *errors;
};
int part_files_open(const struct validate_part *part, const struct part_setting *setting, struct part_run *out,
                    struct part_files *files);
int part_end(const struct validate_part *part, const struct part_files *files, struct part_run *out);

void part_run_free(struct part_run *run);
