// SPDX-License-Identifier: Apache-2.0
// What ranks send to NCCL is exact in every order: whichever terms are added or multiplied first, the result is a
// number of the type. Only ci/standin/run and tests on GPUs send any.
#include "bench/comm/nccl_rows.h"

#include <criterion/criterion.h>
#include <math.h>

enum { INDEXES = 300 };

// Digits behind the leading one, and bias; of integers none, and the bits behind their sign.
static const struct {
    int digits, bias, bits;
    bool is_signed;
} forms[NCCL_TYPE_COUNT] = {{0, 0, 7, true},      {0, 0, 8, false},   {0, 0, 31, true},   {0, 0, 32, false},
                            {0, 0, 63, true},     {0, 0, 64, false},  {10, 15, 16, true}, {23, 127, 32, true},
                            {52, 1023, 64, true}, {7, 127, 16, true}, {3, 7, 8, true},    {2, 15, 8, true}};

static long double number_of(int type, uint64_t bits)
{
    int width = 8 * (int)nccl_type_bytes(type), digits = forms[type].digits;
    bool negative = forms[type].is_signed && bits >> (width - 1) & 1;
    if (digits == 0)
        return negative ? (long double)bits - ldexpl(1, width) : (long double)bits;
    uint64_t rest = bits & (((uint64_t)1 << digits) - 1), size = bits & (~(uint64_t)0 >> (65 - width));
    int power = (int)(size >> digits);
    long double number = power > 0
                             ? ldexpl((long double)(((uint64_t)1 << digits) + rest), power - forms[type].bias - digits)
                             : ldexpl((long double)rest, 1 - forms[type].bias - digits);
    return negative ? -number : number;
}

static bool is_number(int type, long double number)
{
    int power, digits = forms[type].digits;
    long double fraction = frexpl(number, &power);
    if (digits == 0)
        return number == floorl(number) && number < ldexpl(1, forms[type].bits) &&
               number >= (forms[type].is_signed ? -ldexpl(1, forms[type].bits) : 0);
    // Numbers with fewer digits, of the smallest exponent, are not asked for.
    fraction = ldexpl(fraction, digits + 1);
    return number == 0 ||
           (fraction == floorl(fraction) && power - 1 <= forms[type].bias && power > 1 - forms[type].bias);
}

static long double of_two(int reduction, long double one, long double other)
{
    return reduction == NCCL_PROD  ? one * other
           : reduction == NCCL_MIN ? fminl(one, other)
           : reduction == NCCL_MAX ? fmaxl(one, other)
                                   : one + other;
}

// Reduces from a rank on, around all.
static void expect_exact(const struct nccl_call *call, int world, size_t index, int first, bool by_products)
{
    const char *name = nccl_type_name(call->type), *by = nccl_reduction_name(call->reduction);
    long double total = 0;
    for (int i = 0; i < world; i++) {
        long double term = number_of(call->type, nccl_sent(call, world, (first + i) % world, index));
        term = by_products ? term / world : term;
        total = i == 0 ? term : of_two(call->reduction, total, term);
        cr_assert(is_number(call->type, total) && is_number(call->type, term), "%s, %s, %d ranks: %Lg of %Lg", name, by,
                  world, total, term);
    }
    total = call->reduction == NCCL_AVG && !by_products ? total / world : total;
    long double expected = number_of(call->type, nccl_expected(call, world, first, index));
    cr_assert(total == expected, "%s, %s, %d ranks, element %zu: %Lg, not %Lg", name, by, world, index, total,
              expected);
}

Test(nccl_values, every_reduction_of_every_type_is_exact_in_every_order)
{
    static const int worlds[] = {1, 2, 3, 4, 7, 8, 16, 72};
    for (int type = 0; type < NCCL_TYPE_COUNT; type++)
        for (int reduction = 0; reduction < NCCL_REDUCTION_COUNT; reduction++)
            for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
                const struct nccl_call call = {ALL_REDUCE, type, reduction, .count = INDEXES};
                int world = worlds[w], distinct = 0;
                if (!nccl_is_exact(ALL_REDUCE, type, reduction, world))
                    continue;
                for (size_t i = 0; i < INDEXES; i++) {
                    for (int first = 0; first < world; first++)
                        expect_exact(&call, world, i, first, reduction == NCCL_AVG && forms[type].digits > 0);
                    distinct += i > 0 && nccl_expected(&call, world, 0, i) != nccl_expected(&call, world, 0, i - 1);
                }
                cr_expect_gt(distinct, INDEXES / 8, "%s, %s, %d ranks", nccl_type_name(type),
                             nccl_reduction_name(reduction), world);
            }
}

Test(nccl_values, averages_that_round_are_left_out)
{
    cr_expect(nccl_is_exact(ALL_REDUCE, 7, NCCL_AVG, 8));
    cr_expect(nccl_is_exact(ALL_GATHER, 7, NCCL_AVG, 3));
    cr_expect(nccl_is_exact(NCCL_REDUCE, 0, NCCL_AVG, 127));
    cr_expect_not(nccl_is_exact(NCCL_REDUCE, 0, NCCL_AVG, 128), "int8 has no 128");
    cr_expect_not(nccl_is_exact(REDUCE_SCATTER, 7, NCCL_AVG, 3));
    cr_expect_not(nccl_is_exact(REDUCE_SCATTER, NCCL_E4M3, NCCL_AVG, 256), "a term would be none of fp8e4m3");
}
