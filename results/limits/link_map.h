// SPDX-License-Identifier: Apache-2.0
// The times of links between hosts, by pair, and which host is to blame for a slow one. A slow pair alone does not say
// which of its two members is slow; their links to third hosts do. A host is blamed if more than half of its links are
// slow, at least two, and links to hosts that are blamed already do not count. A slow link between two hosts that are
// both fast with others is the path's own, and where there are more of these than hosts, none is: hosts or the network
// were busy. Of two hosts alone neither can be blamed.
//
// The centre is the median of the hosts' typical times, each the time of a host's link in the middle, the faster one of
// two; a link is slow beyond the limit of results/limits/outlier.h around it. So almost half of the hosts
// may be slow. Where switches make groups of hosts, links between groups are compared with each other.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct link_map {
    size_t count;          // hosts
    double *times;         // [count][count], symmetric; NAN: not measured
    double centre, limit;  // after link_map_judge; NAN: nothing can be judged
    bool *blamed;          // [count]
    size_t *groups;        // [count]: the first host of a host's group; all 0: there is one
    double between;        // how many times as long a link between groups takes; 0: there is one group
};

// count: at most STATISTICS_COUNT_MAX. Nothing is measured yet. ERR_MEMORY. Close in every case.
int link_map_open(size_t count, struct link_map *out);
void link_map_close(struct link_map *map);

// Adds the time between two hosts, which each of them measured: the longer one counts.
void link_map_add(struct link_map *map, size_t a, size_t b, double time);

double link_map_time(const struct link_map *map, size_t a, size_t b);

// Sets groups and between, and divides the times between groups by the latter. Before link_map_judge. ERR_MEMORY.
int link_map_group(struct link_map *map);

// Sets centre, limit and blamed. Needs 3 hosts at least, else blames nobody.
void link_map_judge(struct link_map *map);

// A line for the groups, if there are several; for each blamed host; then for each slow link of which neither host is
// blamed, or one for all of these if they are more than hosts. hosts: [map->count]. Writes at most `most` lines and
// returns how many there are.
enum { LINK_TEXT_BYTES = 320 };
struct link_host {
    const char *name;
    int rank;
};
size_t link_map_texts(const struct link_map *map, const struct link_host *hosts, const char *lane,
                      char (*texts)[LINK_TEXT_BYTES], size_t most);

// The line for the groups: how many hosts each has, and its first host.
void link_groups_text(const struct link_map *map, const struct link_host *hosts, const char *lane,
                      char text[LINK_TEXT_BYTES]);
