// SPDX-License-Identifier: Apache-2.0
// Bounds for an answer that follows no rule of the table, relation by relation, each from the answer's own values
// before it, so that no error counts twice and Adam cannot turn noise in a gradient near zero into a verdict.
//
// The unit is the rounding: the error divided by 2^-24 times the sum of the magnitudes of the terms. An operation in
// fp32 costs at most one, in bf16 2^16, in fp16 2^13. The right value is computed in double, from the hyper-parameters
// as given and from those rounded to fp32, and the nearer one counts.
//
//   relation     from                               terms                                 limit
//   gradient     the case's gradients               every rank's and micro-step's, / N    by count, below
//   exp_avg      previous m, the answer's gradient  b1 m, (1-b1) g, (1-b1) wd p           4, clipped 12
//   exp_avg_sq   previous v, the answer's gradient  b2 v, (1-b2) (|g| + wd |p|)^2         6, clipped 22
//   param        previous p, new m, v, and t        p, lr wd p, update x (1 + k1 + k2/2)  16
//
// The gradient's limit is what its operations can lose at most: for W ranks and M micro-steps W + 2 of the
// communication dtype (its terms' rounding, a division, W - 1 additions, the rounding of the sum), M of the
// accumulation dtype (M - 1 additions, the rounding of the sum), 4 of fp32 (divisions by W, M and the scale, and one
// reciprocal), and 2 of the model's dtype where W or M is no power of two (divisions before the sums). In an exact case
// none of these rounds: there the limit is 0, and the right value is the definition's, bit by bit. Only a running mean
// over micro-steps in fp32 may round there, once for each.
// m: the product of g or of its difference from m, the weights' rounding, the sum, and with L2 decay's own product and
// sum in a term that is seldom the largest. v: the same with two products. A clip coefficient brings the norm's
// rounding and its own, 8 together, once into m and twice into v.
// The parameter: root, its product with the bias correction, epsilon, quotient, product with the step, decay's product
// and factor, the last sum, and the rounding of each scalar. A bias correction 1 - b^t has the terms 1 and b^t, so that
// its k = (1 + b^t) / (1 - b^t) roundings enter the update, those of v by half.
// An absolute error below 2^-126 is none: subnormals may be flushed. The gradient's is what its dtypes' subnormals can
// lose.
//
// The limits of m, v and the parameter are exceeded by honest builds (reciprocals for divisions): up to 4 times is
// MARGINAL and passes. That of the gradient is a bound; beyond it is wrong.
#pragma once

#include "conformance/unsharded/unsharded.h"

enum link { LINK_GRADIENT, LINK_EXP_AVG, LINK_EXP_AVG_SQ, LINK_PARAM, LINK_COUNT };
enum link_class { LINK_WITHIN, LINK_MARGINAL, LINK_BROKEN };

const char *link_name(enum link link);  // "exp_avg"

// One step of an answer. The caller owns the arrays; the states' `t` is ignored. With gradients, there is one for every
// trained parameter that has a gradient.
struct link_step {
    int step;
    const struct unsharded_decision *decisions;  // [case_last_step], from step 1 on
    const struct unsharded_state *before, *after;
    const float *const *grad;          // by parameter, of this step; null: the answer has none, or the step is skipped
    const float *const *applied_grad;  // of the step that is applied: the same, but for the delayed update; null: none
    bool may_leave_unused, may_decay_unused;  // parameters without a gradient: kept as they are, given a zero one
};

// The worst element of a relation. INFINITY roundings: a value that no rounding explains, such as one that has changed
// in a step that applies nothing.
struct link_worst {
    bool was_checked;
    double roundings, limit;
    int param;
    size_t element;
};

struct link_result {
    struct link_worst worst[LINK_COUNT];
};

// Checks a step; the findings are in *out, and ERR_MEMORY is the only error.
int links_check(const struct check_case *c, const struct case_values *values, const struct link_step *step,
                struct link_result *out);

enum link_class link_class_of(enum link link, const struct link_worst *worst);
enum link_class links_class(const struct link_result *result);  // of the worst relation

// Roundings that the mean gradient may lose, and the absolute error that is none.
double links_gradient_limit(const struct check_case *c);
double links_gradient_floor(const struct check_case *c, double scale);
