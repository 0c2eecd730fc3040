// SPDX-License-Identifier: Apache-2.0
// Models whose loss is the sum of p x g over all parameters, so that the gradient of p is g whatever p holds. g comes
// from a counter-based generator; a tied weight has one g for each of its layers, and their sum is its gradient.
//
//   linear           20 octaves, both signs, 5% zeros: every sum rounds. Below 2^-6, so that in fp16 a loss scale of
//                    65536 overflows nothing.
//   linear-exact     33 x small integer x 2^-11 .. 2^-14: whatever the order, no sum over up to 11 ranks and 4
//                    micro-steps rounds, nor does its division by 1, 2, 3, 4, 8 or 11 ranks and 1, 2 or 4 micro-steps,
//                    before or after. In 16 bits the integers are -1, 0, 1 and one of a tied weight's uses is 0; in
//                    bf16, besides, 7 of 8 pairs of rank and micro-step are 0, save rank 0's first micro-step.
//   linear-overflow  linear, but in micro-step 0 of every third step the last element of one gradient is no number:
//                    infinite on rank 0 at steps 3, 9, 15 ...; NaN on rank 1 at steps 6, 12, 18 ... (where there is
//                    such a rank). The loss leaves it out.
//   linear-few       linear with 3 elements in two tensors: fewer than ranks.
//
// The parameters are chosen to be awkward: empty, scalar, odd and even sizes, one tensor larger than the rest together,
// one tied over the first and the last layer, one frozen, one unused, a layer with nothing in it, two optimizer groups.
#ifndef ZG_LINEAR_H
#define ZG_LINEAR_H

#include "ref/model/model.h"

#include <stdint.h>

// The models above; NULL when index is past the last.
const struct model *linear_model(int index);

// g of count elements from `first` on, of one use of a parameter, as dtype holds it. Zero where it is unused.
void linear_draw(const struct model *model, const struct model_batch *batch, int layer, int param, enum dtype dtype,
                 size_t first, size_t count, float *out);

#endif
