// SPDX-License-Identifier: Apache-2.0
// What the relations share: exact means, and the record of the worst element.
#pragma once

#include "conformance/judge/links.h"

// The mean gradients of a step in double, unscaled, and the sums of their terms' magnitudes: by parameter, [count].
// NULL for what is not trained or has no gradient.
struct exact_gradient {
    double *value[CASE_PARAM_MAX], *magnitude[CASE_PARAM_MAX];
};

int exact_gradient_open(const struct check_case *c, const struct case_values *values, int step, double scale,
                        struct exact_gradient *out);
void exact_gradient_close(struct exact_gradient *exact);

// A value that should be `expected`, whose terms' magnitudes have this sum; an error up to `slack` is none.
double link_roundings(double expected, double actual, double magnitude, double slack);
void link_note(struct link_worst *worst, double roundings, int param, size_t element);

void links_gradient(const struct check_case *c, const struct exact_gradient *exact, double scale,
                    const float *const grad[], struct link_worst *out);

// Norm of the answer's gradients, or, without them, of the exact ones.
double links_norm_of(const struct check_case *c, const struct exact_gradient *exact, const float *const grad[]);
