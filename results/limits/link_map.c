// SPDX-License-Identifier: Apache-2.0
#include "results/limits/link_map.h"

#include "results/limits/outlier.h"

#include "base/err.h"
#include "base/statistics.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int link_map_open(size_t count, struct link_map *out)
{
    assert(count > 0 && count <= STATISTICS_COUNT_MAX);
    *out = (struct link_map){.count = count, .centre = NAN, .limit = NAN};
    out->times = malloc(count * count * sizeof *out->times);
    out->blamed = calloc(count, sizeof *out->blamed);
    out->groups = calloc(count, sizeof *out->groups);
    if (!out->times || !out->blamed || !out->groups)
        return err_set(ERR_MEMORY, "no memory for the links between %zu hosts", count);
    for (size_t i = 0; i < count * count; i++)
        out->times[i] = NAN;
    return ERR_NONE;
}

void link_map_close(struct link_map *map)
{
    free(map->times);
    free(map->blamed);
    free(map->groups);
    *map = (struct link_map){0};
}

void link_map_add(struct link_map *map, size_t a, size_t b, double time)
{
    assert(a < map->count && b < map->count && a != b);
    double *there = &map->times[a * map->count + b], *back = &map->times[b * map->count + a];
    *there = *back = fmax(*there, time);
}

double link_map_time(const struct link_map *map, size_t a, size_t b)
{
    assert(a < map->count && b < map->count);
    return map->times[a * map->count + b];
}

// The time of a host's link in the middle, the faster one of two; NAN: it has none.
static double typical_time(const struct link_map *map, size_t host)
{
    double times[STATISTICS_COUNT_MAX];
    size_t found = 0;
    for (size_t other = 0; other < map->count; other++)
        if (!isnan(link_map_time(map, host, other)))
            times[found++] = link_map_time(map, host, other);
    if (found < 2)
        return found == 1 ? times[0] : NAN;
    return statistics_quantile(times, found, (double)((found - 1) / 2) / (double)(found - 1));
}

static bool is_slow(const struct link_map *map, size_t a, size_t b)
{
    return link_map_time(map, a, b) > map->limit;
}

// Links to blamed hosts are left out if `others` is true.
static size_t count_links(const struct link_map *map, size_t host, bool others, size_t *slow)
{
    size_t links = 0;
    *slow = 0;
    for (size_t other = 0; other < map->count; other++) {
        if (isnan(link_map_time(map, host, other)) || (others && map->blamed[other]))
            continue;
        links++;
        *slow += is_slow(map, host, other);
    }
    return links;
}

// The host with the largest share of slow links, if that is more than half of two or more; `count`: there is none.
static size_t worst_host(const struct link_map *map)
{
    size_t worst = map->count;
    double most = 0.5;
    for (size_t host = 0; host < map->count; host++) {
        size_t slow, links = count_links(map, host, true, &slow);
        double share = links < 2 || map->blamed[host] ? 0 : (double)slow / (double)links;
        if (share > most) {
            most = share;
            worst = host;
        }
    }
    return worst;
}

void link_map_judge(struct link_map *map)
{
    double typical[STATISTICS_COUNT_MAX];
    size_t hosts = 0;
    map->centre = map->limit = NAN;
    for (size_t host = 0; host < map->count; host++) {
        double time = typical_time(map, host);
        map->blamed[host] = false;
        if (!isnan(time))
            typical[hosts++] = time;
    }
    if (hosts < 3)
        return;
    map->limit = outlier_limit(typical, hosts, &map->centre);
    for (size_t worst = worst_host(map); worst < map->count; worst = worst_host(map))
        map->blamed[worst] = true;
}

static void blame_text(const struct link_map *map, const struct link_host *hosts, const char *lane, size_t host,
                       char text[LINK_TEXT_BYTES])
{
    size_t slow, links = count_links(map, host, false, &slow);
    snprintf(
        text, LINK_TEXT_BYTES,
        "OUTLIER  the link of host %.64s (rank %d) takes %.2f times as long as the median in the lane %.32s: %zu of "
        "its %zu links are slow",
        hosts[host].name, hosts[host].rank, typical_time(map, host) / map->centre, lane, slow, links);
}

static void path_text(const struct link_map *map, const struct link_host *hosts, const char *lane, size_t a, size_t b,
                      char text[LINK_TEXT_BYTES])
{
    snprintf(
        text, LINK_TEXT_BYTES,
        "SLOW     the link between hosts %.64s (rank %d) and %.64s (rank %d) takes %.2f times as long as the median "
        "in the lane %.32s; most links of both are fast",
        hosts[a].name, hosts[a].rank, hosts[b].name, hosts[b].rank, link_map_time(map, a, b) / map->centre, lane);
}

static bool is_own_path(const struct link_map *map, size_t a, size_t b)
{
    return is_slow(map, a, b) && !map->blamed[a] && !map->blamed[b];
}

static void busy_text(const struct link_map *map, size_t slow, const char *lane, char text[LINK_TEXT_BYTES])
{
    size_t links = 0;
    for (size_t i = 0; i < map->count * map->count; i++)
        links += isnan(map->times[i]) ? 0 : 1;
    snprintf(text, LINK_TEXT_BYTES,
             "NOISE    %zu of %zu links take more than %.2f times as long as the median in the lane %.32s, and have no "
             "host in common: hosts or the network were busy; repeat it when they are idle",
             slow, links / 2, map->limit / map->centre, lane);
}

size_t link_map_texts(const struct link_map *map, const struct link_host *hosts, const char *lane,
                      char (*texts)[LINK_TEXT_BYTES], size_t most)
{
    size_t count = 0, paths = 0;
    if (map->between > 0 && count++ < most)
        link_groups_text(map, hosts, lane, texts[count - 1]);
    for (size_t host = 0; host < map->count; host++)
        if (map->blamed[host] && count++ < most)
            blame_text(map, hosts, lane, host, texts[count - 1]);
    for (size_t a = 0; a < map->count; a++)
        for (size_t b = a + 1; b < map->count; b++)
            paths += is_own_path(map, a, b);
    if (paths > map->count && count++ < most)
        busy_text(map, paths, lane, texts[count - 1]);
    for (size_t a = 0; paths <= map->count && a < map->count; a++)
        for (size_t b = a + 1; b < map->count; b++)
            if (is_own_path(map, a, b) && count++ < most)
                path_text(map, hosts, lane, a, b, texts[count - 1]);
    return count;
}
