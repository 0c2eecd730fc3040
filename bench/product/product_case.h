// SPDX-License-Identifier: Apache-2.0
// One case of `bench product`: a product in turn with fused multiply-adds of registers alone, and with the libraries.
#pragma once

#include "bench/harness/bench.h"
#include "ref/arithmetic/dtype.h"

#include <stdbool.h>
#include <stddef.h>

struct product_case {
    size_t m, n, k;
    bool a_transposed, b_transposed;
    enum dtype dtype;      // of the operands; the libraries multiply the same values as floats
    bool of_instructions;  // by the processor's instructions for bf16 (matmul_set_bf16)
    int threads;
};

// Measures, verifies and prints. ERR_CHECK: elements are wrong.
int product_case_run(const struct product_case *of, const struct bench_options *options);
