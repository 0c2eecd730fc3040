// SPDX-License-Identifier: Apache-2.0
// One case of `bench adam`: a step over arrays of one size, against the longer of its two parts.
#ifndef ZG_ADAM_CASE_H
#define ZG_ADAM_CASE_H

#include "ref/arithmetic/adam.h"
#include "ref/arithmetic/isa.h"
#include "bench/adam/adam_arrays.h"
#include "bench/harness/bench.h"

// The steps that are measured. update: the optimizer alone. fused: also takes the mean of the gradient's sum, clips,
// and writes a bf16 copy, in one pass. whole: the same with the global norm first, which reads the gradient twice.
struct adam_variant {
    const char *name;
    enum dtype grad_dtype;
    bool writes_model_params, norm;
    const char *baseline;  // streams read and written
};

enum { ADAM_VARIANT_COUNT = 5 };
extern const struct adam_variant adam_variants[ADAM_VARIANT_COUNT];

struct adam_case {
    const struct adam_variant *variant;
    const struct recipe *recipe;
    enum isa isa;
    size_t count;
    int threads;
};

// Measures, verifies every element, and prints. The arrays are of the case's size and threads.
int adam_case_run(const struct adam_case *of, const struct bench_options *options, struct adam_arrays *arrays);

// The norm of a step's whole gradient, its parts by one thread each: the same bits for any number of them.
double adam_case_norm(const struct adam_step *step, int threads);

#endif
