// SPDX-License-Identifier: Apache-2.0
// What validate.c and validate_judge.c share: a run under way.
#ifndef ZG_VALIDATE_INTERNAL_H
#define ZG_VALIDATE_INTERNAL_H

#include "results/record/record.h"
#include "validate/validate.h"

struct validation {
    const struct validate_setting *setting;
    struct validate_result *result;
    struct record_writer *writer;
    uint64_t begin_ns;
    size_t part;       // that runs
    size_t gpu_count;  // that the machine has
    bool broken;       // the ranks cannot go on together
};

// Appends the finding to the file, and keeps it.
int validation_judge(struct validation *v, const struct bench_finding *finding);

// When all parts have run: emulated lanes, arithmetic, accepted ranges, outliers.
int validation_judge_all(struct validation *v);

#endif
