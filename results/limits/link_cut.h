// SPDX-License-Identifier: Apache-2.0
// Pairs of hosts across a cut of the network, each pair alone and all together: what they share between them, as an
// uplink of a switch or one of several ways that hashes choose, is as slow as the pairs are many. The sides of the cut
// are groups of hosts as wholes, which links told apart (results/limits/link_map.h); hosts of one group are halved in
// their order, in which launchers keep hosts of a rack together.
#pragma once

#include "results/limits/link_map.h"

enum { LINK_CUT_PAIRS = 128 };

struct link_cut {
    size_t count;  // pairs; 0: a side has no host
    size_t a[LINK_CUT_PAIRS], b[LINK_CUT_PAIRS];
    double alone[LINK_CUT_PAIRS], together[LINK_CUT_PAIRS];  // times of an exchange
};

// Sets count, a and b: as many pairs as the smaller side has hosts, of more than LINK_CUT_PAIRS some of all its parts.
// groups: [host_count], as in a link map.
void link_cut_choose(const size_t *groups, size_t host_count, struct link_cut *out);

// The rate of all together, in rates of one pair alone, which is their mean.
double link_cut_rate(const struct link_cut *cut);

// A line if the pair in the middle is slowed by the others, and one for each pair that is slowed more than that.
// hosts: of all. Writes at most `most` lines and returns how many there are.
size_t link_cut_texts(const struct link_cut *cut, const struct link_host *hosts, char (*texts)[LINK_TEXT_BYTES],
                      size_t most);
