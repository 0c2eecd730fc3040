// SPDX-License-Identifier: Apache-2.0
// What `preflight` and `soak` have in common: cores, folders, a flip on purpose, an end by signals.
#pragma once

#include "validate/health/device_check.h"
#include "validate/health/health_round.h"

struct health_options {
    char **folders;  // of --nvme-path; null: none given
    char *flip;      // of --inject: OPERATION@CORE or OPERATION@CORE@ROUND
    char *device;    // "cuda": GPUs, too; null: none
    int json;
};

// The setting of a round on all cores that this process may use. Operations, cores and strings live as long as *out.
struct health_machine {
    int cores[HEALTH_CORE_MAX];
    struct health_operation operations[HEALTH_OPERATION_MAX];
    struct health_flip flip;
    int device_count, multiprocessors;  // of --device; 0: none was asked for
    struct device_flip device_flip;     // multiprocessor or device in place of the core
    char flipped[64];
    struct health_round_setting setting;
};

// ERR_USAGE: --device names none that is usable; a folder is none, cannot be written to or lacks room for a round, or
// --inject names an operation or core that is not there.
int health_machine_find(const struct health_options *options, struct health_machine *out);

// From health_watch_signals on, a request to end (interrupt.h) sets *health_interrupted() to its signal.
const volatile sig_atomic_t *health_interrupted(void);
void health_watch_signals(void);
