// SPDX-License-Identifier: Apache-2.0
// Statistics against values computed by hand, against an enumeration of all divisions, and against tables.
#include "base/statistics.h"

#include <criterion/criterion.h>

#include <math.h>

static void expect_near(double actual, double expected, double relative)
{
    cr_expect(fabs(actual - expected) <= relative * fabs(expected), "%.17g, expected %.17g", actual, expected);
}

Test(statistics, quantiles_interpolate_between_the_sorted_values)
{
    const double one[] = {7}, five[] = {50, 10, 40, 20, 30}, four[] = {4, 1, 3, 2};
    expect_near(statistics_quantile(one, 1, 0.1), 7, 0);
    expect_near(statistics_median(five, 5), 30, 0);
    expect_near(statistics_quantile(five, 5, 0.1), 14, 1e-15);
    expect_near(statistics_quantile(five, 5, 0.9), 46, 1e-15);
    expect_near(statistics_quantile(five, 5, 0), 10, 0);
    expect_near(statistics_quantile(five, 5, 1), 50, 0);
    expect_near(statistics_median(four, 4), 2.5, 0);
    cr_expect_eq(five[0], 50);
}

Test(statistics, the_mad_ignores_an_outlier)
{
    const double one[] = {7}, samples[] = {1, 2, 3, 4, 1000};
    cr_expect_eq(statistics_mad(one, 1), 0);
    expect_near(statistics_mad(samples, 5), 1, 0);
}

// Pairs in which the value of the set is larger; half for equal ones.
static double pairs(const double *values, size_t count, unsigned set)
{
    double u = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (set >> i & 1 && !(set >> j & 1))
                u += values[i] > values[j] ? 1 : values[i] == values[j] ? 0.5 : 0;
    return u;
}

// The fraction of all divisions of the values with ranks at least as far apart, by enumeration; a_count + b_count is
// small.
static double by_trying(const double *a, size_t a_count, const double *b, size_t b_count)
{
    double values[16], mean = (double)(a_count * b_count) / 2;
    size_t count = a_count + b_count, far = 0, total = 0;
    for (size_t i = 0; i < count; i++)
        values[i] = i < a_count ? a[i] : b[i - a_count];
    double seen = pairs(values, count, (1u << a_count) - 1);
    for (unsigned set = 0; set < 1u << count; set++) {
        if ((size_t)__builtin_popcount(set) != a_count)
            continue;
        total++;
        far += fabs(pairs(values, count, set) - mean) >= fabs(seen - mean);
    }
    return (double)far / (double)total;
}

Test(statistics, the_rank_test_equals_the_enumeration_of_all_divisions)
{
    unsigned state = 1;
    for (int trial = 0; trial < 60; trial++) {
        double a[7], b[7];
        size_t a_count = 1 + (size_t)trial % 5, b_count = 1 + (size_t)trial % 7;
        for (size_t i = 0; i < 7; i++) {
            state = state * 1664525u + 1013904223u;
            a[i] = (double)(state >> 24 & 7);  // from few values, so that there are ties
            state = state * 1664525u + 1013904223u;
            b[i] = (double)(state >> 24 & 7) + trial % 3;
        }
        expect_near(statistics_rank_test(a, a_count, b, b_count), by_trying(a, a_count, b, b_count), 1e-12);
    }
}

Test(statistics, the_rank_test_matches_the_tables)
{
    // Two sets of five without overlap: 2 of the 252 divisions are as extreme.
    const double low[] = {1, 2, 3, 4, 5}, high[] = {6, 7, 8, 9, 10}, mixed[] = {1, 3, 5, 7, 9};
    expect_near(statistics_rank_test(low, 5, high, 5), 2.0 / 252, 1e-12);
    expect_near(statistics_rank_test(high, 5, low, 5), 2.0 / 252, 1e-12);
    cr_expect_eq(statistics_rank_test(mixed, 5, mixed, 5), 1);
    // One against 19: the most extreme rank has one place at each end of 20.
    double many[19];
    for (int i = 0; i < 19; i++)
        many[i] = i;
    expect_near(statistics_rank_test((const double[]){100}, 1, many, 19), 0.1, 1e-12);
}

// For 31 and 31 values the test uses the approximation; the expected values come from exact counts with big integers.
// In the tails the approximation exceeds the exact value: it errs towards "within noise".
Test(statistics, the_approximation_is_close_to_the_exact_count)
{
    static const struct {
        double shift, exact;
    } values[] = {{8.5, 0.00112217}, {6.5, 0.0105698}, {7, 0.00618488}};
    for (size_t k = 0; k < 3; k++) {
        double a[31], b[31];
        for (int i = 0; i < 31; i++) {
            a[i] = i * 37 % 31;
            b[i] = i * 17 % 31 + values[k].shift;
        }
        expect_near(statistics_rank_test(a, 31, b, 31), values[k].exact, 0.3);
        expect_near(statistics_rank_test(b, 31, a, 31), values[k].exact, 0.3);
    }
    double equal[40] = {0};
    cr_expect_eq(statistics_rank_test(equal, 40, equal, 40), 1);
}
