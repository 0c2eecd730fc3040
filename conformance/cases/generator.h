// SPDX-License-Identifier: Apache-2.0
// The numbers of a case, as datasets/cases/GENERATOR.md defines them: each is made alone from its coordinates, with
// integers only, so that any language can make the same.
#pragma once

#include "conformance/cases/case.h"

// An element of an initial parameter; param is not tied.
float generator_initial(const struct check_case *c, int param, size_t element);

// An element of a use's gradient, pokes left out. Step from 1, micro and rank from 0; the use has a gradient.
float generator_gradient(const struct check_case *c, int step, int micro, int rank, int param, size_t element);

// All elements of it.
void generator_gradients(const struct check_case *c, int step, int micro, int rank, int param, float out[]);

// The exponent of an element's grid, in the exact family.
int generator_exponent(const struct check_case *c, int step, int param, size_t element);
