// SPDX-License-Identifier: Apache-2.0
// Blockwise symmetric quantization, as ZeRO++ uses it for weights, in 8 bits, and for gradients, in 4 (arXiv
// 2306.10209, sections 3.1 and 3.3). An array is cut into blocks of `block` elements, of which the last may be shorter.
// For a block x, with the largest code c = 2^(bits-1) - 1, which is 127 or 7:
//
//   scale    = max |x_i| / c, in fp32; NaN if an element is infinite or NaN
//   code_i   = x_i / scale in fp32, rounded to the nearest integer, ties to even, and limited to -c ... c;
//              0 where the scale is 0 or NaN
//   result_i = code_i x scale, in fp32
//
// So a block of zeros stays zeros, a block that is not finite becomes NaN as a whole, which a search for overflow
// finds, and the element of the largest magnitude survives but for the last bit of fp32. DeepSpeed's scale is
// max / (c + 1), which limits the largest elements to c / (c + 1) of their value (csrc/includes/quantization_utils.h).
//
// A packed block is its scale, in 4 bytes, and its codes in two's complement: one a byte, or two a byte, the first in
// the lower bits. Packed blocks follow one another.
#pragma once

#include <stddef.h>

enum { QUANTIZE_WEIGHT_BITS = 8, QUANTIZE_GRADIENT_BITS = 4 };

// Elements of a block: a multiple of QUANTIZE_BLOCK_MIN.
enum { QUANTIZE_BLOCK_MIN = 8, QUANTIZE_BLOCK_MAX = 8192 };

// Bytes of `count` elements, packed.
size_t quantize_bytes(size_t count, size_t block, int bits);

// Packs one block of `count` elements, and unpacks it. The arrays do not overlap.
void quantize_block(const float x[], size_t count, int bits, unsigned char packed[]);
void dequantize_block(const unsigned char packed[], size_t count, int bits, float x[]);
