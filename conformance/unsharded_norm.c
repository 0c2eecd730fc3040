// SPDX-License-Identifier: Apache-2.0
// The norm of gradients without any rounding but the last, and the clip coefficient in all its forms.
#include "unsharded.h"

#include <math.h>

// A sum of squares of fp32 numbers, as an integer in units of 2^-298, the square of the smallest: 32 bits a limb, with
// room above them for the carries of 2^32 additions.
enum { LIMB_COUNT = 20, UNIT_EXPONENT = -298 };

struct square_sum {
    uint64_t limbs[LIMB_COUNT];
};

static void add_square(struct square_sum *sum, float x)
{
    int exponent;
    uint64_t whole = (uint64_t)(frexp(fabs((double)x), &exponent) * 0x1p24);
    if (whole == 0)
        return;
    // x = whole x 2^(exponent - 24); a subnormal has zeros at the end, which are taken off.
    for (exponent -= 24; exponent < UNIT_EXPONENT / 2; exponent++)
        whole >>= 1;
    int shift = 2 * exponent - UNIT_EXPONENT;
    unsigned __int128 square = (unsigned __int128)(whole * whole) << shift % 32;
    for (int i = shift / 32; square; i++, square >>= 32)
        sum->limbs[i] += (uint32_t)square;
}

// The root of N x 2^exponent, exponent even, N < 2^126, with something between 0 and 1 to be added to N if `more`.
static double root_of(unsigned __int128 number, int exponent, bool more)
{
    uint64_t root = (uint64_t)sqrtl((long double)number);
    while ((unsigned __int128)root * root > number)
        root--;
    while ((unsigned __int128)(root + 1) * (root + 1) <= number)
        root++;
    more = more || (unsigned __int128)root * root != number;
    // A last bit that says whether anything is beyond it makes the conversion's rounding the only one.
    return ldexp((double)(root << 1 | more), exponent / 2 - 1);
}

// 0 beyond either end.
static unsigned bit_of(const struct square_sum *sum, int bit)
{
    return bit < 0 || bit >= 32 * LIMB_COUNT ? 0 : (unsigned)(sum->limbs[bit / 32] >> bit % 32) & 1;
}

static double root_of_sum(struct square_sum *sum)
{
    uint64_t any = 0;
    for (int i = 0; i < LIMB_COUNT; i++) {
        if (i + 1 < LIMB_COUNT)
            sum->limbs[i + 1] += sum->limbs[i] >> 32;
        sum->limbs[i] &= 0xffffffff;
        any |= sum->limbs[i];
    }
    if (!any)
        return 0;
    // The 125 or 126 highest bits, so that what is left out begins at an even power of two.
    unsigned __int128 number = 0;
    int bit = 32 * LIMB_COUNT;
    while (number >> 124 == 0 || bit % 2)
        number = number << 1 | bit_of(sum, --bit);
    bool more = false;
    for (int i = 0; i < bit; i++)
        more = more || bit_of(sum, i);
    return root_of(number, UNIT_EXPONENT + bit, more);
}

double unsharded_norm(const struct check_case *c, const float *const gradients[CASE_PARAM_MAX])
{
    struct square_sum sum = {0};
    bool infinite = false;
    for (int i = 0; i < c->param_count; i++)
        for (size_t k = 0; gradients[i] && case_is_trained(c, i) && k < c->params[i].count; k++) {
            if (isnan(gradients[i][k]))
                return NAN;
            if (isinf(gradients[i][k]))
                infinite = true;
            else
                add_square(&sum, gradients[i][k]);
        }
    return infinite ? INFINITY : root_of_sum(&sum);
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
