// SPDX-License-Identifier: Apache-2.0
#include "bench/ranks/links.h"

#include "bench/harness/bench_world.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void choose_members(struct links *links)
{
    int rank = comm_rank(links->comm);
    links->own = -1;
    for (int i = 0; i < comm_world(links->comm); i++) {
        bool first = true;
        for (int before = 0; before < links->count && bench_world_host_count() > 1; before++)
            first &= strcmp(bench_world_host(links->members[before]), bench_world_host(i)) != 0;
        if (!first)
            continue;
        links->own = i == rank ? links->count : links->own;
        links->members[links->count++] = i;
    }
}

int links_open_rounds(struct links *links, int rounds)
{
    size_t places = (size_t)rounds * (size_t)links->count;
    links->rounds = rounds;
    links->partners = malloc((places + 1) * sizeof *links->partners);
    links->times = calloc((size_t)comm_world(links->comm) * (size_t)rounds * links->repeat + 1, sizeof *links->times);
    if (!links->partners || !links->times)
        return err_set(ERR_MEMORY, "no memory for the links of %d ranks", links->count);
    for (size_t i = 0; i < places; i++)
        links->partners[i] = -1;
    return ERR_NONE;
}

int links_open(struct links *links)
{
    links->members = calloc((size_t)comm_world(links->comm), sizeof *links->members);
    if (!links->members)
        return err_set(ERR_MEMORY, "no memory for %d ranks", comm_world(links->comm));
    choose_members(links);
    TRY(links_open_rounds(links, links_rounds(links->count)));
    for (int round = 0; round < links->rounds; round++)
        for (int i = 0; i < links->count; i++)
            links->partners[round * links->count + i] = links_partner_position(links->count, round, i);
    return ERR_NONE;
}

void links_close(struct links *links)
{
    free(links->members);
    free(links->partners);
    free(links->times);
}

int links_rounds(int count)
{
    int rounds = 0;
    if (count <= LINKS_ALL_PAIRS)
        return count % 2 == 0 ? count - 1 : count;
    for (int part = count; part > 1; part = (part + 1) / 2)
        rounds++;
    return rounds;
}

// Of an odd number, the one in the middle rests and then begins the second half.
static int bisected_partner(int count, int round, int position)
{
    int first = 0;
    for (; round > 0; round--) {
        bool second = position - first >= count / 2;
        first += second ? count / 2 : 0;
        count = second ? count - count / 2 : count / 2;
    }
    int at = position - first, half = count / 2, distance = count - half;
    return at < half ? position + distance : at >= distance ? position - distance : -1;
}

// In round r among an odd number m of positions, i meets (2r - i) mod m; among an even number, the last position meets
// the one that would meet itself.
static int tournament_partner(int count, int round, int position)
{
    int m = count % 2 == 0 ? count - 1 : count;
    if (position == m)
        return round;
    int other = (2 * round - position + 2 * m) % m;
    if (other != position)
        return other;
    return count % 2 == 0 ? m : -1;
}

int links_partner_position(int count, int round, int position)
{
    assert(round >= 0 && round < links_rounds(count) && position >= 0 && position < count);
    return count <= LINKS_ALL_PAIRS ? tournament_partner(count, round, position)
                                    : bisected_partner(count, round, position);
}

static size_t words_of(const struct link_lane *lane)
{
    return (lane->bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

// The data that a rank sends in a repetition.
static uint64_t word_at(int rank, size_t repetition, size_t i)
{
    return random_at(random_key((uint64_t)rank, repetition), i);
}

// Takes one sample with a partner. Both synchronise first, so that neither waits for the other while it is timed.
static int sample(struct links *links, int peer, size_t repetition, double *ns)
{
    const struct link_lane *lane = links->lane;
    size_t words = words_of(lane);
    for (size_t i = 0; i < words; i++)
        links->send[i] = word_at(comm_rank(links->comm), repetition, i);
    TRY(comm_exchange(links->comm, peer, links->send, links->recv, sizeof(uint64_t)));
    memset(links->recv, 0, words * sizeof *links->recv);
    uint64_t begin = clock_now_ns();
    for (int i = 0; i < lane->exchanges; i++)
        TRY(comm_exchange(links->comm, peer, links->send, links->recv, words * sizeof *links->send));
    *ns = (double)(clock_now_ns() - begin) / lane->exchanges;
    for (size_t i = 0; i < words; i++)
        links->wrong_count += links->recv[i] != word_at(peer, repetition, i);
    return ERR_NONE;
}

double *links_time_at(const struct links *links, int rank, int round, size_t repetition)
{
    return &links->times[((size_t)rank * (size_t)links->rounds + (size_t)round) * links->repeat + repetition];
}

static int take_turns(struct links *links, const struct bench_options *options)
{
    int rank = comm_rank(links->comm);
    for (size_t i = 0; i < options->warmup + options->repeat; i++) {
        for (int round = 0; round < links->rounds; round++) {
            bench_progress("links %s, sample %zu of %zu, round %d of %d", links->lane->name, i + 1,
                           options->warmup + options->repeat, round + 1, links->rounds);
            int partner = links->own < 0 ? -1 : links_partner(links, round, links->own);
            double ns = NAN;
            TRY(comm_barrier(links->comm));
            if (partner >= 0)
                TRY(sample(links, partner, i, &ns));
            if (i >= options->warmup)
                *links_time_at(links, rank, round, i - options->warmup) = ns;
        }
    }
    return ERR_NONE;
}

// Sends every rank's times, and its number of wrong words, to all ranks.
static int share_times(struct links *links)
{
    size_t world = (size_t)comm_world(links->comm), each = (size_t)links->rounds * links->repeat * sizeof(double);
    uint64_t *wrong = calloc(world, sizeof *wrong);
    int rc = wrong ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the counts of %zu ranks", world);
    if (rc == ERR_NONE)
        rc = comm_all_gather_equal(links->comm, (char *)links->times + (size_t)comm_rank(links->comm) * each,
                                   links->times, each);
    if (rc == ERR_NONE)
        rc = comm_all_gather_equal(links->comm, &links->wrong_count, wrong, sizeof *wrong);
    for (size_t i = 0; i < world && rc == ERR_NONE; i++)
        if (wrong[i] > 0)
            rc = err_set(ERR_CHECK, "links: %llu words that rank %zu (host %s) received are wrong",
                         (unsigned long long)wrong[i], i, bench_world_host((int)i));
    free(wrong);
    return rc;
}

double links_median_ns(const struct links *links, int rank, int round)
{
    const double *times = links_time_at(links, rank, round, 0);
    return isnan(times[0]) ? NAN : statistics_median(times, links->repeat);
}

void links_samples(const struct links *links, int rank, struct bench_samples *out)
{
    out->count = links->repeat;
    for (size_t i = 0; i < links->repeat; i++) {
        double least = NAN;
        for (int round = 0; round < links->rounds; round++)
            least = fmin(least, *links_time_at(links, rank, round, i));
        out->values[i] = links->lane->is_time ? least : (double)links->lane->bytes / least;
    }
}

int links_partner(const struct links *links, int round, int position)
{
    int partner = links->partners[round * links->count + position];
    return partner < 0 ? -1 : links->members[partner];
}

int links_measure(struct links *links, const struct link_lane *lane, const struct bench_options *options)
{
    size_t bytes = words_of(lane) * sizeof(uint64_t);
    assert(links->comm && links->repeat == options->repeat);
    links->lane = lane;
    links->send = bench_alloc(bytes, 1);
    links->recv = bench_alloc(bytes, 1);
    int code = links->send && links->recv ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %zu bytes", 2 * bytes);
    if (code == ERR_NONE)
        code = take_turns(links, options);
    if (code == ERR_NONE)
        code = share_times(links);
    bench_free(links->send, bytes);
    bench_free(links->recv, bytes);
    return code;
}

void links_hosts(const struct links *links, struct link_host *out)
{
    for (int i = 0; i < links->count; i++)
        out[i] = (struct link_host){bench_world_host(links->members[i]), links->members[i]};
}

void links_show(char (*texts)[LINK_TEXT_BYTES], size_t count, const char *lane)
{
    for (size_t i = 0; i < count && i < LINKS_SHOWN; i++)
        printf("%s\n", texts[i]);
    if (count > LINKS_SHOWN)
        printf("         and %zu more in the lane %s\n", count - LINKS_SHOWN, lane);
}
