// SPDX-License-Identifier: Apache-2.0
// Exchanges between pairs of ranks, for `bench links`: every rank measures with one partner after the other. Up to
// LINKS_ALL_PAIRS members meet each other member once, as in a round-robin tournament. More are bisected: the first
// half meets the second, then each half's first half its second, and so on, so that all links of each level of a
// network are used together. Then pairs across a cut of the network, each alone and several together, show what they
// share (results/limits/link_cut.h).
#pragma once

#include "bench/harness/bench.h"
#include "ref/comm/comm.h"
#include "results/limits/link_map.h"

enum { LINKS_ALL_PAIRS = 256 };

struct link_lane {
    const char *name, *unit;
    bool is_time;
    size_t bytes;
    int exchanges;  // per sample
};

struct links {
    struct comm *comm;
    const struct link_lane *lane;
    int *members;    // [world]: the first `count` are the ranks that take part, ascending
    int count, own;  // own: this rank's position among them; -1: it takes no part
    int rounds;
    int *partners;  // [rounds][count]: the position that a position meets; -1: none
    size_t repeat;
    double *times;          // ns per exchange, [rank][round][repeat]; NAN: no partner
    uint64_t *send, *recv;  // of one lane's messages
    uint64_t wrong_count;   // words received wrong, in all rounds
};

// Chooses the ranks that take part: the first of each host, or on one host all. `comm` and `repeat` are set.
// ERR_MEMORY. Close in every case.
int links_open(struct links *links);
void links_close(struct links *links);

// Sets rounds and, to -1, partners, and makes room for times. ERR_MEMORY.
int links_open_rounds(struct links *links, int rounds);

// Measures a lane; all ranks of the world call this together. Afterwards every rank has all times. ERR_CHECK: a rank
// received wrong data.
int links_measure(struct links *links, const struct link_lane *lane, const struct bench_options *options);

// Returns the number of rounds of `count` members, and the position that a position meets in a round; -1: none.
int links_rounds(int count);
int links_partner_position(int count, int round, int position);

// Returns the rank that the member at `position` meets in a round; -1: none.
int links_partner(const struct links *links, int round, int position);

// The time of an exchange in ns; NAN: the rank has no partner then.
double *links_time_at(const struct links *links, int rank, int round, size_t repetition);

// Returns a rank's median time in a round, in ns; NAN if it had no partner.
double links_median_ns(const struct links *links, int rank, int round);

// Sets a rank's samples, in the lane's unit: those with its fastest partner.
void links_samples(const struct links *links, int rank, struct bench_samples *out);

// Measures pairs across a cut of the network with the messages of a lane, and prints a record of 2, 4, 8 and so on
// together, and of all. All ranks of the world call this together, of at most STATISTICS_COUNT_MAX members. groups:
// [count], as link_map_group sets them, on rank 0.
int links_cut(const struct links *links, size_t *groups, const struct link_lane *lane,
              const struct bench_options *options);

// Sets the name and the rank of each member.
void links_hosts(const struct links *links, struct link_host *out);

// Prints up to LINKS_SHOWN of `count` lines, and says how many more there are.
enum { LINKS_SHOWN = 20 };
void links_show(char (*texts)[LINK_TEXT_BYTES], size_t count, const char *lane);
