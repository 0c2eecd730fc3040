// SPDX-License-Identifier: Apache-2.0
// One case of `bench memory` on a GPU: its arrays, its repetitions, and their verification.
#pragma once

#include "bench/harness/bench_device.h"
#include "bench/memory/memory_work.h"
#include "bench/memory/memory_bench.h"

// All functions but those of `gpu` enqueue work of the calling thread; errors are noted until it waits.
struct memory_device {
    struct bench_gpu gpu;  // the accelerator, its clock, and the mix
    void (*copy)(memory_word *to, const memory_word *from, size_t count);
    void (*write)(memory_word *to, size_t count, memory_word value);
    void (*read)(const memory_word *from, size_t count, memory_word *sum);  // adds to *sum on the device
    void (*set)(void *to, unsigned char byte, size_t bytes);                // the driver's own
};

struct memory_case {
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

// Allocates and fills the arrays of a case with device, operation and count. ERR_MEMORY: they do not fit. The caller
// closes the case, after an error too.
int memory_case_open(struct memory_case *c);
void memory_case_close(struct memory_case *c);

struct bench_device memory_case_device(const struct memory_case *c);
size_t memory_case_bytes(const struct memory_case *c);  // of an array

// Repetitions for bench_take_turns, with the case as the context: the operation by the own kernel, the driver's copy
// of the source to the target, and the driver's fill of the target. ERR_CHECK: a sum on the device is wrong.
int memory_case_run(void *context, double *ms);
int memory_case_copy(void *context, double *ms);
int memory_case_set(void *context, double *ms);

// Compares every word on the host: of one more copy or write, or of all mixes. A read leaves none. ERR_CHECK: some are
// wrong.
int memory_case_compare(struct memory_case *c);

// Measures, verifies and prints the chosen operations at every size of the options. Arrays that do not fit are skipped.
int memory_device_run(const struct memory_device *device, const struct memory_bench *bench);
