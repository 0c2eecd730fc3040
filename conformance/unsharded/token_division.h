// SPDX-License-Identifier: Apache-2.0
// The division of a step's gradients by its tokens, under a rule (rule.h): what is done to each gradient, and to their
// sum.
#pragma once

#include "conformance/cases/case.h"
#include "conformance/unsharded/rule.h"

struct token_division {
    const struct check_case *c;
    enum rule_tokens tokens;
    int step;
    double all;   // of the step's tokens, or 1
    float scale;  // of the loss
};

struct token_division token_division_of(const struct check_case *c, const struct rule *rule, int step, float scale);

// x with its loss scale, in the model's dtype, divided where the rule does so first.
float token_divide_each(const struct token_division *division, int micro, int rank, float x);

// The sum of such gradients, unscaled, divided where the rule does so last; not of TOKENS_MEAN.
float token_divide_sum(const struct token_division *division, float sum);
