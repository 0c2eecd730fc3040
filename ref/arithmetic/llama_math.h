// SPDX-License-Identifier: Apache-2.0
// The kernels of a Llama; others it shares with a GPT (gpt_math.h), whose rules hold here, too: fp32 between
// operands, sums in the order that the shape decides, the same bits in every build and for any number of threads. All
// arrays lie in host memory.
#pragma once

#include "ref/arithmetic/gpt_math.h"

// RMSNorm (Zhang and Sennrich, arXiv 1910.07467, equation 4): "a_i / RMS(a) g_i, where RMS(a) = sqrt(1/n sum a_i^2)",
// with 1e-5 added to the mean square. stats[r] = 1 / RMS of the row.
void rmsnorm_stats(size_t row_count, size_t width, const float *in, float *stats);
// out = in x stats x weight, an operand.
void rmsnorm_apply(size_t row_count, size_t width, const float *in, const float *stats, enum dtype dtype,
                   const void *weight, void *out);
// Adds the input's gradient to in_gradient; overwrites weight_gradient, a sum over rows, unless it is null.
void rmsnorm_backward(size_t row_count, size_t width, const float *in, const float *stats, const void *weight,
                      const float *out_gradient, float *in_gradient, float *weight_gradient);

// Rotary positions (RoFormer, arXiv 2104.09864, equation 34, theta 10000), in the half-split form that Llama has in
// transformers: channels j and j + width/2 of a head of this width are turned by the angle position x
// theta^(-2j/width). `heads` heads follow each other at the beginning of each row, and rows are `stride` apart. Turned
// values are operands.
struct rotary {
    size_t length;        // of a sequence: row r has the position r mod length
    size_t heads, width;  // of the rows; of a head, even
    size_t stride;
    const float *cosines, *sines;  // [length][width / 2]
    enum dtype dtype;
};
// Fills the tables with plain IEEE operations, so that they do not depend on the C library.
void rotary_fill(size_t length, size_t width, float *cosines, float *sines);
// `back`: by the opposite angle, which takes a gradient back.
void rotary_turn(const struct rotary *rotary, bool back, size_t row_count, float *rows);

// SwiGLU (Shazeer, arXiv 2002.05202): out = silu(gate) x up with silu(x) = x / (1 + exp(-x)); out is an operand.
void swiglu_forward(size_t row_count, size_t width, const float *gate, const float *up, enum dtype dtype, void *out);
// In place: gate and up become their gradients, and the output's gradient becomes the output; all are operands.
void swiglu_backward(size_t row_count, size_t width, enum dtype dtype, float *gate, float *up, float *out_gradient);

// dtype_widen and dtype_narrow, shared by threads.
void shared_widen(enum dtype dtype, const void *in, float *out, size_t element_count);
void shared_narrow(enum dtype dtype, const float *in, void *out, size_t element_count);
