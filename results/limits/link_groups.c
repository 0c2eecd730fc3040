// SPDX-License-Identifier: Apache-2.0
// Groups of hosts by the times of their links, as hosts behind one switch are: within a group every link is faster than
// every link between two groups.
#include "results/limits/link_map.h"

#include "base/err.h"
#include "base/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Times of two kinds of links differ by more than this factor, and links of one kind by less.
static const double GAP = 1.35;

static double time_of(const struct link_map *map, size_t a, size_t b)
{
    return map->times[a * map->count + b];
}

// The times of all pairs that were measured, ascending. Returns how many there are.
static size_t sorted_times(const struct link_map *map, double *out)
{
    size_t found = 0;
    for (size_t a = 0; a < map->count; a++)
        for (size_t b = a + 1; b < map->count; b++)
            if (!isnan(time_of(map, a, b)))
                out[found++] = time_of(map, a, b);
    statistics_sort(out, found);
    return found;
}

static size_t root_of(size_t *groups, size_t host)
{
    while (groups[host] != host)
        host = groups[host] = groups[groups[host]];
    return host;
}

// Numbers the groups that links up to `most` join, each by its first host. Returns whether there are two or more,
// each of two hosts or more, and all links within them are that fast.
static bool join_below(const struct link_map *map, double most, size_t *groups)
{
    size_t sizes[STATISTICS_COUNT_MAX] = {0}, found = 0;
    for (size_t host = 0; host < map->count; host++)
        groups[host] = host;
    for (size_t a = 0; a < map->count; a++)
        for (size_t b = a + 1; b < map->count; b++)
            if (time_of(map, a, b) <= most) {
                size_t x = root_of(groups, a), y = root_of(groups, b);
                groups[x > y ? x : y] = x > y ? y : x;
            }
    for (size_t host = 0; host < map->count; host++)
        sizes[groups[host] = root_of(groups, host)]++;
    for (size_t host = 0; host < map->count; host++) {
        found += sizes[host] > 0;
        if (sizes[host] == 1)
            return false;
    }
    for (size_t a = 0; a < map->count; a++)
        for (size_t b = a + 1; b < map->count; b++)
            if (groups[a] == groups[b] && time_of(map, a, b) > most)
                return false;
    return found > 1;
}

// Divides the times between groups by how much longer they are in the middle.
static void scale(struct link_map *map, const double *times, size_t count, size_t within)
{
    map->between = times[(within + count) / 2] / times[within / 2];
    for (size_t a = 0; a < map->count; a++)
        for (size_t b = 0; b < map->count; b++)
            if (map->groups[a] != map->groups[b])
                map->times[a * map->count + b] /= map->between;
}

int link_map_group(struct link_map *map)
{
    double *times = malloc((map->count * map->count + 1) * sizeof *times);
    if (!times)
        return err_set(ERR_MEMORY, "no memory for the links between %zu hosts", map->count);
    // Groups of two hosts or more have half as many links as there are hosts, or more, and as many between them.
    size_t count = sorted_times(map, times), widest = 0, least = (map->count + 1) / 2;
    for (size_t i = least > 1 ? least : 1; i + least <= count; i++)
        if (widest == 0 || times[i] / times[i - 1] > times[widest] / times[widest - 1])
            widest = i;
    bool parted =
        widest > 0 && times[widest] > GAP * times[widest - 1] && join_below(map, times[widest - 1], map->groups);
    if (parted)
        scale(map, times, count, widest);
    else
        for (size_t host = 0; host < map->count; host++)
            map->groups[host] = 0;
    free(times);
    return ERR_NONE;
}

void link_groups_text(const struct link_map *map, const struct link_host *hosts, const char *lane,
                      char text[LINK_TEXT_BYTES])
{
    size_t sizes[STATISTICS_COUNT_MAX] = {0}, count = 0, used;
    for (size_t host = 0; host < map->count; host++)
        count += sizes[map->groups[host]]++ == 0;
    used = (size_t)snprintf(text, LINK_TEXT_BYTES,
                            "GROUPS   %zu groups of hosts in the lane %.32s, between which a link takes %.2f times as "
                            "long:",
                            count, lane, map->between);
    for (size_t host = 0; host < map->count && used < LINK_TEXT_BYTES; host++)
        if (sizes[host] > 0)
            used += (size_t)snprintf(text + used, LINK_TEXT_BYTES - used, "%s %zu from %.64s on", host > 0 ? "," : "",
                                     sizes[host], hosts[host].name);
}
