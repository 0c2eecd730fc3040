// SPDX-License-Identifier: Apache-2.0
// A run in progress, shared by validate.c, validate_collect.c and validate_judge.c.
#pragma once

#include "cli/info/health_counters.h"
#include "results/record/record.h"
#include "validate/validate.h"

struct validation {
    const struct validate_setting *setting;
    struct validate_result *result;
    struct record_writer *writer;
    uint64_t begin_ns;
    size_t part;       // index of the running part
    size_t gpu_count;  // of this machine
    struct health_counters health_before;
    bool broken;  // the ranks cannot continue together
};

// Collects one rank's run of the current part: appends its records and a `part` record to the file, keeps what is
// judged later, prints a line, and adds a finding where the run did not succeed. begin_s: since the start of the
// validation.
int validation_collect(struct validation *v, const struct validate_part *part, const struct part_run *run, int rank,
                       double begin_s);

// Appends the finding to the file and keeps a copy.
int validation_judge(struct validation *v, const struct bench_finding *finding);

// Judges the whole run after its last part: health, emulated lanes, arithmetic, accepted ranges, outliers.
int validation_judge_all(struct validation *v);
