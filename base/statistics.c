// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

void statistics_sort(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
}

double statistics_quantile(const double *values, size_t count, double q)
{
    assert(count <= STATISTICS_COUNT_MAX);
    double sorted[STATISTICS_COUNT_MAX];
    memcpy(sorted, values, count * sizeof sorted[0]);
    statistics_sort(sorted, count);
    return statistics_sorted_quantile(sorted, count, q);
}

double statistics_sorted_quantile(const double *sorted, size_t count, double q)
{
    assert(count > 0 && q >= 0 && q <= 1);
    // Linear interpolation between two neighbouring samples.
    double position = q * (double)(count - 1);
    size_t below = (size_t)position;
    size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (position - (double)below) * (sorted[above] - sorted[below]);
}

double statistics_median(const double *values, size_t count)
{
    return statistics_quantile(values, count, 0.5);
}

double statistics_mad(const double *values, size_t count)
{
    assert(count > 0 && count <= STATISTICS_COUNT_MAX);
    double distances[STATISTICS_COUNT_MAX], median = statistics_median(values, count);
    for (size_t i = 0; i < count; i++)
        distances[i] = fabs(values[i] - median);
    return statistics_median(distances, count);
}

struct ranked {
    double value;
    int of_a;
    int doubled_rank;  // twice the rank, which counts from 1, so that the mean of two ranks is whole
};

static int compare_ranked(const void *left, const void *right)
{
    return compare_doubles(&((const struct ranked *)left)->value, &((const struct ranked *)right)->value);
}

// Sorts the values and ranks them; equal values get the mean of their ranks. Returns the sum of t^3 - t over the groups
// of t equal values.
static double rank_all(struct ranked *all, size_t count)
{
    double ties = 0;
    qsort(all, count, sizeof *all, compare_ranked);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && all[end].value == all[first].value; end++)
            continue;
        for (size_t i = first; i < end; i++)
            all[i].doubled_rank = (int)(first + 1 + end);
        double t = (double)(end - first);
        ties += t * t * t - t;
    }
    return ties;
}

// The fraction of all choices of a_count ranks whose sum is at least as far from the mean as the observed one.
// ways[k][s] counts, as a double, the choices of k of the ranks so far with the doubled sum s.
static double exact(const struct ranked *all, size_t count, size_t a_count, int seen)
{
    enum { SUM_MAX = STATISTICS_EXACT_MAX * (STATISTICS_EXACT_MAX + 1) };
    double ways[STATISTICS_EXACT_MAX + 1][SUM_MAX + 1];  // half a megabyte
    memset(ways, 0, sizeof ways);
    ways[0][0] = 1;
    for (size_t i = 0; i < count; i++) {
        for (size_t taken = i + 1 < a_count ? i + 1 : a_count; taken > 0; taken--)
            for (int sum = SUM_MAX; sum >= all[i].doubled_rank; sum--)
                ways[taken][sum] += ways[taken - 1][sum - all[i].doubled_rank];
    }
    int mean = (int)(a_count * (count + 1));  // of doubled sums
    double total = 0, far = 0;
    for (int sum = 0; sum <= SUM_MAX; sum++) {
        total += ways[a_count][sum];
        if (abs(sum - mean) >= abs(seen - mean))
            far += ways[a_count][sum];
    }
    return far / total;
}

double statistics_rank_test(const double *a, size_t a_count, const double *b, size_t b_count)
{
    assert(a_count > 0 && a_count <= STATISTICS_COUNT_MAX && b_count > 0 && b_count <= STATISTICS_COUNT_MAX);
    struct ranked all[2 * STATISTICS_COUNT_MAX];
    size_t count = a_count + b_count;
    for (size_t i = 0; i < count; i++)
        all[i] = (struct ranked){.value = i < a_count ? a[i] : b[i - a_count], .of_a = i < a_count};
    double ties = rank_all(all, count), n = (double)count, product = (double)a_count * (double)b_count;
    int doubled_sum = 0;
    for (size_t i = 0; i < count; i++)
        doubled_sum += all[i].of_a * all[i].doubled_rank;
    if (count <= STATISTICS_EXACT_MAX)
        return exact(all, count, a_count, doubled_sum);
    double distance = fabs((double)doubled_sum - (double)a_count * (n + 1)) / 2 - 0.5;
    double variance = product / 12 * (n + 1 - ties / (n * (n - 1)));
    return distance <= 0 || variance <= 0 ? 1 : erfc(distance / sqrt(2 * variance));
}
