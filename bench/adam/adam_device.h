// SPDX-License-Identifier: Apache-2.0
// `bench adam` on an accelerator: one case, against the faster of two that do no arithmetic: a kernel that moves the
// same memory streams, and the driver's own copy of as many bytes.
#ifndef ZG_ADAM_DEVICE_H
#define ZG_ADAM_DEVICE_H

#include "ref/arithmetic/accelerator.h"
#include "bench/adam/adam_case.h"

struct adam_device {
    const struct accelerator *accelerator;      // current in the calling thread
    int (*begin)(void);                         // starts timing the calling thread's work
    int (*end)(double *ms);                     // waits for that work and returns its duration
    void (*mix)(const struct adam_step *step);  // moves a step's streams with next to no arithmetic
    size_t cache_bytes;                         // of the device's last-level cache: larger arrays do not stay in it
};

// Finds the GPU and makes it current. ERR_USAGE: there is none; the message says why.
int adam_device_find(struct adam_device *out);

// Measures a case, verifies every element and prints the result. Ignores the case's isa and threads. The variant must
// not have a norm, which would wait for the host between its passes.
int adam_device_run(const struct adam_device *device, const struct adam_case *of, const struct bench_options *options,
                    struct adam_arrays *arrays);

#endif
