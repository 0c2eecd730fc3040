// SPDX-License-Identifier: Apache-2.0
// Muon, the suite's own. The momentum is one element's sequence of operations, which is judged by bits, under one of a
// few forms. The update is a product of matrices, whose bits follow nobody's recipe: it is computed in double, and
// compared as a whole.
#pragma once

#include "conformance/cases/case.h"

// m: the momentum before; g: the mean gradient, clipped.
enum muon_momentum {
    MOMENTUM_INTERPOLATED,  // canonical: lerp(m, g, 1 - momentum), fused, from the nearer end (torch.optim.Muon)
    MOMENTUM_INTERPOLATED_UNFUSED,  // the same, each product rounded
    MOMENTUM_WEIGHED,               // momentum m + (1 - momentum) g, both products rounded
    MOMENTUM_WEIGHED_FUSED,         // the second product unrounded
    MOMENTUM_SUM,                   // momentum m + g: 1 / (1 - momentum) times as large, which its norm takes away
    MOMENTUM_SUM_FUSED,
    MOMENTUM_COUNT
};

float muon_momentum_of(enum muon_momentum form, double momentum, float m, float g);
const char *muon_momentum_text(enum muon_momentum form);  // "momentum interpolated"
bool muon_momentum_is_sum(enum muon_momentum form);

// The forms that a case can tell apart: one without Muon.
int muon_momentum_count(const struct check_case *c);

// The factor of the learning rate that a matrix's shape gives.
double muon_rate(const struct case_group *group, size_t rows, size_t columns);

// Newton-Schulz of `steps` steps with the usual coefficients, of the row-major d[rows * columns] to out, in double.
// ERR_MEMORY.
int muon_orthogonalise(const double *d, size_t rows, size_t columns, int steps, double *out);

// The smallest and the largest singular value of a matrix. ERR_MEMORY.
struct muon_range {
    double least, most;
};
int muon_singular_values(const double *a, size_t rows, size_t columns, struct muon_range *out);
