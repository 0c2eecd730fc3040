// SPDX-License-Identifier: Apache-2.0
// Where a series of medians changes.
#include "results/page/history.h"

#include "base/statistics.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

struct search {
    const double *values;
    struct change_point *found;
    size_t count;
};

static double median_of(const struct search *search, size_t begin, size_t end)
{
    return statistics_median(search->values + begin, end - begin);
}

// The sum of the distances from the median.
static double deviation(const struct search *search, size_t begin, size_t end)
{
    double median = median_of(search, begin, end), sum = 0;
    for (size_t i = begin; i < end; i++)
        sum += fabs(search->values[i] - median);
    return sum;
}

// Finds the place that leaves the least deviation on both sides together. False: it may be chance, or the change is too
// small.
static bool find_place(const struct search *search, size_t begin, size_t end, struct change_point *out)
{
    double least = INFINITY;
    out->at = begin + CHANGE_SIDE_LEAST;  // stays where every sum overflows
    for (size_t at = begin + CHANGE_SIDE_LEAST; at + CHANGE_SIDE_LEAST <= end; at++) {
        double left = deviation(search, begin, at) + deviation(search, at, end);
        out->at = left < least ? at : out->at;
        least = fmin(left, least);
    }
    double p = statistics_rank_test(search->values + begin, out->at - begin, search->values + out->at, end - out->at);
    double change = fabs(log(median_of(search, out->at, end) / median_of(search, begin, out->at)));
    out->p = p * (double)(end - begin - 2 * CHANGE_SIDE_LEAST + 1);
    return out->p < CHANGE_LEVEL && change >= log1p(CHANGE_LEAST);
}

static void divide(struct search *search, size_t begin, size_t end)
{
    struct change_point point = {0};
    if (end - begin < 2 * CHANGE_SIDE_LEAST || !find_place(search, begin, end, &point))
        return;
    divide(search, begin, point.at);
    if (search->count < CHANGE_MAX)
        search->found[search->count++] = point;
    divide(search, point.at, end);
}

size_t change_points_find(const double *values, size_t count, struct change_point out[CHANGE_MAX])
{
    assert(count <= STATISTICS_COUNT_MAX);
    struct search search = {.values = values, .found = out};
    divide(&search, 0, count);
    for (size_t i = 0; i < search.count; i++) {
        size_t begin = i > 0 ? out[i - 1].at : 0, end = i + 1 < search.count ? out[i + 1].at : count;
        out[i].before = median_of(&search, begin, out[i].at);
        out[i].after = median_of(&search, out[i].at, end);
    }
    return search.count;
}
