// SPDX-License-Identifier: Apache-2.0
// One case of `bench adam`: a step over arrays of one size, against the slower of its memory traffic and its divisions.
#pragma once

#include "ref/arithmetic/adam.h"
#include "ref/arithmetic/isa.h"
#include "bench/adam/adam_arrays.h"
#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"

// The steps that are measured. update: the optimizer alone. fused: in the same pass also averages the gradient over
// ranks, clips it, and writes bf16 model parameters. whole: fused after the global norm, which reads the gradient
// twice.
struct adam_variant {
    const char *name;
    enum dtype grad_dtype;
    bool writes_model_params, norm;
    const char *baseline;  // its memory streams: arrays read and written
};

enum { ADAM_VARIANT_COUNT = 5 };
extern const struct adam_variant adam_variants[ADAM_VARIANT_COUNT];

// Bytes of a parameter that adam_arrays_open allocates.
enum { ADAM_CASE_ALLOCATED_BYTES = 20 };

struct adam_case {
    const struct adam_variant *variant;
    const struct recipe *recipe;
    enum isa isa;
    size_t count;
    int threads;
};

// Makes the step that the case measures, over arrays in host or device memory: step 1000 of AdamW with the usual
// hyperparameters. Fused steps average over two ranks and halve the gradient by clipping.
int adam_case_step(const struct adam_case *of, const struct adam_arrays *arrays, struct adam_step *out);

// Measures a case, verifies every element and prints the result. The arrays have the case's size and threads.
int adam_case_run(const struct adam_case *of, const struct bench_options *options, struct adam_arrays *arrays);

// Returns the number of parameters of the default case that is out of cache: `wanted`, or as many as make the states
// `times` as large as the caches if that is more, within the memory that may be allocated. 0: that memory does not
// exceed the caches. *needs_bytes: the memory of the smallest case out of cache.
size_t adam_case_large_count(size_t wanted, int times, size_t cache_bytes, size_t memory_bytes, size_t *needs_bytes);

// Reports that the case, which is out of cache, needs more memory than there is.
int adam_case_skip(const struct adam_case *of, const struct bench_options *options, size_t needs_bytes,
                   size_t available_bytes);

// Returns the norm of a step's gradient, computed by `threads` threads. The bits do not depend on their number.
double adam_case_norm(const struct adam_step *step, int threads);

// Measures a case, verifies every element and prints the result. Ignores the case's isa and threads. The variant must
// not have a norm, which would wait for the host between its passes.
int adam_device_run(const struct bench_gpu *device, const struct adam_case *of, const struct bench_options *options,
                    struct adam_arrays *arrays);
