// SPDX-License-Identifier: Apache-2.0
// Proof that in exact cases nothing can round but the optimizer. In an element of a step, every sum of gradients that
// anybody can make is n units of its grid with |n| at most N, the sum of all magnitudes; so it is enough that N units
// fit in every dtype that sums are made in, and that for every n from 1 to N each permitted division of n units, and
// each pair of them, gives the quotient itself. Both are shown here by trying them all.
#include "conformance/cases/case_mesh.h"
#include "conformance/suite/suite.h"
#include "base/err.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static float round_to(enum dtype dtype, float x)
{
    if (dtype == DTYPE_BF16)
        return bf16_to_f32(f32_to_bf16(x));
    return dtype == DTYPE_FP16 ? fp16_to_f32(f32_to_fp16(x)) : x;
}

// x / divisor in dtype, in the ways that the field has: a division, and products with the reciprocal, rounded to the
// dtype or to fp32. A divisor is a whole number or FSDP's second factor, half of one.
enum { WAY_COUNT = 3 };
static float divide(enum dtype dtype, int way, float x, float divisor)
{
    if (way == 0)
        return round_to(dtype, x / divisor);
    return round_to(dtype, x * (way == 1 ? round_to(dtype, 1 / divisor) : 1 / divisor));
}

// FSDP's factors: the first divides before the sum, the second after it.
static void split(int world, float *first, float *second)
{
    int factor = 1;
    while (world % factor == 0 && world / factor > factor)
        factor *= 2;
    *first = (float)factor;
    *second = (float)world / (float)factor;
}

// Every n from 1 to count, or the powers of two among them: n x unit divided by each of two numbers, one by one,
// in all ways.
static bool divides(enum dtype dtype, int64_t count, bool powers, int unit, float first, float second)
{
    for (int64_t n = 1; n <= count; n = powers ? 2 * n : n + 1) {
        float x = (float)(n * unit);
        double once = (double)x / (double)first, twice = once / (double)second;
        for (int way = 0; way < WAY_COUNT; way++) {
            float y = divide(dtype, way, x, first);
            if ((double)y != once)
                return false;
            for (int other = 0; other < WAY_COUNT; other++)
                if ((double)divide(dtype, other, y, second) != twice)
                    return false;
        }
    }
    return true;
}

// A setting that is proven, so that it is enumerated only once, for the largest N.
struct proof {
    enum dtype dtype;
    int world, accumulation, unit;
    int64_t count;
};
static struct proof proofs[4096];
static size_t proof_count;

static void prove(const struct check_case *c, enum dtype dtype, int64_t count)
{
    struct proof *proof = proofs;
    struct proof wanted = {dtype, c->world, c->accumulation, c->data.unit, count};
    while (proof < proofs + proof_count && !(proof->dtype == dtype && proof->world == wanted.world &&
                                             proof->accumulation == wanted.accumulation && proof->unit == wanted.unit))
        proof++;
    if (proof < proofs + proof_count && proof->count >= count)
        return;
    float first, second, world = (float)c->world, accumulation = (float)c->accumulation;
    split(c->world, &first, &second);
    bool powers = c->data.paired;
    int unit = c->data.unit;
    cr_assert(divides(dtype, count, powers, unit, world, accumulation), "%s: by ranks, then micro-steps", c->name);
    cr_assert(divides(dtype, count, powers, unit, accumulation, world), "%s: by micro-steps, then ranks", c->name);
    cr_assert(divides(dtype, count, powers, unit, first, second), "%s: by FSDP's factors", c->name);
    for (int64_t n = 1; n <= count; n = powers ? 2 * n : n + 1) {
        float x = (float)(n * unit);
        cr_assert_eq((double)divide(dtype, 0, x, world * accumulation), (double)x / (double)(world * accumulation),
                     "%s: in one division", c->name);
    }
    proof_count += proof == proofs + proof_count;
    cr_assert_lt(proof_count, sizeof proofs / sizeof *proofs);
    *proof = wanted;
}

static int significant_bits(enum dtype dtype)
{
    return dtype == DTYPE_FP32 ? 24 : dtype == DTYPE_BF16 ? 8 : 11;
}

// Of an element of a parameter, all uses together: the sum of the magnitudes, which an overflow makes infinite or NaN,
// and the lowest place that a finite one has in use.
struct element_sum {
    double magnitude;
    int low;
};

static int lowest_place(float x)
{
    int exponent;
    double significand = ldexp(frexp((double)x, &exponent), 24);
    int64_t integer = (int64_t)significand;
    return exponent - 24 + __builtin_ctzll((unsigned long long)llabs(integer));
}

static struct element_sum sum_of(const struct check_case *c, const struct case_values *values, int step, int param,
                                 size_t element)
{
    struct element_sum sum = {0, 1000};
    for (int micro = 0; micro < c->accumulation; micro++)
        for (int rank = 0; rank < c->world; rank++)
            for (int i = 0; i < c->param_count; i++) {
                const float *gradient = case_gradient(values, step, micro, rank, i);
                if (case_owner(c, i) != param || !gradient || gradient[element] == 0)
                    continue;
                if (isfinite(gradient[element])) {
                    int low = lowest_place(gradient[element]);
                    sum.low = low < sum.low ? low : sum.low;
                }
                // Of a partial gradient one tensor rank has twice the gradient, and the next its negative: a sum has
                // one of these two, both, or none. So it is with ranks that divide sequences among them.
                int shares = (c->params[i].placement.part == PART_PARTIAL ? 2 : 1) * (c->sequence > 1 ? 2 : 1);
                sum.magnitude += shares * fabs((double)gradient[element]);
            }
    return sum;
}

static int log2_of(int value)
{
    int places = 0;
    while (value % 2 == 0) {
        value /= 2;
        places++;
    }
    return places;
}

// The range: nothing overflows, and no bit falls off at the lower end, with the loss scales that can occur.
static void expect_range(const struct check_case *c, enum dtype dtype, const struct element_sum *sum)
{
    double low = 1, high = 1;
    if (c->loss_scale.kind != SCALE_NONE)
        low = high = c->loss_scale.scale;
    if (c->loss_scale.kind == SCALE_DYNAMIC) {
        low /= 16;
        high *= c->loss_scale.window < (uint64_t)c->steps ? 8 : 1;
    }
    double largest = dtype == DTYPE_FP16 ? 65504 : 3.38953139e38;
    int smallest = dtype == DTYPE_FP16 ? -24 : dtype == DTYPE_BF16 ? -133 : -149;
    int places = log2_of(c->world) + log2_of(c->accumulation);
    cr_assert_leq(sum->magnitude * fmax(high, 1), largest, "%s: %g x %g in %s", c->name, sum->magnitude, high,
                  dtype_name(dtype));
    cr_assert_geq(sum->low + ilogb(fmin(low, 1)) - places, smallest, "%s: 2^%d in %s", c->name, sum->low,
                  dtype_name(dtype));
}

// That the gradients of an element, and their sum over the ranks, are a unit's powers of two, where only those are
// proven; micro-steps and uses there are none of.
static void expect_powers(const struct check_case *c, const struct case_values *values, int step, int param,
                          size_t element)
{
    double sum = 0;
    int exponent;
    cr_assert_eq(c->accumulation, 1, "%s", c->name);
    for (int rank = 0; rank < c->world; rank++) {
        float gradient = case_gradient(values, step, 0, rank, param)[element];
        cr_assert(gradient == 0 || fabs(frexp((double)gradient / c->data.unit, &exponent)) == 0.5, "%s", c->name);
        sum += (double)gradient;
    }
    cr_assert(sum == 0 || fabs(frexp(sum / c->data.unit, &exponent)) == 0.5, "%s: the sum", c->name);
    for (int i = 0; i < c->param_count; i++)
        cr_assert_eq(c->params[i].tied_to, -1, "%s", c->name);
}

// The largest N of any element, in the dtypes in which sums are made.
static void prove_case(const struct check_case *c, const struct case_values *values)
{
    // Sums that are fp32 by both settings may be too long for the precision.
    bool wide = c->communication_dtype == DTYPE_FP32 && c->accumulation_dtype == DTYPE_FP32 && c->data.same_mean;
    const enum dtype dtypes[] = {c->communication_dtype, c->accumulation_dtype, DTYPE_FP32,
                                 c->data.lead || wide ? DTYPE_FP32 : c->precision};
    int64_t most = 0;
    for (int step = 1; step <= c->steps; step++)
        for (int i = 0; i < c->param_count; i++)
            for (size_t e = 0; case_is_trained(c, i) && e < c->params[i].count; e++) {
                struct element_sum sum = sum_of(c, values, step, i, e);
                if (!isfinite(sum.magnitude) || sum.magnitude == 0)
                    continue;
                bool poked = false;
                for (int k = 0; k < c->data.poke_count; k++)
                    poked |= c->data.pokes[k].step == step && c->data.pokes[k].element == e &&
                             case_owner(c, c->data.pokes[k].param) == i;
                if (poked)
                    continue;
                if (c->data.paired)
                    expect_powers(c, values, step, i, e);
                // Of the grid's unit all are multiples, so N is the magnitude in units of it.
                double units = ldexp(sum.magnitude, -sum.low);
                for (int k = 0; k < 4; k++) {
                    cr_assert_leq(units, (double)(1 << significant_bits(dtypes[k])), "%s: %g in %s", c->name, units,
                                  dtype_name(dtypes[k]));
                    expect_range(c, dtypes[k], &sum);
                }
                double count = units / c->data.unit;
                cr_assert_eq(count, floor(count), "%s: not a multiple of the unit", c->name);
                most = (int64_t)count > most ? (int64_t)count : most;
            }
    for (int k = 0; k < 4; k++)
        prove(c, dtypes[k], most);
}

struct seen {
    size_t exact, all;
};

static int visit(void *context, const struct check_case *c)
{
    struct seen *seen = context;
    struct case_values *values;
    seen->all++;
    if (!c->exact || c->data.family != FAMILY_EXACT || c->expects_refusal)
        return ERR_NONE;
    seen->exact++;
    struct check_case logical;
    case_logical(c, &logical);
    logical.sequence = c->sequence;
    TRY(case_values_open(c, &values));
    prove_case(&logical, values);
    case_values_close(values);
    return ERR_NONE;
}

Test(suite_exact, in_quick_cases_no_permitted_sum_or_division_rounds)
{
    struct seen seen = {0};
    cr_assert_eq(suite_cases(&(struct suite_choice){.level = LEVEL_QUICK}, visit, &seen), ERR_NONE, "%s",
                 err_message());
    cr_assert_gt(seen.exact, seen.all / 2);
}

Test(suite_exact, in_full_cases_no_permitted_sum_or_division_rounds_long)
{
    struct seen seen = {0};
    cr_assert_eq(suite_cases(&(struct suite_choice){.level = LEVEL_FULL}, visit, &seen), ERR_NONE, "%s", err_message());
    cr_assert_gt(seen.exact, seen.all / 2);
}

Test(suite_exact, a_unit_that_does_not_serve_the_world_is_found)
{
    cr_assert(divides(DTYPE_FP32, 1000, false, 3, 3, 1));
    cr_assert_not(divides(DTYPE_FP32, 1000, false, 1, 3, 1));
    cr_assert_not(divides(DTYPE_BF16, 128, false, 3, 3, 3));
    cr_assert_not(divides(DTYPE_FP32, 1000, false, 5, 7, 1));
    cr_assert_not(divides(DTYPE_FP32, 1000, false, 7, 7, 1), "3 x 7 times the reciprocal of 7 is not 3");
    cr_assert(divides(DTYPE_FP32, 1000, true, 7, 7, 1));
}
