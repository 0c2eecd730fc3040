// SPDX-License-Identifier: Apache-2.0
// `bench adam` on an accelerator: one case, against a copy there with the same mix of streams.
#ifndef ZG_ADAM_DEVICE_H
#define ZG_ADAM_DEVICE_H

#include "ref/arithmetic/accelerator.h"
#include "bench/adam/adam_case.h"

struct adam_device {
    const struct accelerator *accelerator;      // the calling thread has entered it
    int (*begin)(void);                         // of a stretch of the calling thread's work there
    int (*end)(double *ms);                     // waits for it; how long it took
    void (*mix)(const struct adam_step *step);  // moves a step's streams, with hardly any arithmetic
};

// The GPU's. ERR_USAGE: there is none, and the message says why.
int adam_device_find(struct adam_device *out);

// Measures, verifies every element, and prints. Of the case, neither isa nor threads matter, and its variant has no
// norm: that would wait for the host between its passes.
int adam_device_run(const struct adam_device *device, const struct adam_case *of, const struct bench_options *options,
                    struct adam_arrays *arrays);

#endif
