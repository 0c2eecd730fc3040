// SPDX-License-Identifier: Apache-2.0
// `zerogauge validate`: runs the parts of a plan as child processes, writes their results into a result file
// (results/RECORDS.md) and judges them. The verdict is VALID, INVALID with each reason, or INCOMPLETE.
#pragma once

#include "results/limits/accepted_range.h"
#include "results/limits/bench_finding.h"
#include "validate/validate_part.h"
#include "validate/validate_plan.h"

#include <jansson.h>

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct fit_setting;

struct validate_setting {
    const char *folder;           // exists and is empty
    const char *program, *level;  // for the run record
    int argc;
    const char *const *argv;                   // the command line
    const char *const *paths;                  // folders whose disks are described; null at the end
    const char *emulate;                       // lanes that are EMULATED; null: none
    struct validate_plan *plan;                // whose shares of a budget follow the time left
    const struct accepted_ranges *ranges;      // may be empty
    const struct fit_setting *fit;             // null: no fit records
    const volatile sig_atomic_t *interrupted;  // may be null
};

struct validate_result {
    struct bench_findings findings;
    struct result_line *lines;  // bench records, owned
    size_t line_count, line_room;
    struct result_line *skips;  // skip records, owned
    size_t skip_count;
    json_t *fits;                    // array of fit records, owned
    struct result_line conformance;  // the conformance record, owned; null: none
    enum part_state states[VALIDATE_PART_MAX];
    char reasons[VALIDATE_PART_MAX][BENCH_FINDING_TEXT_BYTES];  // of parts that are absent or failed
    bool interrupted;
    double seconds, other_load;  // other_load: share of CPU time that other processes took; NAN: unknown
};

// A failing part becomes a finding; this function fails only where the file cannot be written (ERR_IO, ERR_USAGE) or
// memory runs out. Call validate_result_free in every case.
int validate_run(const struct validate_setting *setting, struct validate_result *out);
void validate_result_free(struct validate_result *result);

// INCOMPLETE after an interruption.
enum finding_verdict validate_verdict(const struct validate_result *result);

// Prints the summary: a row for each judged result, the models that fit, the verdict and its reasons.
void validate_table(const struct validate_setting *setting, const struct validate_result *result);

// Verifies the folder's result.jsonl, writes report.html, report.md and machine.json next to it, and says so.
// ERR_CHECK: the file does not verify.
int validate_report(const char *folder);

// The subcommand; returns the exit status.
int validate_main(int argc, const char **argv);
