// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench links`: what lies between hosts, measured in pairs under a launcher. The first rank of each host, or
// on one host every rank, exchanges a few bytes (`ping`) and many (`bandwidth`) with one partner after the other, all
// pairs of a round at once, each in both directions. A rank counts by its fastest partner: a slow link of its own slows
// it with all of them, a partner's with one. So the rank that is slow beyond results/limits/outlier.h is the one whose
// link is.
#include "bench/harness/bench.h"
#include "bench/harness/bench_world.h"
#include "results/limits/outlier.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int links_main(int argc, const char **argv);

const struct benchmark bench_links = {
    .name = "links",
    .run = links_main,
    .uses = BENCH_USES_NOTHING,
    .together = true,
    .summary = "what lies between hosts, in pairs: whose link is slow",
    .examples = {"mpirun -n 4 --host one,two,three,four zerogauge bench links",
                 "srun -N 8 zerogauge bench links --json"},
};

enum {
    PARTNERS_MAX = 8,
    PING_BYTES = 8,
    PING_EXCHANGES = 64,
    BANDWIDTH_EXCHANGES = 4,
    BANDWIDTH_BYTES = 1 << 20,
    BANDWIDTH_QUICK_BYTES = 256 << 10,
};

struct link_lane {
    const char *name, *unit;  // times, or rates
    bool is_time;
    size_t bytes;
    int exchanges;  // in a sample
};

struct links {
    struct comm *comm;
    const struct link_lane *lane;
    int *members;    // ranks that take part, ascending
    int count, own;  // own: this rank's place among them; -1: it takes no part
    int rounds;
    size_t repeat;
    double *times;  // ns an exchange, [rank][round][repeat]; NAN where a rank has no partner
    uint64_t *send, *recv;
    uint64_t wrong_count;  // words that did not arrive, of all rounds
};

// A round-robin tournament: in round r of an odd number m of places, i meets (2r - i) mod m; of an even number, the
// last one meets whoever would meet itself. The place of the partner, or -1.
static int partner_of(int count, int round, int position)
{
    int m = count % 2 == 0 ? count - 1 : count;
    if (position == m)
        return round;
    int other = (2 * round - position + 2 * m) % m;
    if (other != position)
        return other;
    return count % 2 == 0 ? m : -1;
}

static size_t words_of(const struct link_lane *lane)
{
    return (lane->bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

// What a rank sends in a repetition of a round.
static uint64_t word_at(int rank, size_t repetition, size_t i)
{
    return random_at(random_key((uint64_t)rank, repetition), i);
}

// One sample of this rank with its partner. The two meet first, so that neither waits for the other while it is timed.
static int sample(struct links *links, int peer, size_t repetition, double *ns)
{
    const struct link_lane *lane = links->lane;
    size_t words = words_of(lane);
    for (size_t i = 0; i < words; i++)
        links->send[i] = word_at(comm_rank(links->comm), repetition, i);
    TRY(comm_exchange(links->comm, peer, links->send, links->recv, sizeof(uint64_t)));
    memset(links->recv, 0, words * sizeof *links->recv);
    uint64_t begin = bench_now_ns();
    for (int i = 0; i < lane->exchanges; i++)
        TRY(comm_exchange(links->comm, peer, links->send, links->recv, words * sizeof *links->send));
    *ns = (double)(bench_now_ns() - begin) / lane->exchanges;
    for (size_t i = 0; i < words; i++)
        links->wrong_count += links->recv[i] != word_at(peer, repetition, i);
    return ERR_NONE;
}

static double *time_at(const struct links *links, int rank, int round, size_t repetition)
{
    return &links->times[((size_t)rank * (size_t)links->rounds + (size_t)round) * links->repeat + repetition];
}

static int take_turns(struct links *links, const struct bench_options *options)
{
    int rank = comm_rank(links->comm);
    for (size_t i = 0; i < options->warmup + options->repeat; i++) {
        bench_progress("links %s, round %zu of %zu", links->lane->name, i + 1, options->warmup + options->repeat);
        for (int round = 0; round < links->rounds; round++) {
            int position = links->own < 0 ? -1 : partner_of(links->count, round, links->own);
            double ns = NAN;
            TRY(comm_barrier(links->comm));
            if (position >= 0)
                TRY(sample(links, links->members[position], i, &ns));
            if (i >= options->warmup)
                *time_at(links, rank, round, i - options->warmup) = ns;
        }
    }
    return ERR_NONE;
}

// Every rank's times, and how much was wrong, to all.
static int share(struct links *links)
{
    size_t world = (size_t)comm_world(links->comm), each = (size_t)links->rounds * links->repeat * sizeof(double);
    size_t *numbers = calloc(2 * world, sizeof *numbers);
    uint64_t *wrong = calloc(world, sizeof *wrong);
    int rc = numbers && wrong ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the times of %zu ranks", world);
    for (size_t pass = 0; pass < 2 && rc == ERR_NONE; pass++) {
        size_t bytes = pass == 0 ? each : sizeof *wrong;
        for (size_t i = 0; i < world; i++) {
            numbers[i] = bytes;
            numbers[world + i] = i * bytes;
        }
        void *all = pass == 0 ? (void *)links->times : wrong;
        const char *own =
            pass == 0 ? (char *)all + (size_t)comm_rank(links->comm) * bytes : (char *)&links->wrong_count;
        rc = comm_all_gather(links->comm, own, all, numbers, numbers + world, DTYPE_BYTE);
    }
    for (size_t i = 0; i < world && rc == ERR_NONE; i++)
        if (wrong[i] > 0)
            rc = err_set(ERR_CHECK, "links: %llu words that rank %zu (host %s) received are not what was sent",
                         (unsigned long long)wrong[i], i, bench_world_host((int)i));
    free(wrong);
    free(numbers);
    return rc;
}

// Of a rank in a round, the median; NAN where it had no partner.
static double median_with(const struct links *links, int rank, int round)
{
    const double *times = time_at(links, rank, round, 0);
    return isnan(times[0]) ? NAN : statistics_median(times, links->repeat);
}

static void choose_samples(const struct links *links, int rank, struct bench_samples *out)
{
    out->count = links->repeat;
    for (size_t i = 0; i < links->repeat; i++) {
        double least = NAN;
        for (int round = 0; round < links->rounds; round++)
            least = fmin(least, *time_at(links, rank, round, i));
        out->values[i] = links->lane->is_time ? least : (double)links->lane->bytes / least;
    }
}

static int print(const struct links *links, int position, const struct bench_samples *samples, uint64_t begin_ns,
                 const struct bench_options *options)
{
    const struct link_lane *lane = links->lane;
    int rank = links->members[position], partners = 0, slowest = -1;
    double most = 0;
    for (int round = 0; round < links->rounds; round++) {
        double ns = median_with(links, rank, round);
        partners += !isnan(ns);
        if (ns > most) {
            most = ns;
            slowest = links->members[partner_of(links->count, round, position)];
        }
    }
    struct bench_record record = {
        .name = "links",
        .description = json_pack("{s:s, s:i, s:i, s:s, s:i, s:I}", "lane", lane->name, "rank", rank, "world",
                                 comm_world(links->comm), "host", bench_world_host(rank), "hosts",
                                 bench_world_host_count(), "bytes", (json_int_t)lane->bytes),
        .detail = json_pack("{s:i, s:i, s:s, s:f}", "partners", partners, "slowest_partner", slowest,
                            "slowest_partner_host", bench_world_host(slowest), "slowest_us", most / 1e3),
        .unit = lane->unit,
        .lower_is_better = lane->is_time,
        .verified = true,
        .items = lane->exchanges * (lane->is_time ? 1 : (double)lane->bytes),
        .begin_ns = begin_ns,
        .samples = samples,
    };
    return bench_print(options, &record);
}

// A reader is told whose link it is; in results `zerogauge validate` judges it by the same rule.
static void print_outliers(const struct links *links, const struct bench_samples *samples)
{
    double times[STATISTICS_COUNT_MAX], centre;
    size_t count = (size_t)links->count;
    if (count < 2 || count > STATISTICS_COUNT_MAX)
        return;
    for (size_t i = 0; i < count; i++) {
        double median = bench_median(&samples[i]);
        times[i] = links->lane->is_time ? median : 1 / median;
    }
    for (size_t i = 0; i < count; i++)
        if (outlier_is(times, count, i, &centre))
            printf("OUTLIER  the link of host %s (rank %d) takes %.2f times as long as the median in the lane %s\n",
                   bench_world_host(links->members[i]), links->members[i], times[i] / centre, links->lane->name);
}

static int print_all(const struct links *links, uint64_t begin_ns, const struct bench_options *options)
{
    struct bench_samples *samples = calloc((size_t)links->count, sizeof *samples);
    int rc = samples ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the samples of %d links", links->count);
    for (int i = 0; i < links->count && rc == ERR_NONE; i++) {
        choose_samples(links, links->members[i], &samples[i]);
        rc = print(links, i, &samples[i], begin_ns, options);
    }
    if (rc == ERR_NONE && !options->json)
        print_outliers(links, samples);
    free(samples);
    return rc;
}

static int run_lane(struct links *links, const struct link_lane *lane, const struct bench_options *options)
{
    size_t bytes = words_of(lane) * sizeof(uint64_t);
    uint64_t begin_ns = bench_now_ns();
    links->lane = lane;
    links->send = bench_alloc(bytes, 1);
    links->recv = bench_alloc(bytes, 1);
    int rc = links->send && links->recv ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %zu bytes", 2 * bytes);
    if (rc == ERR_NONE)
        rc = take_turns(links, options);
    if (rc == ERR_NONE)
        rc = share(links);
    if (rc == ERR_NONE && comm_rank(links->comm) == 0)
        rc = print_all(links, begin_ns, options);
    bench_free(links->send, bytes);
    bench_free(links->recv, bytes);
    return rc;
}

// The first rank of each host; on one host, all.
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
    int all = links->count % 2 == 0 ? links->count - 1 : links->count;
    links->rounds = all < PARTNERS_MAX ? all : PARTNERS_MAX;
}

static int links_bench(struct bench_options *options)
{
    static const size_t large = BANDWIDTH_BYTES, quick = BANDWIDTH_QUICK_BYTES;
    struct links links = {.comm = bench_world_comm()};
    if (options->size_count > 1 || options->thread_count > 0)
        return err_set(ERR_USAGE, "--sizes has one size here, of the bandwidth's message; --threads has no meaning");
    if (!links.comm)
        return bench_skip("links: one process alone has none; start several with mpirun or srun");
    bench_default_sizes(options, options->quick ? &quick : &large, 1);
    bench_default_repeat(options, 25, 9, 2);
    links.repeat = options->repeat;
    links.members = calloc((size_t)comm_world(links.comm), sizeof *links.members);
    if (links.members)
        choose_members(&links);
    links.times = calloc((size_t)comm_world(links.comm) * (size_t)links.rounds * links.repeat + 1, sizeof(double));
    const struct link_lane lanes[] = {{"ping", "ns", true, PING_BYTES, PING_EXCHANGES},
                                      {"bandwidth", "GB/s", false, options->sizes[0], BANDWIDTH_EXCHANGES}};
    int rc = links.members && links.times ? ERR_NONE : err_set(ERR_MEMORY, "no memory for links");
    for (size_t i = 0; i < 2 && rc == ERR_NONE; i++)
        rc = run_lane(&links, &lanes[i], options);
    free(links.times);
    free(links.members);
    return rc;
}

static int links_main(int argc, const char **argv)
{
    struct bench_options options;
    int code = bench_parse(argc, argv, &bench_links, NULL, &options);
    if (code == ERR_NONE && !options.help)
        code = links_bench(&options);
    bench_release(&options);
    return bench_exit("links", code);
}
