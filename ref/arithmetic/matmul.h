// SPDX-License-Identifier: Apache-2.0
// Products of matrices, whose bits are defined: c (m x n) = op(a) op(b), or c += op(a) op(b), where op transposes an
// operand whose flag is set; op(a) is m x k, op(b) is k x n. Element (i, j) is one chain of fused multiply-adds over k,
// ascending:
//
//   s = 0, or c_ij with `add`
//   s = fmaf(alpha a_ik, b_kj, s)    for k = 0, 1, ...; alpha a_ik is rounded to fp32
//   c_ij = s                         rounded to dtype if c is an operand
//
// No chain is split, so an element depends on values and shape alone: not on instruction set, width of vectors, blocks,
// threads, ranks, compiler or address. This is the definition in host memory, and in an accelerator's for operands in
// fp32 (docs/training.md). Of two NaN operands either may survive.
#pragma once

#include "ref/arithmetic/dtype.h"

#include <stdbool.h>
#include <stddef.h>

// A row-major matrix; stride counts elements. In 16 bits an operand's values are rounded to the dtype. In host memory
// they are held as floats, in an accelerator's memory they have the format itself.
struct matmul_operand {
    const void *data;
    size_t stride;
    bool transposed;
};

struct matmul_product {
    size_t m, n, k;
    float alpha;
    bool add;
    enum dtype dtype;
    struct matmul_operand a, b;
    void *c;            // which shares no memory with a and b; not read without `add`
    bool c_is_operand;  // its elements are rounded to dtype, and have its format in an accelerator's memory; else fp32
    size_t c_stride;
};

// Where c lies decides the processor (accelerator.h). Several threads may call it at the same time; each has a few MiB
// for packed operands, which it frees when it ends, and does without them where memory is short.
void matmul(const struct matmul_product *product);

// In host memory, by the kernels of one instruction set (isa.h).
struct isa_kernels;
void matmul_by(const struct isa_kernels *kernels, const struct matmul_product *product);

// Products of floats: alpha 1, dtype fp32, and nothing is added.
void matmul_floats(size_t m, size_t n, size_t k, struct matmul_operand a, struct matmul_operand b, float *c,
                   size_t c_stride);

// on: products of DTYPE_BF16 operands in host memory are made by the processor's instructions for bf16 (onednn.h)
// rather than of floats. Each product of two elements is exact in both; the library and the processor choose the order
// of their sums. For the whole process; no thread may be in a product. Products with an alpha other than 1 remain
// products of floats. ERR_USAGE: there are no such instructions.
int matmul_set_bf16(bool on);

// For matmul.c. True, and the product is made, if the processor's instructions for bf16 make it.
bool matmul_bf16(const struct matmul_product *product);
