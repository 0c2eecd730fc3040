// SPDX-License-Identifier: Apache-2.0
// Models whose loss is the sum of p x g over all parameters, so that the gradient of p is g for any p. A counter-based
// generator draws g; a tied weight has one g for each of its layers, and its gradient is their sum.
//
//   linear           20 octaves, both signs, 5% zeros: every sum rounds. All values are below 2^-6, so that in fp16 a
//                    loss scale of 65536 overflows none.
//   linear-exact     33 x small integer x 2^-11 .. 2^-14: in any order, no sum over up to 11 ranks and 4 micro-steps
//                    rounds, nor does a division by 1, 2, 3, 4, 8 or 11 ranks and 1, 2 or 4 micro-steps, before or
//                    after the sum. In 16 bits the integers are -1, 0, 1 and one use of a tied weight is 0; in bf16,
//                    moreover, 7 of 8 pairs of rank and micro-step are 0, except rank 0's first micro-step.
//   linear-overflow  linear, but in micro-step 0 of every third step the last element of one gradient is not finite:
//                    infinite on rank 0 at steps 3, 9, 15 ...; NaN on rank 1, if it exists, at steps 6, 12, 18 ... The
//                    loss leaves it out.
//   linear-few       linear with 3 elements in two tensors: fewer than ranks.
//
// The parameters are chosen to be awkward: empty, scalar, odd and even sizes, one tensor larger than all others
// together, one tied over the first and the last layer, one frozen, one unused, a layer without elements, two optimizer
// groups.
#pragma once

#include "ref/model/model.h"

// Names the family of the values that a model draws, and the parameter that overflows.
enum linear_family { LINEAR_WIDE, LINEAR_EXACT, LINEAR_OVERFLOW };
struct linear_shape {
    enum linear_family family;
    int overflow_param;  // -1: none
};

// The models above by index; NULL past the last.
const struct model *linear_model(int index);

// linear_is_adapted returns whether a name is one of these with adapters, such as linear:rank=4,targets=c+e (lora.h);
// linear_find_adapted finds that model. A module
// is a matrix's name without ".weight".
bool linear_is_adapted(const char *name);
int linear_find_adapted(const char *name, const struct model **out);

// Draws g, rounded to dtype, for elements [first, first + count) of a parameter in one of its layers; 0 if the
// parameter is unused.
void linear_draw(const struct model *model, const struct model_batch *batch, int layer, int param, enum dtype dtype,
                 size_t first, size_t count, float *out);
