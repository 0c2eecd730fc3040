// SPDX-License-Identifier: Apache-2.0
// The plan of a validation: its parts in order, each a command line that also works by hand.
#pragma once

#include "ref/executor/emulation.h"

#include <stdbool.h>
#include <stddef.h>

// A quick run takes two and a half minutes. Its parts have this much; the rest is for their fewest samples.
enum { VALIDATE_QUICK_S = 150, VALIDATE_QUICK_PARTS_S = 108 };

enum { VALIDATE_PART_MAX = 20, VALIDATE_ARGUMENT_MAX = 48, VALIDATE_NAME_BYTES = 32, VALIDATE_NUMBER_BYTES = 16 };

// One command. Its standard output is JSON lines: the conformance suite's report, or results of one benchmark.
struct validate_part {
    char name[VALIDATE_NAME_BYTES];  // "arithmetic", "bench-adam", "bench-adam-cuda"
    const char *bench;               // accepts records named "adam" or "adam_..."; null: the conformance suite's report
    // NULL at the end. An argument may point to `emulate` or `budget` in this structure, so a part is not copied.
    const char *argv[VALIDATE_ARGUMENT_MAX];
    char emulate[EMULATION_TEXT_BYTES];  // the emulated lanes that this part uses
    char budget[VALIDATE_NUMBER_BYTES];  // budget_s as text, for a benchmark
    double expected_s;                   // rough estimate, for the time left and for the shares of a budget
    double budget_s;                     // the time that the part is given; 0: as long as it takes
    double limit_s;                      // the part is killed after this time
    bool may_be_absent;                  // exit status 77: the machine lacks the device; the run can still be VALID
};

struct validate_plan {
    struct validate_part parts[VALIDATE_PART_MAX];
    size_t count;
};

// The user's choices. Strings are not copied and must outlive the plan.
struct validate_choice {
    const char *program;  // path of zerogauge
    bool quick;
    const char *const *nvme_paths;  // NULL at the end; null: none given
    struct emulation emulation;
    bool has_gpu;         // a part of a device that the machine lacks ends immediately
    bool several_hosts;   // the ranks are processes on more than one host
    const char *world;    // ranks; null: each benchmark's own
    const char *pin;      // null: the first processors
    const char *engine;   // null: libaio
    const char *text;     // file that models train on; null: the benchmarks' own
    double time_limit_s;  // of each part; 0: the plan's own
};

// Gives part `index` its share, by the expected times, of `left_s` for it and all parts after it. Parts without a
// budget stay without.
void validate_plan_share(struct validate_plan *plan, size_t index, double left_s);

// ERR_USAGE: a command line becomes too long.
int validate_plan_make(const struct validate_choice *choice, struct validate_plan *out);
