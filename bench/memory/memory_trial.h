// SPDX-License-Identifier: Apache-2.0
// One case of `bench memory` on a GPU: its arrays, its repetitions, and their verification.
#ifndef ZG_MEMORY_TRIAL_H
#define ZG_MEMORY_TRIAL_H

#include "bench/harness/bench_device.h"
#include "bench/memory/memory_device.h"

struct memory_trial {
    const struct memory_device *device;
    enum memory_operation operation;
    size_t count;                             // words of an array
    int array_count;                          // the last two are source and target of copies
    memory_word *arrays[MEMORY_ARRAY_COUNT];  // on the device
    memory_word *sum;                         // on the device
    memory_word *part;                        // page-locked, of arrays on their way to and from the host
    memory_word source_sum, value;            // value: of the last write
    uint64_t rounds, mix_count;               // rounds: in a repetition; mix_count: so far
};

// Allocates and fills the arrays of a trial with device, operation and count. ERR_MEMORY: they do not fit. The caller
// closes the trial, after an error too.
int memory_trial_open(struct memory_trial *trial);
void memory_trial_close(struct memory_trial *trial);

struct bench_device memory_trial_device(const struct memory_trial *trial);
size_t memory_trial_bytes(const struct memory_trial *trial);  // of an array

// Repetitions for bench_take_turns, with the trial as the context: the operation by the own kernel, the driver's copy
// of the source to the target, and the driver's fill of the target. ERR_CHECK: a sum on the device is wrong.
int memory_trial_run(void *context, double *ms);
int memory_trial_copy(void *context, double *ms);
int memory_trial_set(void *context, double *ms);

// Compares every word on the host: of one more copy or write, or of all mixes. A read leaves none. ERR_CHECK: some are
// wrong.
int memory_trial_compare(struct memory_trial *trial);

#endif
