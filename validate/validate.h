// SPDX-License-Identifier: Apache-2.0
// `zerogauge validate`: a plan of commands, each a child process that anybody can start by hand; what they print goes
// into a result file (results/RECORDS.md) and is judged there. VALID, INVALID with each reason, or INCOMPLETE.
#ifndef ZG_VALIDATE_H
#define ZG_VALIDATE_H

#include "results/limits/accepted_range.h"
#include "ref/executor/emulation.h"
#include "results/limits/finding.h"

#include <jansson.h>

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VALIDATE_PART_MAX = 16, VALIDATE_ARGUMENT_MAX = 48, VALIDATE_NAME_BYTES = 32 };

// One command. Its standard output is JSON lines: the conformance suite's report, or results of one benchmark.
struct validate_part {
    char name[VALIDATE_NAME_BYTES];  // "arithmetic", "bench-adam"
    const char *bench;               // whose lines these are: "adam", or "adam_..."; null: the conformance suite's
    // NULL at the end; one may point to `emulate`, so a part stays where it is.
    const char *argv[VALIDATE_ARGUMENT_MAX];
    char emulate[EMULATION_TEXT_BYTES];  // those of the emulated lanes that it has
    double expected_s;                   // about, for the time left
    double limit_s;                      // then it is ended
    bool may_be_absent;  // exit status 77 says that this machine has no such thing: a note, nothing to judge
};

struct validate_plan {
    struct validate_part parts[VALIDATE_PART_MAX];
    size_t count;
};

// What the user chose for the plan. Strings are not copied, and outlive it.
struct validate_choice {
    const char *program;  // zerogauge itself
    bool quick;
    const char *const *nvme_paths;  // NULL at the end; null: none given
    struct emulation emulation;
    bool several_hosts;   // ranks are processes, on more than one
    const char *world;    // ranks; null: each benchmark's own
    const char *pin;      // null: the first processors
    const char *engine;   // null: libaio
    double time_limit_s;  // of each part; 0: the plan's own
};
int validate_plan_make(const struct validate_choice *choice, struct validate_plan *out);

struct fit_setting;

struct validate_setting {
    const char *folder;           // there and empty
    const char *program, *level;  // of the run record
    int argc;
    const char *const *argv;   // the command line
    const char *const *paths;  // folders whose disks are described; null at the end
    const char *emulate;       // lanes that are EMULATED; null: none
    const struct validate_plan *plan;
    const struct accepted_ranges *ranges;      // may be empty
    const struct fit_setting *fit;             // null: none
    const volatile sig_atomic_t *interrupted;  // may be null
};

enum part_state { PART_NOT_RUN, PART_DONE, PART_ABSENT, PART_FAILED };

struct validate_result {
    struct bench_findings findings;
    struct result_line *lines;  // bench records, owned
    size_t line_count, line_room;
    json_t *fits;                    // array of fit records, owned
    struct result_line conformance;  // the conformance record, owned; null: none
    enum part_state states[VALIDATE_PART_MAX];
    char reasons[VALIDATE_PART_MAX][BENCH_FINDING_TEXT_BYTES];  // of parts that are absent or failed
    bool interrupted;
    double seconds, other_load;
};

// What goes wrong in a part is a finding, not an error of this function: that is a file that cannot be written, or no
// memory. validate_result_free in every case.
int validate_run(const struct validate_setting *setting, struct validate_result *out);
void validate_result_free(struct validate_result *result);

// INCOMPLETE where it was interrupted.
enum finding_verdict validate_verdict(const struct validate_result *result);

// The summary: a row for each result, the share of its baseline first; what fits; then the verdict and why.
void validate_table(const struct validate_setting *setting, const struct validate_result *result);

// Writes report.html, report.md and results.csv beside the result.jsonl of the folder, after verifying it. ERR_CHECK
// where it does not hold.
int validate_report(const char *folder);

// `zerogauge validate`
int validate_main(int argc, const char **argv);

#endif
