// SPDX-License-Identifier: Apache-2.0
// `bench adam` on an accelerator: one case, against the faster of two that do no arithmetic: a kernel that moves the
// same memory streams, and the driver's own copy of as many bytes.
#ifndef ZG_ADAM_DEVICE_H
#define ZG_ADAM_DEVICE_H

#include "bench/adam/adam_case.h"
#include "bench/harness/bench_device.h"

// Measures a case, verifies every element and prints the result. Ignores the case's isa and threads. The variant must
// not have a norm, which would wait for the host between its passes.
int adam_device_run(const struct bench_gpu *device, const struct adam_case *of, const struct bench_options *options,
                    struct adam_arrays *arrays);

#endif
