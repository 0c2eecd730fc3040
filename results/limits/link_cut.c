// SPDX-License-Identifier: Apache-2.0
#include "results/limits/link_cut.h"

#include "results/limits/outlier.h"

#include "base/statistics.h"

#include <assert.h>
#include <stdio.h>

// Equal times differ by less, as those of links do.
static const double SLOWED = 1 + OUTLIER_DEVIATIONS * OUTLIER_FLOOR;

// Puts the largest group that is left on the smaller side, until none is left.
static void choose_sides(const size_t *groups, size_t count, bool *second)
{
    size_t sizes[STATISTICS_COUNT_MAX] = {0}, on[2] = {0};
    for (size_t i = 0; i < count; i++)
        sizes[groups[i]]++;
    while (on[0] + on[1] < count) {
        size_t largest = 0;
        for (size_t group = 0; group < count; group++)
            largest = sizes[group] > sizes[largest] ? group : largest;
        bool side = on[1] < on[0];
        for (size_t i = 0; i < count; i++)
            second[i] = groups[i] == largest ? side : second[i];
        on[side] += sizes[largest];
        sizes[largest] = 0;
    }
}

void link_cut_choose(const size_t *groups, size_t host_count, struct link_cut *out)
{
    bool second[STATISTICS_COUNT_MAX] = {false}, one = true;
    size_t sides[2][STATISTICS_COUNT_MAX], found[2] = {0}, count;
    assert(host_count <= STATISTICS_COUNT_MAX);
    for (size_t i = 0; i < host_count; i++)
        one &= groups[i] == groups[0];
    if (!one)
        choose_sides(groups, host_count, second);
    for (size_t i = 0; i < host_count; i++) {
        size_t side = one ? i >= host_count / 2 : second[i];
        sides[side][found[side]++] = i;
    }
    count = found[0] < found[1] ? found[0] : found[1];
    out->count = count < LINK_CUT_PAIRS ? count : LINK_CUT_PAIRS;
    for (size_t i = 0; i < out->count; i++) {
        out->a[i] = sides[0][i * found[0] / out->count];
        out->b[i] = sides[1][i * found[1] / out->count];
    }
}

double link_cut_rate(const struct link_cut *cut)
{
    double together = 0, alone = 0;
    for (size_t i = 0; i < cut->count; i++) {
        together += 1 / cut->together[i];
        alone += 1 / cut->alone[i];
    }
    return (double)cut->count * together / alone;
}

size_t link_cut_texts(const struct link_cut *cut, const struct link_host *hosts, char (*texts)[LINK_TEXT_BYTES],
                      size_t most)
{
    double times[LINK_CUT_PAIRS], middle;
    size_t found = 0;
    for (size_t i = 0; i < cut->count; i++)
        times[i] = cut->together[i] / cut->alone[i];
    middle = statistics_median(times, cut->count);
    if (middle > SLOWED && found++ < most)
        snprintf(texts[0], LINK_TEXT_BYTES,
                 "SHARED   %zu pairs of hosts together, %.64s with %.64s and so on, have %.2f times the rate of "
                 "one alone, and each %.0f %% of its own: they share what is between",
                 cut->count, hosts[cut->a[0]].name, hosts[cut->b[0]].name, link_cut_rate(cut), 100 / middle);
    for (size_t i = 0; i < cut->count && cut->count > 2; i++)
        if (outlier_is(times, cut->count, i, &middle) && found++ < most)
            snprintf(texts[found - 1], LINK_TEXT_BYTES,
                     "COLLIDES the link between hosts %.64s (rank %d) and %.64s (rank %d) has %.0f %% of its own rate "
                     "while %zu pairs exchange together, most have %.0f %%: another one takes its way",
                     hosts[cut->a[i]].name, hosts[cut->a[i]].rank, hosts[cut->b[i]].name, hosts[cut->b[i]].rank,
                     100 / times[i], cut->count, 100 / middle);
    return found;
}
