// SPDX-License-Identifier: Apache-2.0
// The first relation: from all ranks' gradients to their mean.
#include "conformance/judge/links_internal.h"

#include "base/err.h"
#include "conformance/cases/case_tokens.h"

#include <math.h>
#include <stdlib.h>

// The cost of one rounding to a format, in roundings of fp32; and half the format's smallest number.
static double cost_of(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? 0x1p16 : dtype == DTYPE_FP16 ? 0x1p13 : 1;
}

static double half_quantum_of(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? 0x1p-134 : dtype == DTYPE_FP16 ? 0x1p-25 : 0x1p-150;
}

static int model_operations(const struct check_case *c)
{
    bool divides = c->has_tokens || (c->world & (c->world - 1)) != 0 || (c->accumulation & (c->accumulation - 1)) != 0;
    return divides ? 2 : 0;
}

double links_gradient_limit(const struct check_case *c)
{
    // A running mean over micro-steps, a + (g - a) / k, rounds also where sums do not.
    if (c->exact)
        return c->accumulation > 1 && c->accumulation_dtype == DTYPE_FP32 && !c->has_tokens ? c->accumulation : 0;
    return (c->world + 2) * cost_of(c->communication_dtype) + c->accumulation * cost_of(c->accumulation_dtype) + 4 +
           model_operations(c) * cost_of(c->precision);
}

double links_gradient_floor(const struct check_case *c, double scale)
{
    if (c->exact)
        return 0;
    // A gradient that is divided before it is summed is rounded in the model's dtype also by a power of two.
    double lost = (c->world + 2) * half_quantum_of(c->communication_dtype) +
                  c->accumulation * half_quantum_of(c->accumulation_dtype) + 2 * half_quantum_of(c->precision);
    return lost / scale + 0x1p-126;
}

static int open_param(const struct check_case *c, const struct case_values *values, int step, float scale, int param,
                      struct exact_gradient *out)
{
    size_t count = c->params[param].count;
    double *value = out->value[param] = calloc(count + 1, sizeof *value);
    double *magnitude = out->magnitude[param] = calloc(count + 1, sizeof *magnitude);
    if (!value || !magnitude)
        return err_set(ERR_MEMORY, "no memory for the mean gradient of %s", c->params[param].name);
    for (int use = 0; use < c->param_count; use++)
        for (int micro = 0; micro < c->accumulation && case_owner(c, use) == param; micro++)
            for (int rank = 0; rank < c->world; rank++) {
                const float *gradient = case_gradient(values, step, micro, rank, use);
                for (size_t k = 0; gradient && k < count; k++) {
                    double x = (double)unsharded_round(c->precision, scale * gradient[k]);
                    value[k] += x;
                    magnitude[k] += fabs(x);
                }
            }
    double divisor = case_mean_count(c, step) * (double)scale;
    for (size_t k = 0; k < count; k++) {
        value[k] /= divisor;
        magnitude[k] /= divisor;
    }
    return ERR_NONE;
}

// In an exact case every rule has the same gradient, bit by bit.
static int take_canonical(const struct check_case *c, const struct case_values *values, int step, double scale,
                          struct exact_gradient *out)
{
    const struct rule rule = rule_canonical(c);
    const struct unsharded_choice choice = unsharded_choice_at(c, &rule, 0);
    float *gradient[CASE_PARAM_MAX] = {NULL};
    int rc = ERR_NONE;
    for (int i = 0; !rc && i < c->param_count; i++)
        if (out->value[i] && !(gradient[i] = calloc(c->params[i].count + 1, sizeof *gradient[i])))
            rc = err_set(ERR_MEMORY, "no memory for the mean gradient of %s", c->params[i].name);
    if (!rc)
        rc = unsharded_gradient(c, values, &rule, &choice, step, scale, gradient);
    for (int i = 0; i < c->param_count; i++) {
        for (size_t k = 0; !rc && out->value[i] && k < c->params[i].count; k++)
            out->value[i][k] = (double)gradient[i][k];
        free(gradient[i]);
    }
    return rc;
}

int exact_gradient_open(const struct check_case *c, const struct case_values *values, int step, double scale,
                        struct exact_gradient *out)
{
    *out = (struct exact_gradient){0};
    int rc = ERR_NONE;
    for (int i = 0; !rc && i < c->param_count; i++)
        if (case_is_trained(c, i) && case_has_gradient(c, i))
            rc = open_param(c, values, step, (float)scale, i, out);
    if (!rc && c->exact)
        rc = take_canonical(c, values, step, scale, out);
    if (rc)
        exact_gradient_close(out);
    return rc;
}

void exact_gradient_close(struct exact_gradient *exact)
{
    for (int i = 0; i < CASE_PARAM_MAX; i++) {
        free(exact->value[i]);
        free(exact->magnitude[i]);
    }
    *exact = (struct exact_gradient){0};
}

double link_roundings(double expected, double actual, double magnitude, double slack)
{
    if (!isfinite(expected) || !isfinite(actual))
        return isfinite(expected) == isfinite(actual) ? 0 : INFINITY;
    double error = fabs(actual - expected) - slack;
    return error <= 0 ? 0 : error / (0x1p-24 * magnitude);
}

void link_note(struct link_worst *worst, double roundings, int param, size_t element)
{
    if (worst->was_checked && !(roundings > worst->roundings))
        return;
    worst->was_checked = true;
    worst->roundings = roundings;
    worst->param = param;
    worst->element = element;
}

void links_gradient(const struct check_case *c, const struct exact_gradient *exact, double scale,
                    const float *const grad[], struct link_worst *out)
{
    double slack = links_gradient_floor(c, scale);
    out->limit = links_gradient_limit(c);
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; case_is_trained(c, i) && grad[i] && k < c->params[i].count; k++) {
            double expected = exact->value[i] ? exact->value[i][k] : 0;
            double magnitude = exact->magnitude[i] ? exact->magnitude[i][k] : 0;
            link_note(out, link_roundings(expected, (double)grad[i][k], magnitude, slack), i, k);
        }
}

static double root_of_squares(const struct check_case *c, double *const values[])
{
    double sum = 0;
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; values[i] && k < c->params[i].count; k++)
            sum += values[i][k] * values[i][k];
    return sqrt(sum);
}

double links_norm_of(const struct check_case *c, const struct exact_gradient *exact, const float *const grad[])
{
    return grad ? unsharded_norm(c, grad) : root_of_squares(c, exact->value);
}
