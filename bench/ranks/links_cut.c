// SPDX-License-Identifier: Apache-2.0
// The lane `cut` of `bench links`: rounds of one pair each, then of 2, 4, 8 and so on together, then of all, in turn.
#include "bench/ranks/links.h"

#include "bench/harness/bench_world.h"
#include "results/limits/link_cut.h"

#include "base/err.h"

#include <math.h>

enum { TOGETHER_MAX = 16 };

struct cut_rounds {
    int count;
    size_t pairs[TOGETHER_MAX];  // of each round after those of one pair
};

// Two pairs or more: 2, 4, 8 and so on, and all.
static void choose_rounds(size_t count, struct cut_rounds *out)
{
    out->count = 0;
    for (size_t pairs = 2; pairs < count; pairs *= 2)
        out->pairs[out->count++] = pairs;
    out->pairs[out->count++] = count;
}

static void let_meet(struct links *links, const struct link_cut *cut, int round, size_t first, size_t count)
{
    int *partners = &links->partners[round * links->count];
    for (size_t i = first; i < first + count; i++) {
        partners[cut->a[i]] = (int)cut->b[i];
        partners[cut->b[i]] = (int)cut->a[i];
    }
}

// The time of a pair in a repetition of a round: the longer one of its two hosts'.
static double time_of(const struct links *links, const struct link_cut *cut, size_t pair, int round, size_t repetition)
{
    return fmax(*links_time_at(links, links->members[cut->a[pair]], round, repetition),
                *links_time_at(links, links->members[cut->b[pair]], round, repetition));
}

static double median_of(const struct links *links, const struct link_cut *cut, size_t pair, int round)
{
    double times[BENCH_REPEAT_MAX];
    for (size_t i = 0; i < links->repeat; i++)
        times[i] = time_of(links, cut, pair, round, i);
    return statistics_median(times, links->repeat);
}

// The sum of the pairs' rates: in one round, or each in its own.
static void sum_rates(const struct links *links, const struct link_cut *cut, size_t pairs, int round,
                      struct bench_samples *out)
{
    out->count = links->repeat;
    for (size_t i = 0; i < links->repeat; i++) {
        out->values[i] = 0;
        for (size_t pair = 0; pair < pairs; pair++)
            out->values[i] += (double)links->lane->bytes / time_of(links, cut, pair, round < 0 ? (int)pair : round, i);
    }
}

static int print(const struct links *links, const struct link_cut *cut, size_t pairs, int round, uint64_t begin_ns,
                 const struct bench_options *options)
{
    struct bench_samples together, alone;
    json_t *shares = json_object();
    sum_rates(links, cut, pairs, round, &together);
    sum_rates(links, cut, pairs, -1, &alone);
    for (size_t pair = 0; pair < pairs; pair++) {
        char ranks[32];
        snprintf(ranks, sizeof ranks, "%d %d", links->members[cut->a[pair]], links->members[cut->b[pair]]);
        json_object_set_new(shares, ranks,
                            json_real(median_of(links, cut, pair, (int)pair) / median_of(links, cut, pair, round)));
    }
    struct bench_record record = {
        .name = "links",
        .description = json_pack("{s:s, s:I, s:i, s:i, s:I}", "lane", "cut", "pairs", (json_int_t)pairs, "world",
                                 comm_world(links->comm), "hosts", bench_world_host_count(), "bytes",
                                 (json_int_t)links->lane->bytes),
        .detail = json_pack("{s:o}", "share_of_alone", shares),
        .unit = links->lane->unit,
        .items = links->lane->exchanges * (double)links->lane->bytes * (double)pairs,
        .begin_ns = begin_ns,
        .samples = &together,
        .baseline_name = "each pair alone",
        .baseline = &alone,
    };
    return bench_print(options, &record);
}

static int print_all(const struct links *links, struct link_cut *cut, const struct cut_rounds *rounds,
                     uint64_t begin_ns, const struct bench_options *options)
{
    struct link_host hosts[STATISTICS_COUNT_MAX];
    char texts[LINKS_SHOWN][LINK_TEXT_BYTES];
    for (int i = 0; i < rounds->count; i++)
        TRY(print(links, cut, rounds->pairs[i], (int)cut->count + i, begin_ns, options));
    for (size_t pair = 0; pair < cut->count; pair++) {
        cut->alone[pair] = median_of(links, cut, pair, (int)pair);
        cut->together[pair] = median_of(links, cut, pair, links->rounds - 1);
    }
    links_hosts(links, hosts);
    if (!options->json)
        links_show(texts, link_cut_texts(cut, hosts, texts, LINKS_SHOWN), links->lane->name);
    return ERR_NONE;
}

static int measure(struct links *links, struct link_cut *cut, const struct link_lane *lane,
                   const struct bench_options *options)
{
    struct cut_rounds rounds;
    uint64_t begin_ns = clock_now_ns();
    choose_rounds(cut->count, &rounds);
    TRY(links_open_rounds(links, (int)cut->count + rounds.count));
    for (int i = 0; i < links->rounds; i++) {
        bool is_alone = i < (int)cut->count;
        let_meet(links, cut, i, is_alone ? (size_t)i : 0, is_alone ? 1 : rounds.pairs[i - (int)cut->count]);
    }
    TRY(links_measure(links, lane, options));
    return comm_rank(links->comm) == 0 ? print_all(links, cut, &rounds, begin_ns, options) : ERR_NONE;
}

int links_cut(const struct links *links, size_t *groups, const struct link_lane *lane,
              const struct bench_options *options)
{
    struct link_cut cut;
    struct link_lane own_lane = {"cut", lane->unit, lane->is_time, lane->bytes, lane->exchanges};
    struct links own = *links;
    TRY(comm_broadcast(links->comm, groups, (size_t)links->count * sizeof *groups, 0));
    link_cut_choose(groups, (size_t)links->count, &cut);
    if (cut.count < 2)
        return ERR_NONE;
    own.partners = NULL;
    own.times = NULL;
    int rc = measure(&own, &cut, &own_lane, options);
    own.members = NULL;  // not its own
    links_close(&own);
    return rc;
}
