// SPDX-License-Identifier: Apache-2.0
// A tensor in E4M3 (OCP 8-bit Floating Point Specification, section 5: 4 bits of exponent with bias 7, 3 of mantissa,
// no infinity, largest value 448), with one scale for all of it. For the tensor's x:
//
//   scale    = 448 / max(max |x_i|, 1e-12), in fp32; NaN if an element is infinite or NaN
//   code_i   = x_i x scale in fp32, limited to -448 ... 448, rounded to the nearest value of E4M3, ties to even
//   result_i = code_i / scale, in fp32
//
// as torchao has it (torchao/float8/float8_utils.py, amax_to_scale; float8_training_tensor.py at 074fdd4e). A scale
// that it computes in fp64 and rounds to fp32 has the bits of a division in fp32. Its scales are powers of two only
// where round_scales_to_power_of_2 asks for it, which nothing here does.
#pragma once

#include <stddef.h>

#define E4M3_LARGEST 448.0f

// The largest magnitude of x[count], 0 of none; NaN if an element is infinite or NaN.
float e4m3_amax(const float x[], size_t count);

// The larger of two such, NaN if one is.
float e4m3_larger(float a, float b);

// The scale of a tensor, from the largest magnitude of all its parts.
float e4m3_scale(float amax);

void e4m3_pack(const float x[], size_t count, float scale, unsigned char codes[]);
void e4m3_unpack(const unsigned char codes[], size_t count, float scale, float x[]);
