// SPDX-License-Identifier: Apache-2.0
// oneDNN, loaded when it is first needed: products of bf16 matrices by the processor's own instructions (AVX-512 BF16,
// AMX). A build without its headers, and a machine without the library or the instructions, has none.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Loads oneDNN. ERR_USAGE says what is missing: the library, or instructions of the processor.
int onednn_load(void);

// The library and the instructions, such as "oneDNN 2.6.3, AVX-512 BF16"; after onednn_load succeeded.
const char *onednn_describe(void);

// c (m x n, fp32) = op(a) op(b) + (add ? c : 0), on the caller's thread; a and b are bf16. Row-major, strides count
// elements; op transposes. m, n, k > 0. After onednn_load succeeded. Aborts if oneDNN refuses, which it has no reason
// to.
struct onednn_operand {
    const uint16_t *data;
    size_t stride;
    bool transposed;
};
void onednn_bf16_product(size_t m, size_t n, size_t k, struct onednn_operand a, struct onednn_operand b, bool add,
                         float *c, size_t c_stride);
