// SPDX-License-Identifier: Apache-2.0
// The norm of gradients, and the clip coefficient in all its forms.
#include "conformance/unsharded/unsharded.h"

#include <math.h>

double unsharded_norm(const struct check_case *c, const float *const gradients[CASE_PARAM_MAX])
{
    // The squares are exact and cannot overflow; n additions lose less than n x 2^-64 of the sum.
    long double sum = 0;
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; gradients[i] && case_is_trained(c, i) && k < c->params[i].count; k++)
            sum += (long double)gradients[i][k] * (long double)gradients[i][k];
    return (double)sqrtl(sum);
}

float unsharded_coefficient(const struct check_case *c, const struct rule *rule, double norm)
{
    const double e = 1e-6, max_norm = c->gradient_clipping;
    if (!(max_norm > 0))
        return 1;
    float short_max = (float)max_norm, padded = (float)norm + (float)e, coefficient;
    switch (rule->clip) {
    case CLIP_BY_RECIPROCAL:
        coefficient = 1.0f / (padded / short_max);
        break;
    case CLIP_BY_TRUE_QUOTIENT:
        coefficient = short_max / padded;
        break;
    case CLIP_BY_QUOTIENT_IN_DOUBLE:
        coefficient = (float)(max_norm / (norm + e));
        break;
    case CLIP_BY_RECIPROCAL_IN_DOUBLE:
        coefficient = (float)(1 / ((norm + e) / max_norm));
        break;
    default:
        coefficient = 1.0f / padded * short_max;
    }
    return coefficient > 1 ? 1 : coefficient;
}
