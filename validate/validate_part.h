// SPDX-License-Identifier: Apache-2.0
// One part of a validation: its command runs under limits, and what it printed is read strictly.
#ifndef ZG_VALIDATE_PART_H
#define ZG_VALIDATE_PART_H

#include "base/process/launch.h"
#include "validate/validate.h"

#include <limits.h>
#include <stdio.h>

struct part_run {
    struct launch_result launch;
    bool not_started;
    enum part_state state;
    enum finding_verdict verdict;  // where it did not end well; the suite's says 1, and has a report all the same
    char reason[BENCH_FINDING_TEXT_BYTES];  // one line; "" where it ended well
    json_t *records;                        // array, owned: what is for the result file
};

// Runs the part with its output in two files of the folder, NAME.out and NAME.err, which stay. errors are those of this
// program; what the command does wrong is told in *out. part_run_free in every case.
struct part_setting {
    const char *folder;
    const volatile sig_atomic_t *interrupted;
    void (*tick)(void *context, double seconds);  // may be null
    void *tick_context;
};
int part_run(const struct validate_part *part, const struct part_setting *setting, struct part_run *out);

// The steps of it, for a part that is no child process: the two files, opened for writing where they are to be; and
// what its end, in out->launch, and what stands in the files mean.
struct part_files {
    char output_path[PATH_MAX], error_path[PATH_MAX];
    FILE *output, *errors;
};
int part_files_open(const struct validate_part *part, const struct part_setting *setting, struct part_run *out,
                    struct part_files *files);
int part_end(const struct validate_part *part, const struct part_files *files, struct part_run *out);

void part_run_free(struct part_run *run);

// What a command printed, into records: lines of a benchmark of that name; null: a report of the conformance suite, of
// which `conformance` and `requirement` records remain. ERR_USAGE names the line and what is wrong with it.
int part_read(const char *path, const char *bench, json_t *records);

#endif
